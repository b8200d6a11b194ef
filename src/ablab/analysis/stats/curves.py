"""Statistics of training curves: spikes, tokens to a target, common steps, sizes in tokens."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike

from ablab.errors import UsageError

from . import sums

SPIKE_SD = 7.0


def spike_window(count: int) -> int:
    """Length of the rolling window: the last min(1000, 20 % of the values), at least 2."""
    return max(2, min(1000, int(0.2 * count)))


def spike_score(values: ArrayLike, window: int | None = None) -> float | None:
    """Percentage of values at least seven standard deviations from the mean of the `window` before them.

    For training loss and gradient norm, (steps,). Values before the first full window are not judged; a value
    that is not finite is a spike and never enters a window. None when nothing can be judged. Source: the
    spike score of OLMo 2 (Groeneveld et al. 2025), with the window shortened for short runs.
    """
    series = pd.Series(np.asarray(values, dtype=np.float64))
    wide = spike_window(len(series)) if window is None else window
    finite = np.isfinite(series)
    clean = series[finite]
    before = clean.shift(1).rolling(wide, min_periods=wide)
    deviation = (clean - before.mean()).abs()
    # A flat window has no spread; differences below rounding are no spikes.
    floor = 1e-9 * before.mean().abs()
    spikes = (deviation >= SPIKE_SD * before.std()) & (deviation > floor)
    judged = int(before.mean().notna().sum()) + int((~finite).sum())
    return 100.0 * (int(spikes.sum()) + int((~finite).sum())) / judged if judged else None


@dataclass(frozen=True)
class Reached:
    """Where a run first had a loss at or under the target: `tokens`, or where it ended when it missed."""

    tokens: float
    missed: bool


def tokens_to_target(tokens: ArrayLike, losses: ArrayLike, target: float) -> Reached:
    """First evaluated point at or under `target`, fixed beforehand; a miss is censored at the last point.

    `tokens` and `losses` are (points,); points without a finite loss are passed over. UsageError when empty.
    """
    t, y = np.asarray(tokens, dtype=np.float64), np.asarray(losses, dtype=np.float64)
    if t.size == 0:
        raise UsageError("tokens to target: the curve has no points")
    order = np.argsort(t, kind="stable")
    t, y = t[order], y[order]
    hit = np.flatnonzero(np.isfinite(y) & (y <= target))
    return Reached(float(t[hit[0]]), False) if hit.size else Reached(float(t[-1]), True)


@dataclass(frozen=True)
class TargetRatio:
    """Tokens the variant needs over those of the baseline: geometric mean over seeds.

    `bound` is "=" when nobody missed, ">=" or "<=" when only the variant or only the baseline did, and None
    (with `ratio` None) when both kinds or pairs of misses leave no direction.
    """

    ratio: float | None
    bound: str | None
    n: int
    missed_variant: int
    missed_baseline: int


def target_ratio(variant: Mapping[int, Reached], baseline: Mapping[int, Reached]) -> TargetRatio:
    """Mean of log ratios over the seeds both have, exponentiated; misses make it a bound, never vanish."""
    seeds = sorted(set(variant) & set(baseline))
    missed = sum(variant[s].missed for s in seeds)
    base_missed = sum(baseline[s].missed for s in seeds)
    if not seeds or (missed and base_missed):
        return TargetRatio(None, None, len(seeds), missed, base_missed)
    logs = [math.log(variant[s].tokens) - math.log(baseline[s].tokens) for s in seeds]
    bound = ">=" if missed else "<=" if base_missed else "="
    return TargetRatio(math.exp(sums.mean(logs)), bound, len(seeds), missed, base_missed)


def tokens_worth(difference: float, slope: float) -> float:
    """How many per cent more (or, negative, fewer) tokens a change of loss is worth to the baseline.

    `difference` is variant - baseline in nats per token, `slope` = dL / d ln D (its sign is ignored): locally
    L(D) is linear in ln D, so a gain of -difference is worth a factor exp(-difference / |slope|) of tokens.
    UsageError when the slope is 0 or not finite.
    """
    if not math.isfinite(slope) or slope == 0:
        raise UsageError(f"slope={slope}: dL/d ln D must be a finite number other than 0")
    return 100.0 * math.expm1(-difference / abs(slope))


def token_slope(tokens: ArrayLike, losses: ArrayLike) -> float | None:
    """Least-squares dL / d ln D over runs of different length, (points,) each; None below two lengths."""
    x, y = np.log(np.asarray(tokens, dtype=np.float64)), np.asarray(losses, dtype=np.float64)
    keep = np.isfinite(x) & np.isfinite(y)
    x, y = x[keep], y[keep]
    spread = sums.sum_squares(x)
    if x.size < 2 or spread == 0:
        return None
    return math.fsum((x - sums.mean(x)) * (y - sums.mean(y))) / spread
