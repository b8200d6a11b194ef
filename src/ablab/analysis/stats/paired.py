"""One variant against the baseline on the seeds both finished."""

from __future__ import annotations

import math
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from . import sums
from .table import losses

MIN_SEEDS = 3
"""Below this many pairs no p-value and no interval is given."""


@dataclass(frozen=True)
class Pairs:
    """Paired differences variant - baseline: `seeds` (n,), `differences` (n,), mean, sd (ddof 1),
    correlation.
    """

    label: str
    baseline: str
    seeds: tuple[int, ...]
    differences: tuple[float, ...]
    mean: float
    std: float
    correlation: float

    @property
    def n(self) -> int:
        """Number of pairs."""
        return len(self.seeds)


def pairs(runs: pd.DataFrame, label: str, baseline: str) -> Pairs:
    """Differences d_s = loss(label, s) - loss(baseline, s) over the seeds that both finished."""
    return pair_up(label, baseline, losses(runs, label), losses(runs, baseline))


def pair_up(label: str, baseline: str, ours: pd.Series, theirs: pd.Series) -> Pairs:
    """The same from two Series of losses by seed."""
    both = pd.concat([ours, theirs], axis=1, join="inner").dropna().sort_index()
    variant, base = both.iloc[:, 0].to_numpy(), both.iloc[:, 1].to_numpy()
    d = subtract(variant, base)
    return Pairs(
        label,
        baseline,
        tuple(both.index),
        tuple(map(float, d)),
        sums.mean(d),
        sums.std(d),
        correlation(variant, base),
    )


def subtract(variant: ArrayLike, baseline: ArrayLike) -> NDArray[np.float64]:
    """variant - baseline, with differences of a few units in the last place taken as 0.

    Rounding alone would otherwise give differences that are tiny, all equal and therefore "significant".
    """
    x, y = np.asarray(variant, dtype=np.float64), np.asarray(baseline, dtype=np.float64)
    d = x - y
    return np.where(np.abs(d) <= 8 * np.finfo(np.float64).eps * np.maximum(np.abs(x), np.abs(y)), 0.0, d)


@dataclass(frozen=True)
class TTest:
    """A t test: statistic, degrees of freedom, two-sided p, difference and its interval at 1 - alpha."""

    statistic: float
    df: int
    p: float
    difference: float
    ci: tuple[float, float]


def paired_t(differences: ArrayLike, alpha: float = 0.05) -> TTest:
    """Student's paired t test, T = mean(d) / (sd(d) / sqrt(n)) on n - 1 degrees of freedom, two-sided.

    Differences that are all zero give T = 0 and p = 1; equal but not zero give p = 0. Needs n >= 2.
    """
    d = np.asarray(differences, dtype=np.float64).ravel()
    centre, error = sums.mean(d), sums.std(d) / math.sqrt(d.size)
    df = d.size - 1
    statistic = t_ratio(centre, error)
    half = float(stats.t.isf(alpha / 2, df)) * error
    return TTest(statistic, df, float(2 * stats.t.sf(abs(statistic), df)), centre, (centre - half, centre + half))


def t_ratio(difference: float, error: float) -> float:
    """difference / error, with 0 / 0 = 0 and x / 0 = +-inf."""
    if error > 0:
        return difference / error
    return 0.0 if difference == 0 else math.copysign(math.inf, difference)


def correlation(first: ArrayLike, second: ArrayLike) -> float:
    """Pearson's correlation of two (n,) arrays over seeds; NaN below two pairs or where one does not vary."""
    x, y = np.asarray(first, dtype=np.float64), np.asarray(second, dtype=np.float64)
    if x.size < 2:
        return math.nan
    dx, dy = x - sums.mean(x), y - sums.mean(y)
    scale = math.sqrt(math.fsum(dx * dx)) * math.sqrt(math.fsum(dy * dy))
    return float(np.clip(math.fsum(dx * dy) / scale, -1.0, 1.0)) if scale > 0 else math.nan


def pairing_pays_above(n: int, alpha: float = 0.05) -> float:
    """The correlation over seeds above which pairing gives shorter intervals than two separate groups.

    Paired: sd(d)^2 = 2 (1 - rho) sigma^2 with t on n - 1 df; unpaired: 2 sigma^2 with t on 2n - 2 df; hence
    1 - (t_{2n-2} / t_{n-1})^2. Reported, never used to choose the test.
    """
    paired, separate = stats.t.isf(alpha / 2, [n - 1, 2 * n - 2])
    return float(1 - (separate / paired) ** 2)


def std_interval(values: ArrayLike, alpha: float = 0.05) -> tuple[float, float]:
    """Interval of a standard deviation from (n,) normal values by the chi-square law; NaN below two."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size < 2:
        return math.nan, math.nan
    total = sums.sum_squares(x)
    high, low = stats.chi2.isf([alpha / 2, 1 - alpha / 2], x.size - 1)
    return math.sqrt(total / high), math.sqrt(total / low)
