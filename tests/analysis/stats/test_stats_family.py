"""Families: which test judges which arm, and that verdict, interval and adjusted p never contradict each other."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablab.analysis import stats
from ablab.errors import UsageError


def study(losses: np.ndarray, seeds: list[int] | None = None) -> pd.DataFrame:
    """Runs of variants v0, v1, … from a (variants, seeds) array; NaN means the run is missing."""
    seeds = seeds or list(range(losses.shape[1]))
    rows = []
    for v, row in enumerate(losses):
        for seed, loss in zip(seeds, row, strict=True):
            state = "finished" if np.isfinite(loss) else "missing"
            rows.append({"label": f"v{v}", "seed": seed, "loss": float(loss), "state": state})
    return pd.DataFrame(rows)


def noise(k: int, n: int, seed: int = 0, sd: float = 0.002) -> np.ndarray:
    rng = np.random.default_rng(seed)
    return 3 + 0.05 * rng.standard_normal(n) + sd * rng.standard_normal((k, n))


def by_label(family: stats.Family) -> dict[str, stats.Comparison]:
    return {c.label: c for c in family.comparisons}


def test_one_comparison_is_a_paired_t_test() -> None:
    y = noise(2, 5)
    (c,) = stats.compare(study(y), "v0").comparisons
    t = stats.paired_t(y[1] - y[0])
    assert c.method == "paired t" and c.p == c.p_adjusted == pytest.approx(t.p)
    assert c.ci == pytest.approx(t.ci) and c.df == 4
    assert c.mde == pytest.approx(stats.mde_factor(5) * np.std(y[1] - y[0], ddof=1))


def test_several_comparisons_share_one_error() -> None:
    y = noise(5, 4, seed=4)
    y[2] += 0.05
    family = stats.compare(study(y), "v0")
    expected = stats.blocked_dunnett(y[0], y[1:])
    assert {c.method for c in family.comparisons} == {"blocked Dunnett"}
    assert [c.p_adjusted for c in family.comparisons] == pytest.approx(list(expected.p_adjusted))
    assert [c.p for c in family.comparisons] == pytest.approx(list(expected.p))
    assert [c.ci[0] for c in family.comparisons] == pytest.approx(list(expected.low))
    assert by_label(family)["v2"].verdict == "worse" and by_label(family)["v2"].practical == "yes"
    assert family.mse == pytest.approx(expected.mse) and family.reasons == ()


def test_a_noisy_baseline_falls_back_to_holm() -> None:
    y = noise(5, 4, seed=4)
    y[0] += [0.1, -0.1, 0.05, -0.05]
    family = stats.compare(study(y), "v0")
    assert {c.method for c in family.comparisons} == {"paired t, Holm"}
    assert "baseline v0" in family.reasons[0] and "bound" in family.reasons[0]
    p = [stats.paired_t(y[v] - y[0]).p for v in range(1, 5)]
    assert [c.p for c in family.comparisons] == pytest.approx(p)
    assert [c.p_adjusted for c in family.comparisons] == pytest.approx(list(stats.holm(p)))


def test_with_few_seeds_a_noisy_arm_is_judged_by_its_own_spread_too() -> None:
    y = noise(5, 3, seed=4)
    y[3] += [0.03, -0.03, 0.0]
    family = stats.compare(study(y), "v0")
    assert {c.method for c in family.comparisons} == {"blocked Dunnett"}
    assert any("v3 varies more than the rest" in reason for reason in family.reasons)
    expected = stats.blocked_dunnett(y[0], y[1:], apart=(2,))
    assert by_label(family)["v3"].p_adjusted == pytest.approx(expected.p_adjusted[2])
    assert by_label(family)["v3"].ci == pytest.approx((expected.low[2], expected.high[2]))
    for c in family.comparisons:  # interval and p never contradict each other
        assert (c.ci[0] > 0 or c.ci[1] < 0) == (c.p_adjusted < 0.05)


def test_a_noisy_arm_falls_back_and_is_named() -> None:
    y = noise(5, 6, seed=6)
    y[3] += 0.2 * np.array([1, -1, 1, -1, 1, -1])
    family = stats.compare(study(y), "v0")
    assert {c.method for c in family.comparisons} == {"paired t, Holm"} and "noise of v3" in family.reasons[0]


def test_unstable_arms_stay_outside_the_pooled_error() -> None:
    y = noise(5, 4, seed=4)
    y[4] += [0.5, -0.5, 0.4, -0.3]
    family = stats.compare(study(y), "v0", unstable=["v4"])
    found = by_label(family)
    assert [found[f"v{i}"].method for i in (1, 2, 3, 4)] == ["blocked Dunnett"] * 3 + ["paired t, Holm"]
    pooled = stats.blocked_dunnett(y[0], y[1:4], 0.05 * 3 / 4)  # three quarters of alpha for three of four arms
    assert found["v1"].ci == pytest.approx((pooled.low[0], pooled.high[0]))
    assert found["v1"].p_adjusted == pytest.approx(min(1, pooled.p_adjusted[0] * 4 / 3))
    assert found["v4"].p_adjusted == pytest.approx(min(1, 4 * stats.paired_t(y[4] - y[0]).p))
    assert family.mse == pytest.approx(pooled.mse) and "v4 is declared unstable" in family.reasons[0]


def test_unequal_seeds_stay_outside_the_pooled_error() -> None:
    y = noise(5, 5, seed=7)
    y[2, 4] = math.nan
    family = stats.compare(study(y), "v0")
    found = by_label(family)
    assert found["v2"].method == "paired t, Holm" and found["v2"].n_pairs == 4
    assert found["v1"].method == "blocked Dunnett" and found["v1"].seeds == (0, 1, 2, 3, 4)
    assert family.reasons == (
        "v2 shares seeds 0, 1, 2, 3 with the baseline, the others 0, 1, 2, 3, 4: judged by its own spread",
    )


def test_a_baseline_seed_that_no_arm_has_is_no_inequality() -> None:
    y = noise(4, 5, seed=6)
    y[1:, 4] = math.nan
    family = stats.compare(study(y), "v0")
    assert {(c.method, c.n_pairs) for c in family.comparisons} == {("blocked Dunnett", 4)}


@pytest.mark.parametrize("n", [0, 1, 2])
def test_below_three_seeds_there_is_no_p(n: int) -> None:
    y = np.full((3, 5), math.nan)
    y[0] = noise(1, 5)
    y[1] = y[0] + 0.5
    y[2, :n] = y[0, :n] - 5
    c = by_label(stats.compare(study(y), "v0"))["v2"]
    assert (c.p, c.p_adjusted, c.ci, c.mde, c.n_needed, c.method) == (None,) * 6
    assert (c.verdict, c.practical, c.n_pairs) == ("inconclusive", "unclear", n)
    assert c.difference == (None if n == 0 else pytest.approx(-5))


def test_below_three_seeds_do_not_dilute_the_family() -> None:
    y = noise(3, 4)
    y[2, 2:] = math.nan
    assert by_label(stats.compare(study(y), "v0"))["v1"].method == "paired t"


def test_a_screen_uses_benjamini_hochberg() -> None:
    y = noise(7, 5, seed=1)
    y[1] += 0.02
    y[2] -= 0.02
    found = stats.compare(study(y), "v0", screen=True).comparisons
    p = [stats.paired_t(y[v] - y[0]).p for v in range(1, 7)]
    assert [c.p_adjusted for c in found] == pytest.approx(list(stats.benjamini_hochberg(p)))
    assert {c.method for c in found} == {"paired t, BH"}
    for c in found:
        assert (c.p_adjusted <= 0.05) == (c.ci[0] > 0 or c.ci[1] < 0)


def test_precedence_and_practical() -> None:
    wide = (-0.1, 0.1)
    assert stats.verdict((-0.003, -0.001), (-0.0029, -0.0011), 0.005) == "better"
    assert stats.practical((-0.003, -0.001), 0.005) == "no"
    assert stats.verdict((0.001, 0.003), wide, 0.005) == "worse"
    assert stats.verdict((-0.006, 0.004), (-0.005, 0.003), 0.005) == "equivalent"
    assert stats.practical((-0.006, 0.004), 0.005) == "unclear"
    assert stats.verdict(wide, wide, 0.005) == "inconclusive"
    assert stats.verdict(None, None, 0.005) == "inconclusive" and stats.practical(None, 0.005) == "unclear"
    assert stats.practical((0.006, 0.01), 0.005) == "yes" and stats.practical((-0.01, -0.006), 0.005) == "yes"
    assert stats.verdict((0.0, 0.001), (0.0, 0.001), 0.005) == "equivalent"  # 0 is not excluded


def test_identical_losses_are_equivalent_not_better() -> None:
    y = np.tile(noise(1, 4), (4, 1))
    for c in stats.compare(study(y), "v0").comparisons:
        assert c.difference == 0 and c.p_adjusted == pytest.approx(1.0) and c.verdict == "equivalent"


def test_rounding_is_neither_noise_nor_effect() -> None:
    base = noise(1, 4)[0]
    y = np.stack([base, (base + 0.1) - 0.1, base * 3 / 3, (base - 7) + 7])
    assert np.any(y[1:] != base)
    for c in stats.compare(study(y), "v0").comparisons:
        assert c.difference == 0 and c.verdict == "equivalent" and c.method == "blocked Dunnett"
    shifted = stats.compare(study(np.stack([base, base + 0.25, base - 0.5])), "v0")
    assert [c.verdict for c in shifted.comparisons] == ["worse", "better"] and shifted.reasons == ()


@pytest.mark.parametrize(
    ("options", "word"),
    [
        ({"alpha": 0.0}, "study.alpha"),
        ({"alpha": 0.7}, "study.alpha"),
        ({"margin": -1.0}, "study.margin"),
        ({"baseline": "nobody"}, "study.baseline.*v0; v1"),
        ({"labels": ["v9"]}, "v9"),
    ],
)
def test_usage_errors_name_the_key(options: dict[str, object], word: str) -> None:
    with pytest.raises(UsageError, match=word):
        stats.compare(study(noise(2, 3)), **({"baseline": "v0"} | options))  # type: ignore[arg-type]


@settings(max_examples=40, deadline=None)
@given(
    seed=st.integers(0, 10**6),
    k=st.integers(2, 6),
    n=st.sampled_from([3, 4, 5]),
    spread=st.sampled_from([1.0, 1.0, 6.0]),
    effect=st.floats(-0.03, 0.03),
    lost=st.booleans(),
    unstable=st.booleans(),
)
def test_verdict_interval_and_p_agree(
    seed: int, k: int, n: int, spread: float, effect: float, lost: bool, unstable: bool
) -> None:
    y = noise(k, n, seed)
    y[0] += (spread - 1) * 0.002 * np.random.default_rng(seed + 1).standard_normal(n)
    y[1:] += effect * np.arange(k - 1)[:, None]
    if lost and n > 3:
        y[-1, 0] = math.nan
    family = stats.compare(study(y), "v0", unstable=["v1"] if unstable else [])
    for c in family.comparisons:
        assert c.p is not None and c.p_adjusted is not None and c.ci is not None
        assert 0 <= c.p <= c.p_adjusted + 1e-12 <= 1 + 1e-9
        assert c.ci[0] <= c.difference <= c.ci[1]
        excludes = c.ci[0] > 0 or c.ci[1] < 0
        assert excludes == (c.p_adjusted < 0.05) == (c.verdict in ("better", "worse"))
        if excludes:
            assert c.verdict == ("better" if c.difference < 0 else "worse")
        assert c.mde > 0 and (c.n_needed is None or c.n_needed >= 3)
