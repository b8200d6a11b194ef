"""A family of comparisons against one baseline: which test judges each arm, and what it says."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np
import pandas as pd
from scipy import stats

from ablab.errors import UsageError

from .blocked import Spread, blocked_dunnett, spread_check
from .multiplicity import benjamini_hochberg, bh_level, holm, holm_levels
from .paired import MIN_SEEDS, Pairs, pair_up, paired_t
from .power import mde, n_needed
from .table import check_label, check_runs, losses_by_label
from .verdict import Interval, practical, verdict

PAIRED, DUNNETT, HOLM, BH = "paired t", "blocked Dunnett", "paired t, Holm", "paired t, BH"


@dataclass(frozen=True)
class Comparison:
    """One variant against the baseline. Losses in nats per token; None where n < 3 forbids a number.

    `difference` is variant - baseline; `ci` the simultaneous interval; `ci_equivalence` the family-corrected
    one at 1 - 2 alpha; `std_difference` the sd of the paired differences; `mde` the smallest effect these
    seeds find at family level; `n_needed` the seeds that would settle it; `correlation` of the losses over
    seeds.
    """

    label: str
    baseline: str
    seeds: tuple[int, ...]
    n_pairs: int
    difference: float | None
    std_difference: float | None = None
    correlation: float | None = None
    ci: Interval | None = None
    ci_equivalence: Interval | None = None
    statistic: float | None = None
    df: int | None = None
    p: float | None = None
    p_adjusted: float | None = None
    method: str | None = None
    verdict: str = "inconclusive"
    practical: str = "unclear"
    mde: float | None = None
    n_needed: int | None = None


@dataclass(frozen=True)
class Family:
    """All comparisons of a family in the order asked for, and why each test was chosen.

    `alpha` is the family-wise level, `spread` the check behind the pooled error (None where nothing was
    pooled), `reasons` sentences that name every arm kept out of the pooled error.
    """

    comparisons: tuple[Comparison, ...]
    baseline: str
    alpha: float
    margin: float
    spread: Spread | None = None
    mse: float | None = None
    reasons: tuple[str, ...] = field(default=())


def compare(
    runs: pd.DataFrame,
    baseline: str,
    labels: Sequence[str] | None = None,
    *,
    margin: float = 0.005,
    alpha: float = 0.05,
    unstable: Iterable[str] = (),
    screen: bool = False,
) -> Family:
    """Judge every label (default: all others) against `baseline` as one family at level `alpha`.

    One comparison: paired t. Several on the same seeds: blocked Dunnett. Arms declared `unstable` or with
    other seeds than the rest stay outside the pooled error: paired t with Holm, on their share of alpha
    (their number over the family's). Where the noise of the arms differs beyond `spread_check`'s bounds,
    every arm is judged that way. A `screen` uses Benjamini-Hochberg. Comparisons with fewer than three pairs
    get no p and no interval, and do not count towards the family.

    Raises UsageError for an unknown label, alpha outside (0, 1/2) or a negative margin.
    """
    if not 0 < alpha < 0.5:
        raise UsageError(f"study.alpha={alpha}: must lie between 0 and 0.5")
    if not margin >= 0:
        raise UsageError(f"study.margin={margin}: must be 0 or more nats per token")
    check_runs(runs)
    check_label(runs, baseline, "study.baseline")
    values = losses_by_label(runs)
    wanted = [x for x in values if x != baseline] if labels is None else list(dict.fromkeys(labels))
    for label in wanted:
        check_label(runs, label, "label")
    found = {label: pair_up(label, baseline, values[label], values[baseline]) for label in wanted}
    tested = [label for label in wanted if found[label].n >= MIN_SEEDS]
    pool, reasons = _pool(found, tested, set(unstable)) if not screen else ([], [])
    spread = None
    if len(pool) >= 2:
        base, arms = _arrays(values, baseline, pool, found[pool[0]].seeds)
        spread = spread_check(base, arms)
        if spread.differ:
            reasons = [*reasons, _spread_reason(spread, baseline, pool)]
            pool = []
    result: dict[str, Comparison] = {x: _untested(found[x]) for x in wanted if x not in tested}
    mse = None
    if len(pool) >= 2:
        share = alpha * len(pool) / len(tested)
        apart = () if spread is None else spread.apart
        own = "varies more than the rest: its verdict must hold in its own paired t test, too"
        reasons = [*reasons, *(f"{pool[i]} {own}" for i in apart)]
        pooled, mse = _dunnett(found, pool, base, arms, share, margin, len(tested), apart)
        result |= pooled
    else:
        pool = []
    outside = [x for x in tested if x not in pool]
    if outside:
        share = alpha * len(outside) / len(tested)
        result |= _separate(found, outside, share, margin, len(tested), screen)
    return Family(tuple(result[x] for x in wanted), baseline, alpha, margin, spread, mse, tuple(reasons))


def _pool(found: dict[str, Pairs], tested: list[str], unstable: set[str]) -> tuple[list[str], list[str]]:
    """Arms that share the pooled error: stable, on the most common set of seeds; and why others do not."""
    if len(tested) < 2:
        return [], []
    reasons = [f"{x} is declared unstable: judged by its own spread" for x in tested if x in unstable]
    stable = [x for x in tested if x not in unstable]
    if not stable:
        return [], reasons
    counts = Counter(found[x].seeds for x in stable)
    block = max(counts, key=lambda seeds: (counts[seeds], len(seeds)))
    odd = [x for x in stable if found[x].seeds != block]
    reasons += [
        f"{x} shares seeds {_listed(found[x].seeds)} with the baseline, the others {_listed(block)}: judged by its own spread"
        for x in odd
    ]
    return [x for x in stable if x not in odd], reasons


def _listed(seeds: Sequence[int]) -> str:
    return ", ".join(map(str, seeds))


def _spread_reason(spread: Spread, baseline: str, pool: list[str]) -> str:
    if spread.baseline_ratio > spread.baseline_bound:
        who, ratio, bound = f"the baseline {baseline}", spread.baseline_ratio, spread.baseline_bound
    else:
        who, ratio, bound = pool[spread.noisiest], spread.arm_ratio, spread.arm_bound
    return (
        f"the noise of {who} is {ratio:.3g} times that of the others in variance (bound {bound:.3g}): "
        "no pooled error, every arm judged by its own spread"
    )


def _arrays(
    values: Mapping[str, pd.Series], baseline: str, pool: list[str], seeds: tuple[int, ...]
) -> tuple[np.ndarray, np.ndarray]:
    base, *arms = (values[x].loc[list(seeds)].to_numpy() for x in (baseline, *pool))
    return base, np.vstack(arms)


def _untested(pair: Pairs) -> Comparison:
    return Comparison(
        pair.label,
        pair.baseline,
        pair.seeds,
        pair.n,
        pair.mean if pair.n else None,
        pair.std if pair.n >= 2 else None,
    )


def _finish(
    pair: Pairs,
    ci: Interval,
    ci_equivalence: Interval,
    margin: float,
    spread: float,
    alpha: float,
    comparisons: int,
    method: str,
    name: str,
    **numbers: float | int,
) -> Comparison:
    return Comparison(
        pair.label,
        pair.baseline,
        pair.seeds,
        pair.n,
        pair.mean,
        pair.std,
        None if math.isnan(pair.correlation) else pair.correlation,
        ci,
        ci_equivalence,
        method=name,
        verdict=verdict(ci, ci_equivalence, margin),
        practical=practical(ci, margin),
        mde=mde(spread, pair.n, alpha, comparisons, method),
        n_needed=n_needed(pair.mean, spread, alpha=alpha, comparisons=comparisons, method=method, margin=margin),
        **numbers,  # type: ignore[arg-type]
    )


def _dunnett(
    found: dict[str, Pairs],
    pool: list[str],
    base: np.ndarray,
    arms: np.ndarray,
    alpha: float,
    margin: float,
    family: int,
    apart: Sequence[int],
) -> tuple[dict[str, Comparison], float]:
    test, wide = (blocked_dunnett(base, arms, level, apart) for level in (alpha, 2 * alpha))
    m = len(pool)
    out = {}
    for i, label in enumerate(pool):
        error = float(test.errors[i])
        out[label] = _finish(
            found[label],
            (float(test.low[i]), float(test.high[i])),
            (float(wide.low[i]), float(wide.high[i])),
            margin,
            error * math.sqrt(test.n),
            alpha,
            m,
            "dunnett",
            DUNNETT,
            statistic=float(test.statistics[i]),
            df=test.df,
            p=float(test.p[i]),
            p_adjusted=min(1.0, float(test.p_adjusted[i]) * family / m),
        )
    for i in apart:  # what its own paired t test finds counts, too
        item = out[pool[i]]
        own = mde(found[pool[i]].std, test.n, alpha)
        out[pool[i]] = replace(item, mde=max(own, item.mde or 0.0))
    return out, test.mse


def _separate(
    found: dict[str, Pairs], labels: list[str], alpha: float, margin: float, family: int, screen: bool
) -> dict[str, Comparison]:
    """Paired t tests with Holm (or Benjamini-Hochberg) at level `alpha` for `labels`, part of `family`
    arms.
    """
    m = len(labels)
    tests = [paired_t(found[x].differences, alpha) for x in labels]
    p = np.array([t.p for t in tests])
    adjusted = benjamini_hochberg(p) if screen else holm(p)
    if screen:
        levels, base_level = np.full(m, bh_level(p, alpha)), bh_level(p, alpha)
    else:
        levels, base_level = holm_levels(p, alpha), alpha / m
    name = BH if screen else PAIRED if family == 1 else HOLM
    out = {}
    for i, label in enumerate(labels):
        pair, test = found[label], tests[i]
        error = pair.std / math.sqrt(pair.n)
        out[label] = _finish(
            pair,
            stepwise_interval(pair.mean, error, test.df, base_level, float(levels[i])),
            _interval(pair.mean, error, test.df, 2 * base_level),
            margin,
            pair.std,
            alpha,
            m,
            "holm",
            name,
            statistic=test.statistic,
            df=test.df,
            p=test.p,
            p_adjusted=min(1.0, float(adjusted[i]) * family / m),
        )
    return out


def _interval(centre: float, error: float, df: int, level: float) -> Interval:
    half = float(stats.t.isf(level / 2, df)) * error
    return centre - half, centre + half


def stepwise_interval(centre: float, error: float, df: int, base: float, level: float) -> Interval:
    """Bonferroni's interval at `base` = alpha / m, unless Holm decides at `level` what it leaves open.

    Then the end nearest 0 is the one at Holm's own level, so that the interval excludes 0 exactly where Holm
    rejects; the far end stays Bonferroni's.
    """
    low, high = _interval(centre, error, df, base)
    near = _interval(centre, error, df, level)
    if low <= 0 <= high:
        if near[0] > 0:
            return near[0], high
        if near[1] < 0:
            return low, near[1]
    return low, high
