"""What n seeds can find, against known values and simulation; declared looks."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import special

from ablab.analysis import stats
from ablab.analysis.stats.looks import false_verdicts
from ablab.errors import UsageError

NS = (3, 4, 5, 6, 8, 10)


def test_smallest_effects_of_one_comparison() -> None:
    assert [round(stats.mde_factor(n), 2) for n in NS] == [3.26, 2.13, 1.68, 1.43, 1.16, 1.00]
    assert [round(stats.mde_factor(n, 0.01), 2) for n in NS] == [7.32, 3.72, 2.63, 2.11, 1.60, 1.33]


def test_where_general_solvers_fail() -> None:
    assert stats.mde_factor(2, 0.01) == pytest.approx(57.692, abs=0.001)


def test_a_family_of_five_at_three_seeds() -> None:
    assert stats.mde_factor(3, 0.05, 5) == pytest.approx(2.55, abs=0.005)
    assert stats.mde_factor(3, 0.05, 5, "holm") == pytest.approx(7.32, abs=0.005)
    assert stats.mde_factor(1) == math.inf


@pytest.mark.parametrize(("n", "m"), [(3, 1), (3, 5), (5, 4)])
def test_power_within_one_percent_of_simulation(n: int, m: int) -> None:
    rng = np.random.default_rng(7)
    count, effect = 40_000, stats.mde_factor(n, 0.05, m)
    y = rng.standard_normal((count, m + 1, n))
    y[:, 1] += effect * math.sqrt(2)
    d = y[:, 1] - y[:, 0]
    rest = y - y.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=2, keepdims=True)
    scale = np.maximum(d.var(axis=1, ddof=1), 2 * (rest**2).sum(axis=(1, 2)) / (m * (n - 1)))
    found = np.abs(d.mean(axis=1)) > stats.dunnett_critical(0.05, m, m * (n - 1)) * np.sqrt(scale / n)
    assert found.mean() == pytest.approx(0.8, abs=0.01)


@pytest.mark.parametrize(("n", "limit"), [(3, 0.0019), (4, 0.0026), (5, 0.0031)])
def test_equivalence_needs_quiet_runs(n: int, limit: float) -> None:
    assert stats.equivalence_limit(n, 0.005) == pytest.approx(limit, abs=5e-5)
    rng = np.random.default_rng(1)
    d = stats.equivalence_limit(n, 0.005) * rng.standard_normal((40_000, n))
    half = special.stdtrit(n - 1, 0.95) * d.std(axis=1, ddof=1) / math.sqrt(n)
    assert (np.abs(d.mean(axis=1)) + half <= 0.005).mean() == pytest.approx(0.8, abs=0.01)


def test_equivalence_in_families_needs_more() -> None:
    assert stats.equivalence_limit(5, 0.005, comparisons=5) < stats.equivalence_limit(5, 0.005)
    assert stats.equivalence_limit(5, 0.0) == 0.0 and stats.equivalence_power(0.0, 3, 0.005) == 1.0


def test_n_needed_turns_the_table_around() -> None:
    for n in NS[1:]:
        effect = stats.mde_factor(n) * 0.01
        assert stats.n_needed(effect * 1.001, 0.01) == n
        assert stats.n_needed(-effect * 0.999, 0.01) == n + 1
    assert stats.n_needed(0.0, 0.01) is None
    assert stats.n_needed(math.nan, 0.01) is None
    assert stats.n_needed(1e-9, 1.0) is None
    assert stats.n_needed(0.1, 0.0) == 3


def test_n_needed_counts_equivalence_only_within_the_margin() -> None:
    needed = stats.n_needed(0.0, 0.004, margin=0.005)
    assert needed is not None and stats.equivalence_limit(needed, 0.005) >= 0.004
    assert stats.equivalence_limit(needed - 1, 0.005) < 0.004
    assert stats.n_needed(0.006, 0.05, margin=0.005) == stats.n_needed(0.006, 0.05)


def test_looks_spend_alpha_once() -> None:
    assert stats.look_level() == pytest.approx(0.02, abs=0.001)
    assert stats.look_level((3, 5)) == pytest.approx(0.027, abs=0.001)
    assert stats.look_level((5,)) == 0.05
    assert false_verdicts((3, 5, 8), stats.look_level()) <= 0.05
    assert false_verdicts(range(3, 9), 0.05) == pytest.approx(0.145, abs=0.003)


def test_undeclared_looks_are_shown() -> None:
    declared, between = stats.level_at(5, (3, 5, 8)), stats.level_at(4, (3, 5, 8))
    assert declared.declared and declared.note is None and declared.level == stats.look_level()
    assert not between.declared and between.note is not None and "3, 5, 8" in between.note
    assert between.level == declared.level


@pytest.mark.parametrize("looks", [[], [1, 3], [5, 3], [3, 3]])
def test_bad_looks_are_refused(looks: list[int]) -> None:
    with pytest.raises(UsageError, match=r"study\.looks"):
        stats.look_level(looks)
