"""Sums that keep their digits: two-pass means, variances and one-way analysis of variance."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats


def mean(values: ArrayLike) -> float:
    """Arithmetic mean, summed exactly (`math.fsum`) and corrected by the mean residual; NaN when empty."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size == 0:
        return math.nan
    first = math.fsum(x) / x.size
    if not math.isfinite(first):
        return first
    return first + math.fsum(x - first) / x.size


def sum_squares(values: ArrayLike) -> float:
    """Sum of squared deviations from the mean, in two passes with Chan's correction for the mean's rounding.

    Source: Chan, Golub, LeVeque (1983), "Algorithms for computing the sample variance", eq. 1.7.
    """
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size == 0:
        return 0.0
    rest = x - mean(x)
    return max(math.fsum(rest * rest) - math.fsum(rest) ** 2 / x.size, 0.0)


def variance(values: ArrayLike) -> float:
    """Sample variance (ddof 1); NaN below two values."""
    x = np.asarray(values, dtype=np.float64).ravel()
    return sum_squares(x) / (x.size - 1) if x.size >= 2 else math.nan


def std(values: ArrayLike) -> float:
    """Sample standard deviation (ddof 1); NaN below two values."""
    return math.sqrt(variance(values))


@dataclass(frozen=True)
class OneWay:
    """A one-way analysis of variance: sums of squares, degrees of freedom, F and its p-value."""

    between: float
    within: float
    df_between: int
    df_within: int
    F: float
    p: float
    r_squared: float
    residual_std: float


def one_way(groups: Sequence[ArrayLike]) -> OneWay:
    """One-way ANOVA of `groups`, each a 1-D array of values.

    Every value is first reduced by the grand mean, so that large common offsets cost no digits
    (NIST StRD, one-way sets of levels 1 and 2).
    """
    arrays: list[NDArray[np.float64]] = [np.asarray(g, dtype=np.float64).ravel() for g in groups]
    centre = mean(np.concatenate(arrays))
    arrays = [a - centre for a in arrays]
    count = sum(a.size for a in arrays)
    grand = mean(np.concatenate(arrays))
    between = math.fsum(a.size * (mean(a) - grand) ** 2 for a in arrays)
    within = math.fsum(sum_squares(a) for a in arrays)
    df_between, df_within = len(arrays) - 1, count - len(arrays)
    residual = within / df_within if df_within else math.nan
    F = (between / df_between) / residual if residual > 0 else math.nan
    p = float(stats.f.sf(F, df_between, df_within))
    return OneWay(between, within, df_between, df_within, F, p, between / (between + within), math.sqrt(residual))
