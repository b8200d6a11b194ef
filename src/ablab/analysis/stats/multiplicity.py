"""Many tests at once: Holm for families, Benjamini-Hochberg for screens, each with intervals that agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray

Array = NDArray[np.float64]


def holm(p: ArrayLike) -> Array:
    """Holm's (1979) step-down adjusted p-values of (m,) p-values: family-wise error.

    Sorted upwards, p_(i) times (m - i + 1), made monotone from the smallest on, at most 1.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * (values.size - np.arange(values.size))
    return _unsort(np.minimum(np.maximum.accumulate(steps), 1.0), order)


def benjamini_hochberg(p: ArrayLike) -> Array:
    """Benjamini and Hochberg's (1995) adjusted p-values of (m,) p-values: false discovery rate.

    Sorted upwards, p_(i) times m / i, made monotone from the largest on, at most 1.
    """
    values = np.asarray(p, dtype=np.float64)
    order = np.argsort(values, kind="stable")
    steps = values[order] * values.size / (1 + np.arange(values.size))
    return _unsort(np.minimum(np.minimum.accumulate(steps[::-1])[::-1], 1.0), order)


def holm_levels(p: ArrayLike, alpha: float) -> Array:
    """The level at which Holm tested each hypothesis: alpha / (m - rank), up to the first failure.

    Everything from the first failure on carries that failure's level, so that p <= level exactly where Holm
    rejects.
    """
    values = np.asarray(p, dtype=np.float64)
    m = values.size
    order = np.argsort(values, kind="stable")
    steps = alpha / (m - np.arange(m))
    failed = np.flatnonzero(values[order] > steps)
    if failed.size:
        steps[failed[0] :] = steps[failed[0]]
    return _unsort(steps, order)


def bh_level(p: ArrayLike, alpha: float) -> float:
    """The common level R alpha / m of a screen with R discoveries (at least 1): p <= level where BH rejects.

    Intervals at that level have false coverage rate alpha (Benjamini and Yekutieli 2005).
    """
    values = np.asarray(p, dtype=np.float64)
    found = int((benjamini_hochberg(values) <= alpha).sum())
    return alpha * max(found, 1) / max(values.size, 1)


def _unsort(values: Array, order: NDArray[np.intp]) -> Array:
    out = np.empty_like(values)
    out[order] = values
    return out
