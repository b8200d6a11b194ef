"""What n seeds can find: power of the tests used here, by numerical integration.

General solvers go wrong at very small n (a noncentral t on one or two degrees of freedom), so the law is
integrated directly: the mean difference is normal and independent of the estimated spread.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

from .dunnett import dunnett_critical, gauss

Array = NDArray[np.float64]
MAX_SEEDS = 10_000
POWER = 0.8
FINE, COARSE = 400, 96  # quadrature nodes in one dimension and in each of two


@lru_cache(maxsize=512)
def _chi2_nodes(df: int, count: int) -> tuple[Array, Array]:
    """Nodes and weights of chi-square on `df`: Gauss-Legendre in the square root of chi, dense near 0."""
    low, high = stats.chi.ppf(1e-16, df), stats.chi.isf(1e-16, df)
    x, w = gauss(count)
    u = (x + 1) / 2
    chi = low + (high - low) * u**2
    weight = w * u * stats.chi.pdf(chi, df)
    return chi**2, weight / weight.sum()


def _outside(shift: float, reach: Array) -> Array:
    """P(|N(shift, 1)| > reach)."""
    return np.asarray(special.ndtr(shift - reach) + special.ndtr(-shift - reach))


def t_power(effect: float, n: int, critical: float) -> float:
    """Power of a paired t test on n pairs, two-sided at `critical`; `effect` in units of sd(d)."""
    x, w = _chi2_nodes(n - 1, FINE)
    return float(w @ _outside(effect * math.sqrt(n), critical * np.sqrt(x / (n - 1))))


def dunnett_power(effect: float, n: int, comparisons: int, critical: float) -> float:
    """Power for one comparison of the blocked Dunnett test; `effect` in units of sd(d), equal variances.

    The statistic's scale is max(s_d^2, 2 MSE). In the additive model (n - 1) s_d^2 / 2 is one of the k - 1
    independent parts of the error sum of squares, so with A ~ chi2(n - 1) and R ~ chi2((k - 2)(n - 1)),
    in units of the error variance, s_d^2 = 2 A / (n - 1) and MSE = (A + R) / ((k - 1)(n - 1)).
    """
    if comparisons == 1:
        return t_power(effect, n, critical)
    a, wa = _chi2_nodes(n - 1, COARSE)
    r, wr = _chi2_nodes((comparisons - 1) * (n - 1), COARSE)
    own = a[:, None] / (n - 1)
    pooled = (a[:, None] + r) / (comparisons * (n - 1))
    inside = _outside(effect * math.sqrt(n), critical * np.sqrt(np.maximum(own, pooled)))
    return float(wa @ (inside @ wr))


@lru_cache(maxsize=4096)
def mde_factor(
    n: int, alpha: float = 0.05, comparisons: int = 1, method: str = "dunnett", power: float = POWER
) -> float:
    """Smallest effect found with probability `power`, two-sided, in units of sd(d); inf below two pairs.

    `comparisons` is the size of the family; `method` is "dunnett" (blocked Dunnett) or "holm" (paired t at
    alpha / comparisons, Holm's hardest step). One comparison is a plain paired t test.
    """
    if n < 2:
        return math.inf
    return _solve(lambda e: effect_power(e, n, alpha, comparisons, method) - power)


def effect_power(effect: float, n: int, alpha: float, comparisons: int, method: str) -> float:
    """Power for one comparison of a family, `effect` in units of sd(d); arguments as in `mde_factor`."""
    if method == "dunnett" and comparisons > 1:
        critical = dunnett_critical(alpha, comparisons, comparisons * (n - 1))
        return dunnett_power(abs(effect), n, comparisons, critical)
    return t_power(abs(effect), n, float(stats.t.isf(alpha / 2 / comparisons, n - 1)))


def _solve(gap: Callable[[float], float]) -> float:
    high = 1.0
    while gap(high) < 0:
        high *= 2
    return float(optimize.brentq(gap, 0.0, high, xtol=1e-9))


def mde(std_difference: float, n: int, alpha: float = 0.05, comparisons: int = 1, method: str = "dunnett") -> float:
    """Smallest detectable effect in nats: `mde_factor` times the spread of the paired differences."""
    return std_difference * mde_factor(n, alpha, comparisons, method)


def equivalence_power(
    std_difference: float,
    n: int,
    margin: float,
    alpha: float = 0.05,
    comparisons: int = 1,
    method: str = "dunnett",
) -> float:
    """Chance that the family-corrected (1 - 2 alpha) interval lies within +-margin when the truth is 0."""
    if n < 2:
        return 0.0
    if std_difference == 0:
        return 1.0
    bound = margin / std_difference * math.sqrt(n)
    a, wa = _chi2_nodes(n - 1, COARSE)
    if method == "dunnett" and comparisons > 1:
        c = dunnett_critical(2 * alpha, comparisons, comparisons * (n - 1))
        r, wr = _chi2_nodes((comparisons - 1) * (n - 1), COARSE)
        scale = np.maximum(a[:, None] / (n - 1), (a[:, None] + r) / (comparisons * (n - 1)))
    else:
        c = float(stats.t.isf(alpha / comparisons, n - 1))
        scale, wr = a[:, None] / (n - 1), np.ones(1)
    room = np.maximum(bound - c * np.sqrt(scale), 0.0)
    return float(wa @ ((1 - 2 * special.ndtr(-room)) @ wr))


@lru_cache(maxsize=1024)
def equivalence_limit(
    n: int,
    margin: float,
    alpha: float = 0.05,
    comparisons: int = 1,
    method: str = "dunnett",
    power: float = POWER,
) -> float:
    """Largest sd(d) in nats at which n seeds show equivalence within +-margin, when true, with `power`."""
    if n < 2 or margin <= 0:
        return 0.0

    def gap(ratio: float) -> float:
        return power - equivalence_power(ratio * margin, n, margin, alpha, comparisons, method)

    return margin * float(optimize.brentq(gap, 1e-6, 50.0, xtol=1e-12))


def n_needed(
    difference: float,
    std_difference: float,
    *,
    alpha: float = 0.05,
    comparisons: int = 1,
    method: str = "dunnett",
    margin: float = 0.0,
    power: float = POWER,
) -> int | None:
    """Seeds (>= 3) that would settle a comparison with probability `power`, or None above MAX_SEEDS.

    Settled: an effect as large as `difference` is found, or, where `difference` lies within the margin,
    equivalence is shown for a true difference that leaves as much room; whichever takes fewer seeds. The spread
    is taken as `std_difference`.
    """
    if not (math.isfinite(difference) and math.isfinite(std_difference)):
        return None
    spread, room = max(std_difference, 1e-300), margin - abs(difference)

    def enough(n: int) -> bool:
        if difference != 0 and effect_power(difference / spread, n, alpha, comparisons, method) >= power:
            return True
        return room > 0 and equivalence_power(std_difference, n, room, alpha, comparisons, method) >= power

    high = 3
    while not enough(high):
        high *= 2
        if high > MAX_SEEDS:
            return None
    low = max(3, high // 2)
    while low < high:
        middle = (low + high) // 2
        low, high = (low, middle) if enough(middle) else (middle + 1, high)
    return high
