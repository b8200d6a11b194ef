"""Several variants against one baseline on the same seeds: the blocked Dunnett test and its spread check."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike, NDArray
from scipy import stats

from . import sums
from .dunnett import dunnett_critical, dunnett_sf
from .paired import paired_t, subtract, t_ratio

Array = NDArray[np.float64]

FEW_SEEDS = 4
BASELINE_BOUND_FEW, BASELINE_BOUND = 0.27, 0.1
"""Upper-tail probability, up to FEW_SEEDS and beyond, at which the baseline counts as noisier than the arms.

A noisy baseline inflates all differences at once, which the pooled error does not see. Set by simulation: loose
enough to keep the pooled test for most studies of equal noise, strict enough that false verdicts stay under
6.4 % whatever the baseline's noise.
"""
ARM_BOUND_FEW, ARM_BOUND = 0.0, 0.15
"""The same for one arm against the rest, divided by the number of arms.

A noisy arm is already judged by its own spread; the fallback saves the other arms from its noise. With few seeds
nothing tells a noisy arm from an unlucky one, and a second test is a second chance of a false verdict: there is none
(0), but see APART.
"""
APART = 0.05
"""With few seeds, the upper-tail probability at which an arm's spread counts as its own: its verdict must then hold in
its own paired t test, too. Where its own spread is the whole denominator, pooled degrees of freedom promise too much.
"""


@dataclass(frozen=True)
class Blocked:
    """Blocked Dunnett of m arms on n seeds; arrays are (m,).

    `differences` mean arm - baseline, `stds` sd of the paired differences, `errors` standard errors used,
    `statistics`, `p` (one comparison), `p_adjusted` (family), `critical` and the intervals at 1 - alpha.
    """

    n: int
    df: int
    mse: float
    differences: Array
    stds: Array
    errors: Array
    statistics: Array
    p: Array
    p_adjusted: Array
    alpha: float
    critical: float
    low: Array
    high: Array


def additive_mse(y: ArrayLike) -> float:
    """Error mean square of y (k, n) in l_vs = mu_v + beta_s + e, on (k - 1)(n - 1) degrees of freedom."""
    table = np.asarray(y, dtype=np.float64)
    k, n = table.shape
    rest = _residuals(table)
    return math.fsum((rest * rest).ravel()) / ((k - 1) * (n - 1))


def blocked_dunnett(baseline: ArrayLike, arms: ArrayLike, alpha: float = 0.05, apart: Sequence[int] = ()) -> Blocked:
    """Dunnett's many-to-one comparisons with seeds as blocks.

    `baseline` (n,), `arms` (m, n). T_v = mean(d_v) / sqrt(max(s_dv^2, 2 MSE) / n) is referred to the
    m-variate t law on m (n - 1) degrees of freedom with rho = 1/2 (Dunnett 1955); the intervals use the same
    critical value, so they exclude 0 exactly where p_adjusted < alpha. One arm is the paired t test.

    Arms whose index is in `apart` (see `spread_check`) must also pass their own paired t test at alpha: the wider of
    the two intervals and the larger of the two p count.
    """
    base, others = np.asarray(baseline, dtype=np.float64), np.atleast_2d(np.asarray(arms, dtype=np.float64))
    m, n = others.shape
    df = m * (n - 1)
    d = subtract(others, base)
    difference = np.array([sums.mean(row) for row in d])
    spread = np.array([sums.std(row) for row in d])
    mse = additive_mse(np.vstack([base, others]))
    error = np.sqrt(np.maximum(spread**2, 2 * mse) / n)
    T = np.array([t_ratio(float(x), float(e)) for x, e in zip(difference, error, strict=True)])
    critical = dunnett_critical(alpha, m, df)
    half = critical * error
    p, adjusted = 2 * stats.t.sf(np.abs(T), df), np.array([dunnett_sf(float(t), m, df) for t in T])
    for i in apart:
        own = paired_t(d[i], alpha)
        p[i], adjusted[i] = max(p[i], own.p), max(adjusted[i], own.p)
        half[i] = max(half[i], own.ci[1] - difference[i])
    return Blocked(
        n=n,
        df=df,
        mse=mse,
        differences=difference,
        stds=spread,
        errors=error,
        statistics=T,
        p=p,
        p_adjusted=adjusted,
        alpha=alpha,
        critical=critical,
        low=difference - half,
        high=difference + half,
    )


@dataclass(frozen=True)
class Spread:
    """How unlike the noise of the arms is: variance ratios, their bounds, and whether one is exceeded.

    `apart` are the arms whose spread counts as their own though the pooled error may be used: few seeds only.
    """

    baseline_ratio: float
    baseline_bound: float
    arm_ratio: float
    arm_bound: float
    noisiest: int
    apart: tuple[int, ...] = ()

    @property
    def differ(self) -> bool:
        """Whether the pooled error may not be used."""
        return self.baseline_ratio > self.baseline_bound or self.arm_ratio > self.arm_bound


def spread_check(baseline: ArrayLike, arms: ArrayLike) -> Spread:
    """Whether the m arms (m, n) and the baseline (n,) share one noise, by F ratios of residual variances.

    Each row's contrast against the mean of the others has (n - 1) of the (k - 1)(n - 1) error degrees of
    freedom; the ratio is its variance over the mean square of the rest. A noisy baseline inflates every
    difference at once, so its bound is the strict one (`spread_bounds`). `noisiest` is the arm with the largest
    ratio. With one arm there is nothing to pool.
    """
    table = np.vstack([np.asarray(baseline, dtype=np.float64), np.asarray(arms, dtype=np.float64)])
    k, n = table.shape
    if k < 3:
        return Spread(1.0, math.inf, 1.0, math.inf, 0)
    rest = _residuals(table)
    rest[np.abs(rest) <= 8 * np.finfo(np.float64).eps * np.abs(table).max()] = 0.0  # rounding is no noise
    own = (rest * rest).sum(axis=1) * k / (k - 1)
    other = np.maximum(rest.ravel() @ rest.ravel() - own, 0.0)
    with np.errstate(divide="ignore", invalid="ignore"):
        ratio = np.where(own > 0, own * (k - 2) / other, 0.0)
    bound, arm_bound = spread_bounds(k - 1, n)
    noisiest = int(np.argmax(ratio[1:]))
    apart = tuple(np.flatnonzero(ratio[1:] > apart_bound(k - 1, n)).tolist())
    return Spread(float(ratio[0]), float(bound), float(ratio[1 + noisiest]), float(arm_bound), noisiest, apart)


def apart_bound(arms: int, n: int) -> float:
    """The variance ratio above which the spread of one of `arms` counts as its own; infinite with more seeds."""
    return float(stats.f.isf(APART, n - 1, (arms - 1) * (n - 1))) if n <= FEW_SEEDS else math.inf


def spread_bounds(arms: int, n: int) -> tuple[float, float]:
    """The variance ratios above which the baseline, or one of `arms`, counts as noisier than the rest."""
    few = n <= FEW_SEEDS
    tails = [BASELINE_BOUND_FEW if few else BASELINE_BOUND, (ARM_BOUND_FEW if few else ARM_BOUND) / arms]
    baseline, one = stats.f.isf(tails, n - 1, (arms - 1) * (n - 1))
    return float(baseline), float(one)


def _residuals(table: Array) -> Array:
    """Residuals of the additive model variant + seed, (k, n)."""
    centred = table - sums.mean(table)
    rows = np.array([sums.mean(r) for r in centred])
    columns = np.array([sums.mean(c) for c in centred.T])
    return np.asarray(centred - rows[:, None] - columns[None, :])
