"""Paired differences: R's sleep data, correlation, and when pairing pays."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from scipy import stats as scipy_stats

from ablab.analysis import stats
from ablab.errors import UsageError

# Extra hours of sleep of ten patients under two drugs (Student 1908; R's `sleep`).
SLEEP = [
    [0.7, -1.6, -0.2, -1.2, -0.1, 3.4, 3.7, 0.8, 0.0, 2.0],
    [1.9, 0.8, 1.1, 0.1, -0.1, 4.4, 5.5, 1.6, 4.6, 3.4],
]


def table(values: dict[str, dict[int, float]]) -> pd.DataFrame:
    """Finished runs from losses by label and seed."""
    return pd.DataFrame(
        [
            {"label": label, "seed": seed, "loss": loss, "state": "finished"}
            for label, row in values.items()
            for seed, loss in row.items()
        ]
    )


def test_sleep() -> None:
    runs = table({"1": dict(enumerate(SLEEP[0])), "2": dict(enumerate(SLEEP[1]))})
    pair = stats.pairs(runs, "1", "2")
    test = stats.paired_t(pair.differences)
    assert test.statistic == pytest.approx(-4.0621, abs=5e-5)
    assert test.p == pytest.approx(0.002833, abs=5e-7)
    assert test.df == 9
    assert test.ci == pytest.approx((-2.4598858, -0.7001142), abs=5e-8)
    assert test.difference == pytest.approx(-1.58, rel=1e-12)
    assert stats.correlation(*SLEEP) == pytest.approx(0.7951702, abs=5e-8)  # R: cor(...)
    reference = scipy_stats.ttest_rel(*SLEEP)
    assert (test.statistic, test.p) == pytest.approx((reference.statistic, reference.pvalue), rel=1e-12)


def test_pairs_use_the_seeds_both_finished() -> None:
    runs = table({"a": {0: 3.0, 1: 3.1, 2: 3.2, 5: 3.3}, "b": {1: 3.0, 2: 3.0, 3: 9.0, 5: math.nan}})
    runs.loc[len(runs)] = {"label": "b", "seed": 0, "loss": 1.0, "state": "diverged"}
    pair = stats.pairs(runs, "a", "b")
    assert pair.seeds == (1, 2) and pair.n == 2
    assert pair.differences == pytest.approx((0.1, 0.2))


def test_equal_losses_are_no_difference() -> None:
    same = stats.paired_t([0.0, 0.0, 0.0])
    assert (same.statistic, same.p, same.ci) == (0.0, 1.0, (0.0, 0.0))
    shifted = stats.paired_t([-0.5, -0.5, -0.5])
    assert shifted.statistic == -math.inf and shifted.p == 0.0


@pytest.mark.parametrize(("n", "rho"), [(3, 0.58), (4, 0.41), (5, 0.31)])
def test_pairing_pays_above(n: int, rho: float) -> None:
    assert stats.pairing_pays_above(n) == pytest.approx(rho, abs=0.005)


def test_correlation_without_variation_is_unknown() -> None:
    assert math.isnan(stats.correlation([1.0, 1.0, 1.0], [1.0, 2.0, 3.0]))
    assert math.isnan(stats.correlation([1.0], [2.0]))
    assert stats.correlation([1.0, 2.0, 3.0], [2.0, 4.0, 6.0]) == pytest.approx(1.0)


def test_std_interval_by_hand() -> None:
    low, high = stats.std_interval([0.0, 1.0, 2.0])  # 2 df: chi2 quantiles -2 ln(.975) and -2 ln(.025)
    assert low == pytest.approx(math.sqrt(2 / (-2 * math.log(0.025))))
    assert high == pytest.approx(math.sqrt(2 / (-2 * math.log(0.975))))


def test_mean_interval() -> None:
    assert stats.mean_interval([3.0, 3.1]) is None
    interval = stats.mean_interval(SLEEP[0])  # R: t.test(extra[group == 1])
    assert interval == pytest.approx((-0.5297804, 2.0297804), abs=5e-8)


@pytest.mark.parametrize(
    ("change", "word"),
    [
        (lambda r: r.drop(columns="state"), "column state"),
        (lambda r: r.assign(state="done"), "unknown value 'done'"),
        (lambda r: pd.concat([r, r]), "seed 0 twice"),
    ],
)
def test_bad_tables_are_refused(change: object, word: str) -> None:
    runs = table({"a": {0: 1.0, 1: 2.0}, "b": {0: 1.0, 1: 2.0}})
    with pytest.raises(UsageError, match=word):
        stats.compare(change(runs), "a")  # type: ignore[operator]


def test_order_of_rows_does_not_matter() -> None:
    rng = np.random.default_rng(0)
    runs = table({x: dict(enumerate(3 + 0.01 * rng.standard_normal(4))) for x in "abc"})
    shuffled = runs.sample(frac=1, random_state=1)
    first, second = stats.compare(runs, "a", ["b", "c"]), stats.compare(shuffled, "a", ["b", "c"])
    assert first.comparisons == second.comparisons
