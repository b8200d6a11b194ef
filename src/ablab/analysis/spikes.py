"""Spike scores of many curves: a cheap look first, the exact score only where there may be a spike."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablab.analysis.read import Run

NEAR = 6.0  # standard deviations below which a value is surely no spike of seven


def training_rows(run: Run, metric: str) -> NDArray[Any]:
    """Values of a training metric in the rows that have training numbers: in others, those of an evaluation between two
    lines of the log or of step 0, nothing is missing. A value that was not finite stays NaN."""
    values = run.history[metric]
    known = [np.isfinite(run.history[key]) for key in ("lr", "train/loss", "train/grad_norm") if key in run.history]
    return values[np.any(known, axis=0)] if known else values


def score(values: NDArray[Any]) -> float | None:
    """Spike score of a curve in per cent, as `ablab.analysis.stats.spike_score`."""
    from ablab.analysis.stats.curves import spike_score, spike_window

    return 0.0 if _calm(values, spike_window(len(values))) else spike_score(values)


def _calm(values: NDArray[Any], window: int) -> bool:
    """Whether no value lies near seven standard deviations from those before it (all finite, windows not flat)."""
    if len(values) <= window or not np.isfinite(values).all():
        return False
    centred = values - values.mean()
    sums, squares = (np.concatenate([[0.0], np.cumsum(part)]) for part in (centred, centred**2))
    mean = (sums[window:-1] - sums[: -window - 1]) / window
    variance = (squares[window:-1] - squares[: -window - 1]) / window - mean**2
    flat = 1e-9 * float(np.max(centred**2))  # below it the difference of sums has lost its digits
    return bool(np.all(variance > flat) and np.all(np.abs(centred[window:] - mean) < NEAR * np.sqrt(variance)))
