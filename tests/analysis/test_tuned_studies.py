"""Tuned values: refusals at the edge of a grid, both views, sensitivity, unequal trials."""

from __future__ import annotations

from pathlib import Path

import pytest

from ablab.analysis import tuning
from ablab.analysis.report import read_facts
from ablab.analysis.tuning import Point

RATES = (1e-4, 1e-3, 1e-2)


def tuned_study(pool, best: dict[str, float], gap: float, selection: tuple[int, ...] = (0,), rates=RATES) -> Path:
    """norm x rate with four seeds; every variant is best at its rate, layer `gap` above rms there."""
    cells = []
    for norm, chosen in best.items():
        for lr in rates:
            for seed in range(4):
                final = (
                    1.5
                    + gap * (norm == "layer")
                    + 0.1 * (lr != chosen)
                    + seed * 0.01
                    + (seed * seed % 3) * 1e-4 * (norm == "layer")
                )
                folder = pool.run(
                    {"norm": norm}, seed, final, name=f"{norm}-{lr}-{seed}", config={"optimizer": {"lr": lr}}
                )
                cells.append({"factors": {"norm": norm, "optimizer.lr": lr}, "seed": seed, "folder": folder.name})
    return pool.study("s", cells, {"norm": ["rms", "layer"], "optimizer.lr": list(rates)}, nuisance=["optimizer.lr"],
                      selection_seeds=list(selection))  # fmt: skip


@pytest.mark.parametrize(
    ("best", "gap", "verdict", "refused"),
    [
        ({"rms": 1e-3, "layer": 1e-3}, 0.05, "worse", None),
        ({"rms": 1e-3, "layer": 1e-2}, 0.05, "inconclusive", "its best"),
        ({"rms": 1e-3, "layer": 1e-4}, -0.05, "better", None),
        ({"rms": 1e-2, "layer": 1e-3}, -0.05, "inconclusive", "the baseline's best"),
        ({"rms": 1e-2, "layer": 1e-3}, 0.05, "worse", None),
    ],
)
def test_an_arm_at_the_edge_of_its_grid_may_be_better_than_it_looks(pool, best, gap, verdict, refused) -> None:
    facts = read_facts([tuned_study(pool, best, gap)])
    (item,) = facts.report["comparisons"]
    assert item["verdict"] == verdict
    assert (refused is None) == ("refused" not in item) and (refused or "") in item.get("refused", "")
    assert any("edge of its grid" in line for line in facts.report["warnings"]) == (set(best.values()) != {1e-3})


def test_tuned_runs_on_other_data_stay_apart(pool) -> None:
    study = tuned_study(pool, {"rms": 1e-3, "layer": 1e-3}, 0.05)
    odd = pool.run({"norm": "rms"}, 9, 0.5, config={"optimizer": {"lr": 1e-3}}, status={"data_hash": "other"})
    report = read_facts([study, odd]).report
    assert [cell["n"] for cell in report["cells"]] == [3, 3, 1] and report["cells"][2]["mean"] == 0.5
    assert [cell["chosen"] for cell in report["cells"]] == [{"optimizer.lr": 1e-3}] * 3


def test_both_views_are_there(pool) -> None:
    facts = read_facts([tuned_study(pool, {"rms": 1e-3, "layer": 1e-2}, 0.02)])
    common = tuning.common_rate(facts.plan, facts.table)
    assert common is not None and common[0] == {"optimizer.lr": 1e-3}
    assert common[1] == pytest.approx({"norm=rms": 1.52, "norm=layer": 1.6400666667}, abs=1e-4)
    assert facts.report["cells"][1]["mean"] == pytest.approx(1.54007, abs=1e-4)


def test_choosing_and_reporting_on_the_same_seeds_is_said(pool) -> None:
    warnings = read_facts([tuned_study(pool, {"rms": 1e-3, "layer": 1e-3}, 0.02, selection=())]).report["warnings"]
    assert any("chosen and reported on the same seeds" in line for line in warnings)


def test_unequal_numbers_of_trials_are_said() -> None:
    trials = [tuning.Trials("a", 3, (0,), {}, ()), tuning.Trials("b", 4, (0,), {}, ())]

    class Plan:
        nuisance, selection_seeds = ("optimizer.lr",), (0,)

    (line,) = tuning.warnings(Plan(), trials)  # type: ignore[arg-type]
    assert "a: 3, b: 4" in line


def test_sensitivity_counts_what_diverged_as_the_first_loss() -> None:
    points = [Point(1e-4, 2.0, 1, 0), Point(1e-3, 1.5, 1, 0), Point(1e-2, None, 0, 1)]
    assert tuning.sensitivity(points, 3.0) == pytest.approx((0.5 + 0 + 1.5) / 3)
    assert tuning.sensitivity([Point(1e-3, 1.5, 1, 0)] * 2, 3.0) == 0
    assert tuning.sensitivity(points[:1], 3.0) is None


def test_a_rate_that_is_the_question_is_a_factor_with_its_curve(pool) -> None:
    for norm in ("rms", "layer"):
        for lr in RATES:
            pool.run({"norm": norm}, 0, 1.5 + lr, name=f"{norm}{lr}", config={"optimizer": {"lr": lr}})
    facts = read_facts([pool.root])
    assert tuning.rate_key(facts.plan) == "optimizer.lr"
    curves = tuning.rate_curves(facts.plan, facts.table, "optimizer.lr")
    assert list(curves) == ["norm=rms", "norm=layer"]
    assert [point.rate for point in curves["norm=rms"]] == sorted(RATES)
    assert curves["norm=rms"][1] == Point(1e-3, 1.501, 1, 0)
