"""Spikes, tokens to a target, common steps and sizes in tokens."""

from __future__ import annotations

import math

import numpy as np
import pytest

from ablab.analysis import stats
from ablab.errors import UsageError


def test_spikes_are_counted_against_the_values_before() -> None:
    rng = np.random.default_rng(0)
    x = 3 + 0.01 * rng.standard_normal(1000)
    assert stats.spike_score(x) == 0.0
    x[[400, 700]] += 1.0
    assert stats.spike_score(x, window=200) == pytest.approx(100 * 2 / 800)


def test_spike_threshold_by_hand() -> None:
    window = [0.0, 2.0] * 5  # mean 1, sd sqrt(10/9)
    edge = 1 + 7 * math.sqrt(10 / 9)
    assert stats.spike_score([*window, edge * 1.000001], window=10) == 100.0
    assert stats.spike_score([*window, edge * 0.999], window=10) == 0.0


def test_spikes_of_odd_curves() -> None:
    assert stats.spike_score([]) is None and stats.spike_score([1.0, 1.0], window=5) is None
    assert stats.spike_score([1.0] * 50) == 0.0  # a flat curve has no spikes
    wild = [1.0, 1.1] * 10 + [math.nan] + [1.0, 1.1] * 5
    assert stats.spike_score(wild, window=4) == pytest.approx(100 / 27)  # 26 judged values and one not finite


def test_window_is_a_fifth_of_the_run_up_to_a_thousand() -> None:
    assert [stats.spike_window(n) for n in (1, 100, 300, 5000, 10**6)] == [2, 20, 60, 1000, 1000]


def test_tokens_to_target() -> None:
    reached = stats.tokens_to_target([10, 20, 30, 40], [5.0, 3.0, 3.2, 2.9], 3.0)
    assert (reached.tokens, reached.missed) == (20, False)
    missed = stats.tokens_to_target([10, 20], [5.0, math.nan], 3.0)
    assert (missed.tokens, missed.missed) == (20, True)
    assert stats.tokens_to_target([20, 10], [2.0, 2.5], 3.0).tokens == 10
    with pytest.raises(UsageError):
        stats.tokens_to_target([], [], 3.0)


def test_target_ratio_is_a_mean_of_logs_and_never_drops_a_miss() -> None:
    hit, miss = (lambda t: stats.Reached(t, False)), (lambda t: stats.Reached(t, True))
    ratio = stats.target_ratio({0: hit(10), 1: hit(40), 9: hit(1)}, {0: hit(20), 1: hit(20)})
    assert (ratio.ratio, ratio.bound, ratio.n) == (pytest.approx(1.0), "=", 2)
    late = stats.target_ratio({0: hit(10), 1: miss(90)}, {0: hit(10), 1: hit(10)})
    assert late.ratio == pytest.approx(3.0) and (late.bound, late.missed_variant) == (">=", 1)
    early = stats.target_ratio({0: hit(10)}, {0: miss(40)})
    assert early.ratio == pytest.approx(0.25) and early.bound == "<="
    unknown = stats.target_ratio({0: miss(10), 1: hit(5)}, {0: hit(5), 1: miss(10)})
    assert unknown.ratio is None and unknown.bound is None
    assert stats.target_ratio({}, {}).ratio is None


def test_size_in_tokens() -> None:
    # L = c - 0.1 ln D: twice the tokens are worth 0.1 ln 2.
    assert stats.tokens_worth(-0.1 * math.log(2), -0.1) == pytest.approx(100.0)
    assert stats.tokens_worth(0.1 * math.log(2), 0.1) == pytest.approx(-50.0)
    assert stats.tokens_worth(0.0, -0.1) == 0.0
    with pytest.raises(UsageError, match="slope"):
        stats.tokens_worth(0.1, 0.0)


def test_slope_of_a_ladder() -> None:
    tokens = np.array([1e5, 1e6, 1e7])
    assert stats.token_slope(tokens, 5 - 0.2 * np.log(tokens)) == pytest.approx(-0.2)
    assert stats.token_slope([1e5, 1e5], [3.0, 3.1]) is None and stats.token_slope([1e5], [3.0]) is None
