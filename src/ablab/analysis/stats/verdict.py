"""From an interval to words. Lower loss is better."""

from __future__ import annotations

import math

Interval = tuple[float, float]


def verdict(ci: Interval | None, ci_equivalence: Interval | None, margin: float) -> str:
    """`better`, `worse`, `equivalent` or `inconclusive`, in that order of precedence.

    `ci` is the simultaneous interval of variant - baseline, `ci_equivalence` the family-corrected one at
    1 - 2 alpha; None (fewer than three seeds) is inconclusive.
    """
    if ci is None or not all(map(math.isfinite, ci)):
        return "inconclusive"
    if ci[1] < 0:
        return "better"
    if ci[0] > 0:
        return "worse"
    return "equivalent" if ci_equivalence is not None and within(ci_equivalence, margin) else "inconclusive"


def practical(ci: Interval | None, margin: float) -> str:
    """`yes` when the interval lies wholly outside +-margin, `no` when wholly inside, else `unclear`."""
    if ci is None or not all(map(math.isfinite, ci)):
        return "unclear"
    if ci[1] < -margin or ci[0] > margin:
        return "yes"
    return "no" if within(ci, margin) else "unclear"


def within(ci: Interval, margin: float) -> bool:
    """Whether the interval lies within [-margin, margin]."""
    return -margin <= ci[0] and ci[1] <= margin
