"""What is a factor, what the baseline, what must stay apart: with a study file and without one."""

from __future__ import annotations

import pytest

from ablab.analysis.load import load
from ablab.analysis.report import read_facts
from ablab.errors import UsageError


def test_options_that_differ_are_factors_in_the_shipped_order(pool) -> None:
    for position in ("none", "rope"):
        for norm in ("zeta", "layer", "rms"):
            pool.run({"norm": norm, "ffn": "relu", "position": position, "tracker": norm})
    plan, runs = load([pool.root])
    assert plan.factors == {"norm": ["rms", "layer", "zeta"], "position": ["rope", "none"]}
    assert plan.baseline == {"norm": "rms", "position": "rope"}
    assert plan.design == "factorial" and plan.warnings == [] and len(runs) == 6


@pytest.mark.parametrize(
    ("options", "baseline"), [(["layer", "identity"], "identity"), (["b10", "b9"], "b9"), (["layer", "rms"], "rms")]
)
def test_the_baseline_is_the_default_where_present_else_the_first_sorted(
    pool, options: list[str], baseline: str
) -> None:
    for option in options:
        pool.run({"norm": option})
    assert load([pool.root])[0].baseline == {"norm": baseline}


def test_numbers_are_levels_in_order_of_size_and_undeclared_ones_are_said(pool) -> None:
    for lr in (1e-4, 3e-5, 1e-3):
        pool.run({"norm": "rms"}, name=f"lr{lr}", config={"optimizer": {"lr": lr}})
    plan, _ = load([pool.root])
    assert plan.factors == {"optimizer.lr": [3e-5, 1e-4, 1e-3]} and plan.baseline == {"optimizer.lr": 3e-5}
    assert any("optimizer.lr" in line and "no study declares" in line for line in plan.warnings)


def test_declared_numbers_come_in_order_of_size_and_keep_their_baseline(pool) -> None:
    cells = []
    for lr in (1e-4, 3e-5, 1e-3):
        folder = pool.run({"norm": "rms"}, name=f"lr{lr}", config={"optimizer": {"lr": lr}})
        cells.append({"factors": {"optimizer.lr": lr}, "seed": 0, "folder": folder.name})
    facts = read_facts([pool.study("s", cells, {"optimizer.lr": [1e-4, 3e-5, 1e-3]})])
    assert [row.label for row in facts.rows] == ["optimizer.lr=3e-05", "optimizer.lr=0.0001", "optimizer.lr=0.001"]
    assert facts.report["baseline"] == {"optimizer.lr": 1e-4}


def test_declared_options_keep_their_order(pool) -> None:
    cells = []
    for norm in ("layer", "rms"):
        cells.append({"factors": {"norm": norm}, "seed": 0, "folder": pool.run({"norm": norm}).name})
    assert [row.label for row in read_facts([pool.study("s", cells, {"norm": ["layer", "rms"]})]).rows] == [
        "norm=layer",
        "norm=rms",
    ]


def test_keys_that_only_say_where_or_how_often_are_no_factors(pool) -> None:
    for number in range(2):
        config = {"runs_dir": f"r{number}", "note": f"n{number}", "train": {"log_every": number + 1, "device": f"d{number}"},
                  "tracker": {"mode": f"m{number}"}, "study": {"name": f"s{number}"}, "seeds": {"init": number}}  # fmt: skip
        pool.run({"norm": "rms"}, number, config=config)
    assert load([pool.root])[0].factors == {}


def test_options_of_a_factor_come_along_without_a_word(pool) -> None:
    pool.run({"norm": "rms"}, config={"norm": {"eps": 1e-5}})
    pool.run({"norm": "identity"}, config={"norm": {}})
    plan, _ = load([pool.root])
    assert list(plan.factors) == ["norm"] and plan.warnings == []


def test_a_key_that_changes_together_with_a_factor_is_named(pool) -> None:
    pool.run({"norm": "rms"}, config={"optimizer": {"lr": 1e-3}})
    pool.run({"norm": "layer"}, config={"optimizer": {"lr": 1e-4}})
    plan, _ = load([pool.root])
    assert list(plan.factors) == ["norm"]
    assert any("optimizer.lr" in line and "cannot be told apart" in line for line in plan.warnings)


def test_absent_combinations_are_warnings_with_their_overrides(pool) -> None:
    for norm, ffn in (("rms", "swiglu"), ("rms", "relu"), ("layer", "swiglu")):
        pool.run({"norm": norm, "ffn": ffn})
    plan, _ = load([pool.root])
    assert plan.warnings == ["no run for: norm=layer ffn=relu"]


@pytest.mark.parametrize("stored", ["pre_norm", "post_norm"])
def test_without_a_norm_there_is_no_placement(pool, stored: str) -> None:
    for norm in ("rms", "layer"):
        for block in ("pre_norm", "post_norm"):
            pool.run({"norm": norm, "block": block})
    pool.run({"norm": "identity", "block": stored})
    plan, _ = load([pool.root])
    assert plan.factors == {
        "norm+block": ["rms+pre_norm", "rms+post_norm", "layer+pre_norm", "layer+post_norm", "identity"]
    }
    assert plan.baseline == {"norm+block": "rms+pre_norm"}
    assert plan.design == "factorial" and plan.warnings == []


def test_a_study_declares_its_plan(pool) -> None:
    cells = [{"factors": {"norm": norm, "optimizer.lr": 1e-3}, "seed": seed, "folder": f"{norm}-{seed}"}
             for seed in (0, 1) for norm in ("layer", "rms")]  # fmt: skip
    pool.run({"norm": "layer"}, 0, name="layer-0")
    study = pool.study("s", cells, {"norm": ["layer", "rms"], "optimizer.lr": [1e-3]}, question="Why?", margin=0.01,
                       nuisance=["optimizer.lr"], unstable=["norm=rms"], looks=[3, 5])  # fmt: skip
    plan, runs = load([study])
    assert plan.factors == {"norm": ["layer", "rms"]} and plan.baseline == {"norm": "layer"}
    assert (plan.question, plan.margin, plan.looks, plan.unstable) == ("Why?", 0.01, [3, 5], ["norm=rms"])
    assert len(plan.cells) == 4 and [run.name for run in runs] == ["layer-0"]
    assert [cell.nuisance for cell in plan.cells] == [{"optimizer.lr": 1e-3}] * 4


def test_runs_beside_a_study_are_additions(pool) -> None:
    cells = [{"factors": {"norm": "rms"}, "seed": 0, "folder": pool.run({"norm": "rms"}).name}]
    study = pool.study("s", cells, {"norm": ["rms"]})
    extra = pool.run({"norm": "mine"}, 4)
    plan, runs = load([study, extra, extra])
    assert plan.factors == {"norm": ["rms", "mine"]} and [cell.added for cell in plan.cells] == [False, True]
    assert len(runs) == 2 and plan.seeds == [0, 4]


def test_a_study_of_which_nothing_ran_has_no_report(pool) -> None:
    pool.root.mkdir()
    study = pool.study("s", [{"factors": {"norm": "rms"}, "seed": 0, "folder": "gone"}], {"norm": ["rms"]})
    with pytest.raises(UsageError, match="none of its 1 planned runs"):
        load([study])
