"""How large differences are that mean nothing, and what one seed may say."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import ArrayLike
from scipy import stats

from . import sums
from .failures import wilson
from .paired import MIN_SEEDS, std_interval
from .power import mde
from .table import labels_of, losses


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


@dataclass(frozen=True)
class OneSeed:
    """What single runs show about one level of a factor against the baseline's level.

    `differences` holds (setting of the other factors, loss - reference loss); `ratio` their largest absolute
    value over the noise known for a difference (None when unknown); `sentence` says it in words, without a
    verdict.
    """

    factor: str
    level: str
    reference: str
    differences: tuple[tuple[str, float], ...]
    ratio: float | None
    sentence: str


def one_seed(
    runs: pd.DataFrame, baseline: Mapping[str, object], factors: Sequence[str], noise: float | None = None
) -> list[OneSeed]:
    """Per factor and level, the differences that single runs show under each setting of the other factors.

    `baseline` maps each factor to its reference level, `noise` is the sd of a difference between two runs of
    the same variant. Runs with several seeds enter by their mean over the seeds both cells finished.
    """
    cells: dict[tuple[str, ...], pd.Series] = {}
    for label in labels_of(runs):
        row = runs[runs["label"] == label].iloc[0]
        cells[tuple(str(row[f]) for f in factors)] = losses(runs, label)
    out = []
    for i, factor in enumerate(factors):
        reference = str(baseline[factor])
        for level in dict.fromkeys(key[i] for key in cells):
            if level != reference:
                found = tuple(_differences(cells, i, level, reference))
                if found:
                    out.append(_one_seed(factor, level, reference, found, noise))
    return out


def _differences(
    cells: Mapping[tuple[str, ...], pd.Series], i: int, level: str, reference: str
) -> Iterable[tuple[str, float]]:
    for key, values in cells.items():
        if key[i] != level:
            continue
        other = cells.get((*key[:i], reference, *key[i + 1 :]))
        both = (values - other).dropna() if other is not None else pd.Series(dtype=float)
        if len(both):
            yield ", ".join(key[:i] + key[i + 1 :]), sums.mean(both)


def _one_seed(
    factor: str, level: str, reference: str, found: tuple[tuple[str, float], ...], noise: float | None
) -> OneSeed:
    seen = ", ".join(f"{d:+.4f}" + (f" under {where}" if where else "") for where, d in found)
    ratio = max(abs(d) for _, d in found) / noise if noise else None
    against = "" if ratio is None else f"; at most {ratio:.1f} times the noise of a difference ({noise:.4f})"
    return OneSeed(factor, level, reference, found, ratio, f"{factor}: {level} − {reference}: {seen}{against}")


def could_find(
    std_difference: float, ns: Sequence[int] = (3, 5), alpha: float = 0.05, comparisons: int = 1
) -> dict[int, float]:
    """The smallest effect in nats that each number of seeds would find, given the noise of a difference."""
    return {n: mde(std_difference, n, alpha, comparisons) for n in ns}
