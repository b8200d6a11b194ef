"""Holm and Benjamini-Hochberg, worked by hand."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from statsmodels.stats.multitest import multipletests

from ablab.analysis import stats


def test_holm_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4 3 2 1 = .02 .03 .06 .04, made monotone: .02 .03 .06 .06.
    assert stats.holm([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.03, 0.06, 0.06, 0.02])
    assert stats.holm([0.5, 0.9]) == pytest.approx([1.0, 1.0])
    assert stats.holm([]).size == 0


def test_benjamini_hochberg_by_hand() -> None:
    # Sorted .005 .01 .03 .04 times 4/1 4/2 4/3 4/4 = .02 .02 .04 .04.
    assert stats.benjamini_hochberg([0.01, 0.04, 0.03, 0.005]) == pytest.approx([0.02, 0.04, 0.04, 0.02])
    assert stats.benjamini_hochberg([]).size == 0


def test_levels_by_hand() -> None:
    # .005 <= .05/4, .01 <= .05/3, then .03 > .05/2: everything after carries that level.
    assert stats.holm_levels([0.01, 0.04, 0.03, 0.005], 0.05) == pytest.approx([0.05 / 3, 0.025, 0.025, 0.0125])
    assert stats.bh_level([0.01, 0.04, 0.03, 0.005], 0.05) == pytest.approx(0.05)
    assert stats.bh_level([0.5, 0.9], 0.05) == pytest.approx(0.025)


@pytest.mark.parametrize("seed", range(4))
def test_against_statsmodels(seed: int) -> None:
    p = np.random.default_rng(seed).beta(0.3, 2, size=9)
    p[3] = p[7]
    assert stats.holm(p) == pytest.approx(multipletests(p, method="holm")[1])
    assert stats.benjamini_hochberg(p) == pytest.approx(multipletests(p, method="fdr_bh")[1])


@given(st.lists(st.floats(0, 1), min_size=1, max_size=12), st.sampled_from([0.01, 0.05, 0.2]))
def test_levels_reject_where_the_procedure_does(p: list[float], alpha: float) -> None:
    values = np.array(p)
    close = np.abs(stats.holm(values) - alpha) < 1e-9
    assert np.all((values <= stats.holm_levels(values, alpha)) == (stats.holm(values) <= alpha), where=~close)
    close = np.abs(stats.benjamini_hochberg(values) - alpha) < 1e-9
    if not close.any():
        found = stats.benjamini_hochberg(values) <= alpha
        assert np.all((values <= stats.bh_level(values, alpha)) == found) or not found.any()
