"""Runs that did not finish are outcomes too: never averaged, never dropped."""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np
import pandas as pd
from scipy import stats
from statsmodels.stats.contingency_tables import mcnemar
from statsmodels.stats.proportion import proportion_confint

from . import sums
from .paired import pairs
from .table import check_label, check_runs, labels_of


def wilson(count: int, total: int, alpha: float = 0.05) -> tuple[float, float] | None:
    """Wilson's (1927) interval of a share count / total at 1 - alpha; None when total is 0."""
    if total == 0:
        return None
    low, high = proportion_confint(count, total, alpha=alpha, method="wilson")
    return float(low), float(high)


@dataclass(frozen=True)
class Divergence:
    """How often a variant diverges, against the baseline on the same seeds.

    `outcomes` = finished + diverged runs; `rate` and its Wilson `ci` (None without outcomes). Over seeds
    where both have an outcome: `only_variant` and `only_baseline` diverged, exact McNemar `mcnemar_p`; among
    pairs where both finished `n_both_finished` and their mean `difference_both_finished`; the worst-rank sign
    test counts `better`, `worse`, `ties` and gives `worst_rank_p`. p-values are None where fewer than three
    pairs exist.
    """

    label: str
    outcomes: int
    diverged: int
    rate: float | None
    ci: tuple[float, float] | None
    only_variant: int
    only_baseline: int
    mcnemar_p: float | None
    n_both_finished: int
    difference_both_finished: float | None
    better: int
    worse: int
    ties: int
    worst_rank_p: float | None


def divergence(runs: pd.DataFrame, baseline: str, alpha: float = 0.05) -> list[Divergence]:
    """`Divergence` of every label, the baseline first."""
    check_runs(runs)
    check_label(runs, baseline, "study.baseline")
    order = [baseline, *(x for x in labels_of(runs) if x != baseline)]
    return [_divergence(runs, label, baseline, alpha) for label in order]


def _divergence(runs: pd.DataFrame, label: str, baseline: str, alpha: float) -> Divergence:
    ranks, base = _ranks(runs, label), _ranks(runs, baseline)
    lost, outcomes = int(np.isinf(ranks).sum()), len(ranks)
    both = pd.concat([ranks, base], axis=1, join="inner")
    x, y = both.iloc[:, 0].to_numpy(float), both.iloc[:, 1].to_numpy(float)
    ours, theirs = np.isinf(x) & ~np.isinf(y), ~np.isinf(x) & np.isinf(y)
    better, worse = int((x < y).sum()), int((x > y).sum())
    pair = pairs(runs, label, baseline)
    judged = label != baseline and len(both) >= 3
    return Divergence(
        label,
        outcomes,
        lost,
        lost / outcomes if outcomes else None,
        wilson(lost, outcomes, alpha),
        int(ours.sum()),
        int(theirs.sum()),
        mcnemar_exact(int(ours.sum()), int(theirs.sum())) if judged else None,
        pair.n,
        sums.mean(pair.differences) if pair.n else None,
        better,
        worse,
        len(both) - better - worse,
        sign_test(better, worse) if judged else None,
    )


def _ranks(runs: pd.DataFrame, label: str) -> pd.Series:
    """Loss by seed of the runs with an outcome; diverged ones are infinite, the worst rank, all tied."""
    rows = runs[(runs["label"] == label) & runs["state"].isin(["finished", "diverged"])]
    loss = rows["loss"].to_numpy(dtype=float)
    lost = (rows["state"] == "diverged").to_numpy() | ~np.isfinite(loss)
    return pd.Series(np.where(lost, np.inf, loss), index=pd.Index(rows["seed"], name="seed"))


def mcnemar_exact(only_variant: int, only_baseline: int) -> float:
    """Exact McNemar test: two-sided binomial on the discordant pairs; 1 without any."""
    if only_variant + only_baseline == 0:
        return 1.0
    table = [[0, only_variant], [only_baseline, 0]]
    return min(1.0, float(mcnemar(table, exact=True).pvalue))


def sign_test(better: int, worse: int) -> float:
    """Exact two-sided sign test with ties left out; 1 without any decided pair.

    On worst ranks (a diverged run is worse than any finished one, two diverged ones tie) it needs no loss
    value for what diverged (Lachin 1999).
    """
    if better + worse == 0:
        return 1.0
    return float(stats.binomtest(better, better + worse).pvalue)
