"""How long runs took and how fast they were, from what they measured themselves."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from ablab.analysis.curves import hours
from ablab.analysis.levels import finite
from ablab.analysis.read import Run


def seconds(run: Run) -> float | None:
    """Training time of a run in seconds, where its status or its rows tell."""
    for key in ("seconds", "wall_seconds", "train_seconds"):
        if (known := finite(run.status.get(key))) is not None:
            return known
    spent = hours(run)
    if spent is None or not np.isfinite(spent).any():
        return None
    return float(np.nanmax(spent)) * 3600.0


def speed(runs: Sequence[Run]) -> float | None:
    """Median tokens per second over runs, each its own median, the first value of a run left out as warm-up."""
    medians = []
    for run in runs:
        values = run.points("tokens_per_second")[1]
        values = values[1:] if len(values) > 2 else values
        if len(values):
            medians.append(float(np.median(values)))
    return float(np.median(medians)) if medians else None


def memory(runs: Sequence[Run]) -> float | None:
    """Largest peak memory over runs in bytes, where their status tells."""
    known = [finite(run.status.get(key)) for run in runs for key in ("peak_memory", "memory", "peak_memory_bytes")]
    values = [value for value in known if value is not None]
    return max(values) if values else None
