"""The Dunnett law against published tables, Student's t, and a general multivariate t integral."""

from __future__ import annotations

import math

import numpy as np
import pytest
from scipy import stats as scipy_stats

from ablab.analysis import stats

# Two-sided 5 % and 1 % points for comparisons with a control (Dunnett 1964, Biometrics 20, tables II and III).
TABLE = {(2, 5): (3.03, 4.63), (2, 10): (2.57, 3.53), (5, 10): (2.99, 3.99), (4, 20): (2.65, 3.40)}


@pytest.mark.parametrize(("case", "points"), TABLE.items())
def test_published_table(case: tuple[int, int], points: tuple[float, float]) -> None:
    m, df = case
    found = (stats.dunnett_critical(0.05, m, df), stats.dunnett_critical(0.01, m, df))
    assert found == pytest.approx(points, abs=0.006)


@pytest.mark.parametrize(("m", "df", "c"), [(2, 4, 3.0), (5, 10, 2.5), (8, 16, 3.2)])
def test_general_integral(m: int, df: int, c: float) -> None:
    shape = np.full((m, m), 0.5) + 0.5 * np.eye(m)
    law = scipy_stats.multivariate_t(shape=shape, df=df)
    inside = law.cdf(np.full(m, c), lower_limit=np.full(m, -c), random_state=0, maxpts=100_000)
    assert stats.dunnett_sf(c, m, df) == pytest.approx(1 - inside, abs=2e-5)


def test_simulated_maximum() -> None:
    rng = np.random.default_rng(5)
    z = rng.standard_normal((200_000, 5))
    t = np.abs(z[:, 1:] - z[:, :1]) / math.sqrt(2) / np.sqrt(rng.chisquare(8, (200_000, 1)) / 8)
    share = float((t.max(axis=1) > stats.dunnett_critical(0.05, 4, 8)).mean())
    assert share == pytest.approx(0.05, abs=0.002)


@pytest.mark.parametrize("df", [4, 8, 40])
def test_quadrature_reduces_to_t(df: int) -> None:
    """Two comparisons of which one never exceeds: the joint tail lies between one t tail and two."""
    for c in (0.5, 2.0, 5.0):
        one = 2 * scipy_stats.t.sf(c, df)
        assert one < stats.dunnett_sf(c, 2, df) < 2 * one
    assert stats.dunnett_sf(2.2, 1, df) == pytest.approx(2 * scipy_stats.t.sf(2.2, df), rel=1e-12)


def test_edges() -> None:
    assert stats.dunnett_sf(0.0, 5, 10) == pytest.approx(1.0)
    assert stats.dunnett_sf(math.inf, 5, 10) == 0.0
    assert math.isnan(stats.dunnett_sf(math.nan, 5, 10))
    assert stats.dunnett_sf(-3.0, 5, 10) == stats.dunnett_sf(3.0, 5, 10)


def test_critical_value_inverts_the_tail() -> None:
    for alpha in (0.01, 0.0196, 0.05, 0.1):
        assert stats.dunnett_sf(stats.dunnett_critical(alpha, 6, 12), 6, 12) == pytest.approx(alpha, rel=1e-7)


def test_blocked_statistic_by_hand() -> None:
    base = np.array([1.0, 2.0, 3.0])
    arms = np.array([[2.0, 3.5, 3.5], [0.0, 1.0, 2.5]])
    test = stats.blocked_dunnett(base, arms)
    y = np.vstack([base, arms])
    fitted = y.mean(axis=1, keepdims=True) + y.mean(axis=0) - y.mean()
    mse = ((y - fitted) ** 2).sum() / 4
    assert test.mse == pytest.approx(mse) and test.df == 4
    d = arms[0] - base  # 1, 1.5, .5
    assert test.differences[0] == 1.0 and test.stds[0] == 0.5
    scale = math.sqrt(max(0.25, 2 * mse) / 3)
    assert test.statistics[0] == pytest.approx(d.mean() / scale)
    assert test.high[0] - test.low[0] == pytest.approx(2 * stats.dunnett_critical(0.05, 2, 4) * scale)
    assert test.p_adjusted[0] == pytest.approx(stats.dunnett_sf(test.statistics[0], 2, 4))


def test_one_arm_is_the_paired_t_test() -> None:
    rng = np.random.default_rng(2)
    base, arm = rng.standard_normal((2, 6))
    blocked, paired = stats.blocked_dunnett(base, arm[None]), stats.paired_t(arm - base)
    assert blocked.statistics[0] == pytest.approx(paired.statistic)
    assert blocked.p_adjusted[0] == pytest.approx(paired.p)
    assert (blocked.low[0], blocked.high[0]) == pytest.approx(paired.ci)


def test_spread_check_names_the_noisy_one() -> None:
    rng = np.random.default_rng(3)
    calm = rng.standard_normal((6, 8))
    noisy = calm.copy()
    noisy[4] *= 30
    check = stats.spread_check(noisy[0], noisy[1:])
    assert check.differ and check.noisiest == 3 and check.arm_ratio > check.arm_bound
    noisy = calm.copy()
    noisy[0] *= 30
    check = stats.spread_check(noisy[0], noisy[1:])
    assert check.differ and check.baseline_ratio > check.baseline_bound


def test_an_arm_apart_must_also_pass_its_own_paired_t_test() -> None:
    rng = np.random.default_rng(5)
    base, *arms = rng.standard_normal((4, 3))
    together, apart = (stats.blocked_dunnett(base, arms, 0.05, which) for which in ((), (1,)))
    own = stats.paired_t(arms[1] - base)
    assert apart.p_adjusted[1] == pytest.approx(max(together.p_adjusted[1], own.p))
    assert apart.p[1] == pytest.approx(max(together.p[1], own.p))
    half = max(together.high[1] - together.differences[1], own.ci[1] - together.differences[1])
    assert (apart.low[1], apart.high[1]) == pytest.approx(
        (together.differences[1] - half, together.differences[1] + half)
    )
    for i in (0, 2):
        assert (apart.low[i], apart.high[i], apart.p_adjusted[i]) == (
            together.low[i], together.high[i], together.p_adjusted[i],
        )  # fmt: skip


def test_few_seeds_set_a_noisy_arm_apart_and_more_do_not_need_it() -> None:
    for n, expected in ((3, (1,)), (4, (1,)), (5, ())):
        calm = np.random.default_rng(7).standard_normal((6, n))
        calm[2] *= 9
        assert stats.spread_check(calm[0], calm[1:]).apart == expected
    calm = np.random.default_rng(7).standard_normal((6, 3))
    assert stats.spread_check(calm[0], calm[1:]).apart == ()


def test_spread_ratios_are_f_ratios() -> None:
    """Against the definition: the variance of one row's contrast over the mean square of what is left."""
    y = np.random.default_rng(4).standard_normal((5, 4))
    check = stats.spread_check(y[0], y[1:])
    rest = y[1:]
    contrast = y[0] - rest.mean(axis=0)
    other = rest - rest.mean(axis=0) - rest.mean(axis=1, keepdims=True) + rest.mean()
    expected = contrast.var(ddof=1) / (1 + 1 / 4) / ((other**2).sum() / 9)
    assert check.baseline_ratio == pytest.approx(expected)
    assert check.baseline_bound == pytest.approx(scipy_stats.f.isf(0.27, 3, 9))


def test_identical_rows_do_not_break_it() -> None:
    same = np.tile([3.0, 3.1, 3.2], (4, 1))
    assert not stats.spread_check(same[0], same[1:]).differ
    test = stats.blocked_dunnett(same[0], same[1:])
    assert test.p_adjusted == pytest.approx(np.ones(3)) and test.differences == pytest.approx(np.zeros(3))
