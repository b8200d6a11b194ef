"""The analyser's own error rates, on 1,000 to 10,000 simulated studies each (`benchmarks/simulate_statistics.py`)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from support.scripts import load

from ablab.analysis import stats

COUNT = 1_000
LIMIT = 0.064  # 5 % and two standard errors


simulate = load("simulate_statistics")


@pytest.fixture
def rng() -> np.random.Generator:
    return np.random.default_rng(2024)


def test_simulated_rules_are_the_analysers(rng: np.random.Generator) -> None:
    assert simulate.disagreements(rng, 25, n=3) == 0
    assert simulate.disagreements(rng, 25, n=5) == 0


@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("noise", ["equal", "baseline ×2", "baseline ×4", "one arm ×2", "arms from 1 to 4"])
def test_false_verdicts_under_a_a(rng: np.random.Generator, n: int, noise: str) -> None:
    y = simulate.studies(rng, 10 * COUNT, n, simulate.scenarios(6)[noise])
    assert simulate.judge(y).found.any(axis=1).mean() <= LIMIT


def test_without_the_fallback_a_noisy_baseline_fools_it(
    rng: np.random.Generator, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The bound does something: the pooled test alone has more than twice the false verdicts it should."""
    y = simulate.studies(rng, 10 * COUNT, 3, simulate.scenarios(6)["baseline ×4"])
    monkeypatch.setattr(simulate, "spread_bounds", lambda m, n: (math.inf, math.inf))
    assert simulate.judge(y).found.any(axis=1).mean() == pytest.approx(0.13, abs=0.01)
    y = simulate.studies(rng, 10 * COUNT, 3, simulate.scenarios(6)["equal"])
    assert simulate.judge(y).found.any(axis=1).mean() == pytest.approx(0.038, abs=0.006)


@pytest.mark.parametrize("n", [3, 5, 8])
@pytest.mark.parametrize("k", [2, 6])
def test_simultaneous_coverage(rng: np.random.Generator, n: int, k: int) -> None:
    truth = [0.0, 4.0, *[0.0] * (k - 2)][: k - 1]
    y = simulate.studies(rng, 3 * COUNT, n, [1.0] * k, [0.0, *truth])
    judged = simulate.judge(y)
    covered = ((judged.low <= truth) & (truth <= judged.high)).all(axis=1).mean()
    assert 0.93 <= covered <= 0.97 + 0.006  # two standard errors of 3,000 studies


@pytest.mark.parametrize("n", [3, 5, 8])
def test_an_effect_of_twice_the_mde_is_found(rng: np.random.Generator, n: int) -> None:
    for k in (2, 6):
        effect = 2 * stats.mde_factor(n, 0.05, k - 1) * 2**0.5
        y = simulate.studies(rng, COUNT, n, [1.0] * k, [0.0, effect, *[0.0] * (k - 2)])
        assert simulate.judge(y).found[:, 0].mean() >= 0.8


def test_declared_looks_keep_alpha(rng: np.random.Generator) -> None:
    y = simulate.studies(rng, COUNT, 8, [1.0] * 4)
    level = stats.look_level((3, 5, 8))
    looks = [simulate.judge(y[:, :, :n], level).found.any(axis=1) for n in (3, 5, 8)]
    assert np.any(looks, axis=0).mean() <= LIMIT


def test_empty_cells_never_give_a_wrong_p(rng: np.random.Generator) -> None:
    found = simulate.empty_cells(rng, 80)
    assert found["effects printed that the cells cannot give"] == 0
    assert found["null contrasts"] > 100 and found["p < .05 among them"] <= 0.1
    assert found["real contrasts of 7 sd"] > 100 and found["p < .05 among those"] == 1.0
