"""Curves over training: means that never jump, paired differences, and fewer points for drawing."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
from numpy.typing import NDArray

from ablab.analysis.read import Run

Array = NDArray[np.float64]
MAX_POINTS = 400


@dataclass(frozen=True)
class Curve:
    """x, mean, lowest and highest value over `n` runs, arrays of one length; `x` ends with the shortest run."""

    x: Array
    mean: Array
    low: Array
    high: Array
    n: int


def mean_curve(runs: Sequence[Run], metric: str, x: str = "step", points: int = MAX_POINTS) -> Curve | None:
    """Mean of a metric over runs, on the part that all of them cover, so that it cannot jump where one ends.

    Runs that were evaluated at the same steps are averaged there; otherwise values between two evaluations are
    interpolated. None where no run has a point.
    """
    series = [run.points(metric, x) for run in runs]
    series = [(places, values) for places, values in series if len(places)]
    if not series:
        return None
    start, end = max(float(p[0]) for p, _ in series), min(float(p[-1]) for p, _ in series)
    if end < start:
        return None
    grid = _grid([places for places, _ in series], start, end, points)
    table = np.stack([np.interp(grid, places, values) for places, values in series])
    return Curve(grid, table.mean(axis=0), table.min(axis=0), table.max(axis=0), len(series))


def _grid(places: Sequence[Array], start: float, end: float, points: int) -> Array:
    common = places[0]
    for other in places[1:]:
        common = np.intersect1d(common, other, assume_unique=True)
    common = common[(common >= start) & (common <= end)]
    if len(common) < max(2, min(map(len, places)) // 2):  # cadences differ: a grid of its own
        common = np.linspace(start, end, min(points, max(2, *map(len, places))))
    return thin_index(common, points)


def thin_index(x: Array, points: int = MAX_POINTS) -> Array:
    """At most `points` of the places, first and last kept."""
    if len(x) <= points:
        return x
    return x[np.unique(np.linspace(0, len(x) - 1, points).round().astype(int))]


def thin(x: Array, y: Array, points: int = MAX_POINTS) -> tuple[Array, Array]:
    """At most `points` places of a curve, each the mean of its stretch; first and last value stay as they are."""
    if len(x) <= points:
        return x, y
    edges = np.linspace(1, len(x) - 1, points - 1).round().astype(int)
    sizes = np.diff(edges)
    middle_x = np.add.reduceat(x, edges[:-1])[: len(sizes)]
    middle_y = np.add.reduceat(y, edges[:-1])[: len(sizes)]
    tail = len(x) - 1 - edges[-2]
    middle_x[-1] -= x[-1]
    middle_y[-1] -= y[-1]
    sizes[-1] = tail
    return (
        np.concatenate([x[:1], middle_x / sizes, x[-1:]]),
        np.concatenate([y[:1], middle_y / sizes, y[-1:]]),
    )


def difference_curve(variant: dict[int, Run], baseline: dict[int, Run], metric: str) -> list[tuple[int, Array, Array]]:
    """(seed, steps, variant − baseline) for each seed both have, at the steps at which both were evaluated."""
    found = []
    for seed in sorted(set(variant) & set(baseline)):
        (steps, values), (other_steps, other) = variant[seed].points(metric), baseline[seed].points(metric)
        common, mine, theirs = np.intersect1d(steps, other_steps, return_indices=True)
        if len(common):
            found.append((seed, common, values[mine] - other[theirs]))
    return found


def hours(run: Run) -> Array | None:
    """Time since the start of training in hours, one value per row; None where the run says nothing of speed.

    Taken from a logged clock if there is one, else from tokens and tokens per second.
    """
    history = run.history
    for name in ("seconds", "time/seconds", "elapsed", "_runtime"):
        if name in history and np.isfinite(history[name]).any():
            return history[name] / 3600.0
    if not {"tokens", "tokens_per_second"} <= set(history):
        return None
    speed, tokens = history["tokens_per_second"], history["tokens"]
    known = np.isfinite(speed) & (speed > 0)
    if not known.any() or not np.isfinite(tokens).all():
        return None
    places = np.flatnonzero(known)
    nearest = places[np.minimum(np.searchsorted(places, np.arange(len(speed))), len(places) - 1)]
    return np.asarray(np.cumsum(np.diff(tokens, prepend=0.0) / speed[nearest]) / 3600.0)


def with_axes(run: Run) -> Run:
    """The run with `minutes` and `flops` among its columns, where they can be known (in place; the run is returned)."""
    if "minutes" not in run.history and (spent := hours(run)) is not None:
        run.history["minutes"] = spent * 60.0
    per_token = run.status.get("flops_per_token")
    if "flops" not in run.history and "tokens" in run.history and isinstance(per_token, (int, float)):
        run.history["flops"] = run.history["tokens"] * float(per_token)
    return run


def best_point(runs: Sequence[Run], metric: str) -> dict[str, Any]:
    """Lowest value of a metric over whole runs: `{"loss", "step", "seed"}`, None where there is none."""
    best: dict[str, Any] = {"loss": None, "step": None, "seed": None}
    for run in runs:
        steps, values = run.points(metric)
        if len(values) and (best["loss"] is None or values.min() < best["loss"]):
            place = int(np.argmin(values))
            best = {"loss": float(values[place]), "step": int(steps[place]), "seed": run.seed}
    return best
