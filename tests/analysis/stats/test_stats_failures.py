"""Runs that did not finish: accounting, divergence, collapse."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from ablab.analysis import stats


def runs(**variants: str) -> pd.DataFrame:
    """Runs from a word per variant: f finished, d diverged, x failed, i interrupted, m missing; seeds 0, 1, …"""
    names = {"f": "finished", "d": "diverged", "x": "failed", "i": "interrupted", "m": "missing"}
    return pd.DataFrame(
        [
            {"label": label, "seed": s, "state": names[c], "loss": 3 + 0.01 * s if c == "f" else math.nan}
            for label, word in variants.items()
            for s, c in enumerate(word)
        ]
    )


def test_wilson_known_values() -> None:
    # Newcombe (1998), Statistics in Medicine 17, table I: method 3.
    assert stats.wilson(81, 263) == pytest.approx((0.2553, 0.3662), abs=5e-5)
    assert stats.wilson(0, 20) == pytest.approx((0.0, 0.1611), abs=5e-5)
    assert stats.wilson(1, 29) == pytest.approx((0.0061, 0.1718), abs=5e-5)
    assert stats.wilson(0, 0) is None


def test_mcnemar_and_sign_by_hand() -> None:
    assert stats.mcnemar_exact(5, 0) == pytest.approx(2 / 32)
    assert stats.mcnemar_exact(6, 1) == pytest.approx(2 * (1 + 7) / 128)
    assert stats.mcnemar_exact(0, 0) == 1.0 and stats.mcnemar_exact(2, 2) == 1.0
    assert stats.sign_test(0, 6) == pytest.approx(2 / 64) and stats.sign_test(0, 0) == 1.0


def test_divergence_against_the_baseline() -> None:
    table = runs(base="ffffffff", bad="dddddfff", lost="ffffxmif")
    table.loc[(table["label"] == "bad") & (table["seed"] == 7), "loss"] = 2.0
    base, bad, lost = stats.divergence(table, "base")
    assert (base.label, base.diverged, base.mcnemar_p) == ("base", 0, None)
    assert (bad.outcomes, bad.diverged, bad.rate) == (8, 5, 5 / 8)
    assert (bad.only_variant, bad.only_baseline) == (5, 0) and bad.mcnemar_p == pytest.approx(2 / 32)
    assert bad.n_both_finished == 3
    assert bad.difference_both_finished == pytest.approx((2.0 - 3.07) / 3)  # survivors look better …
    assert (bad.better, bad.worse, bad.ties) == (1, 5, 2)  # … and the ranks do not let them
    assert bad.worst_rank_p == pytest.approx(2 * (1 + 6) / 64)
    assert (lost.outcomes, lost.diverged, lost.rate) == (5, 0, 0.0)  # no outcome is no divergence


def test_two_diverged_runs_tie_and_nan_never_wins() -> None:
    table = runs(base="ddff", other="dfdf")
    table.loc[(table["label"] == "other") & (table["seed"] == 3), "loss"] = math.nan
    found = stats.divergence(table, "base")[1]
    assert (found.better, found.worse, found.ties) == (1, 2, 1)


def test_few_pairs_get_no_p() -> None:
    found = stats.divergence(runs(base="ff", bad="dd"), "base")[1]
    assert found.mcnemar_p is None and found.worst_rank_p is None and found.rate == 1.0
    empty = stats.divergence(runs(base="ff", none="mm"), "base")[1]
    assert empty.rate is None and empty.ci is None and empty.difference_both_finished is None
