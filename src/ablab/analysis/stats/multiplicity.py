"""Many tests at once: Holm for families, Benjamini-Hochberg for screens, each with intervals that agree."""

from __future__ import annotations

import numpy as np
from numpy.typing import ArrayLike, NDArray
from statsmodels.stats.multitest import multipletests

Array = NDArray[np.float64]


def holm(p: ArrayLike) -> Array:
    """Holm's (1979) step-down adjusted p-values of (m,) p-values: family-wise error."""
    values = np.asarray(p, dtype=np.float64)
    return values.copy() if values.size == 0 else np.asarray(multipletests(values, method="holm")[1])


def benjamini_hochberg(p: ArrayLike) -> Array:
    """Benjamini and Hochberg's (1995) adjusted p-values of (m,) p-values: false discovery rate."""
    values = np.asarray(p, dtype=np.float64)
    return values.copy() if values.size == 0 else np.asarray(multipletests(values, method="fdr_bh")[1])


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
    levels = np.empty(m)
    levels[order] = steps
    return levels


def bh_level(p: ArrayLike, alpha: float) -> float:
    """The common level R alpha / m of a screen with R discoveries (at least 1): p <= level where BH rejects.

    Intervals at that level have false coverage rate alpha (Benjamini and Yekutieli 2005).
    """
    values = np.asarray(p, dtype=np.float64)
    found = int((benjamini_hochberg(values) <= alpha).sum())
    return alpha * max(found, 1) / max(values.size, 1)
