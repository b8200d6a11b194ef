"""The two-sided Dunnett law: the largest of m equally correlated (rho = 1/2) |t| variables.

With X_i = (Z_i - Z_0) / sqrt(2) and S = chi_df / sqrt(df), independent,

    P(max |X_i| / S <= c) = E_S E_Z [ Phi(Z + sqrt(2) c S) - Phi(Z - sqrt(2) c S) ]^m

(Dunnett 1955, with the product-correlation form of Dunnett and Sobel 1955): two nested one-dimensional Gauss
quadratures, good to about 1e-8, instead of the random m-dimensional integral of a general library.
"""

from __future__ import annotations

import math
from functools import lru_cache

import numpy as np
from numpy.typing import NDArray
from scipy import optimize, special, stats

Array = NDArray[np.float64]
SCALE_NODES, NORMAL_NODES = 96, 72


@lru_cache(maxsize=8)
def gauss(count: int) -> tuple[Array, Array]:
    """Gauss-Legendre nodes and weights on [-1, 1], each (count,)."""
    x, w = np.polynomial.legendre.leggauss(count)
    return x, w


@lru_cache(maxsize=256)
def _scale_nodes(df: int) -> tuple[Array, Array]:
    """Nodes and weights of S = chi_df / sqrt(df): Gauss-Legendre between its extreme quantiles."""
    low, high = stats.chi.ppf(1e-15, df), stats.chi.isf(1e-15, df)
    x, w = gauss(SCALE_NODES)
    chi = low + (high - low) * (x + 1) / 2
    weight = w * (high - low) / 2 * stats.chi.pdf(chi, df)
    return chi / math.sqrt(df), weight / weight.sum()


@lru_cache(maxsize=1)
def _normal_nodes() -> tuple[Array, Array]:
    x, w = gauss(NORMAL_NODES)
    z = 9.0 * x
    weight = w * np.exp(-z * z / 2)
    return z, weight / weight.sum()


def dunnett_sf(statistic: float, comparisons: int, df: int) -> float:
    """P(max_i |T_i| > statistic) for `comparisons` t variables on `df` degrees of freedom with rho = 1/2.

    This is the adjusted p-value of one comparison with |T| = statistic. One comparison is Student's t.
    """
    if math.isnan(statistic):
        return math.nan
    c = abs(statistic)
    if comparisons == 1 or math.isinf(c):
        return float(2 * stats.t.sf(c, df))
    z, wz = _normal_nodes()
    s, ws = _scale_nodes(int(df))
    reach = math.sqrt(2) * c * s[:, None]
    outside = special.ndtr(z - reach) + special.ndtr(-z - reach)  # of one comparison, given Z_0 and S
    inner = -np.expm1(comparisons * np.log1p(-np.minimum(outside, 1 - 1e-16)))
    return float(np.clip(ws @ (inner @ wz), 0.0, 1.0))


@lru_cache(maxsize=4096)
def dunnett_critical(alpha: float, comparisons: int, df: int) -> float:
    """The c with P(max |T_i| > c) = alpha: half-width, in standard errors, of the simultaneous intervals."""
    if comparisons == 1:
        return float(stats.t.isf(alpha / 2, df))
    low = float(stats.t.isf(alpha / 2, df))  # one comparison is never harder,
    high = float(stats.t.isf(alpha / 2 / comparisons, df))  # Bonferroni never easier
    return float(optimize.brentq(lambda c: dunnett_sf(c, comparisons, df) - alpha, low, high, xtol=1e-10))
