"""How large differences are that mean nothing, and what one seed may say."""

from __future__ import annotations

import math
from collections.abc import Iterable
from dataclasses import dataclass

import numpy as np
from numpy.typing import ArrayLike
from scipy import stats

from . import sums
from .failures import wilson
from .paired import MIN_SEEDS, std_interval


def mean_interval(values: ArrayLike, alpha: float = 0.05) -> tuple[float, float] | None:
    """Student's interval of the mean of (n,) losses at 1 - alpha; None below three."""
    x = np.asarray(values, dtype=np.float64).ravel()
    if x.size < MIN_SEEDS:
        return None
    half = float(stats.t.isf(alpha / 2, x.size - 1)) * sums.std(x) / math.sqrt(x.size)
    return sums.mean(x) - half, sums.mean(x) + half


@dataclass(frozen=True)
class NoiseFloor:
    """What an A/A pair shows: n paired differences of one variant with itself under other initialisations.

    `std_difference` (None below two) with its chi-square interval `ci` (None below three); `std_run` =
    std_difference / sqrt(2) is the noise of one run; `largest` the largest absolute difference seen.
    """

    n: int
    mean: float
    std_difference: float | None
    std_run: float | None
    ci: tuple[float, float] | None
    largest: float


def noise_floor(differences: ArrayLike, alpha: float = 0.05) -> NoiseFloor | None:
    """The noise floor from (n,) A/A differences in nats per token; None without any."""
    d = np.asarray(differences, dtype=np.float64).ravel()
    if d.size == 0:
        return None
    spread = sums.std(d) if d.size >= 2 else None
    return NoiseFloor(
        int(d.size),
        sums.mean(d),
        spread,
        None if spread is None else spread / math.sqrt(2),
        std_interval(d, alpha) if d.size >= MIN_SEEDS else None,
        float(np.abs(d).max()),
    )


@dataclass(frozen=True)
class FalseVerdicts:
    """Share of A/A comparisons called better or worse, with its Wilson interval; `ok` while alpha is not
    below it.
    """

    count: int
    total: int
    share: float
    ci: tuple[float, float]
    ok: bool


def false_verdict_share(verdicts: Iterable[str], alpha: float = 0.05) -> FalseVerdicts | None:
    """How often A/A comparisons were called different. `ok` unless the whole interval lies above alpha."""
    words = list(verdicts)
    interval = wilson(sum(v in ("better", "worse") for v in words), len(words))
    if interval is None:
        return None
    count = sum(v in ("better", "worse") for v in words)
    return FalseVerdicts(count, len(words), count / len(words), interval, interval[0] <= alpha)
