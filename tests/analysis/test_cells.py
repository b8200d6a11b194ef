"""Runs in cells: nothing averaged that differs, nothing lost, nothing counted twice."""

from __future__ import annotations

from typing import Any

import pytest

from ablab.analysis.cells import STATES
from ablab.analysis.report import read_facts


def cells(paths: list[Any], **options: Any) -> dict[str, dict[str, Any]]:
    """Cells of a report by label."""
    return {cell["label"]: cell for cell in read_facts(paths, **options).report["cells"]}


@pytest.mark.parametrize(
    ("first", "second", "key"),
    [
        ({"status": {"data_hash": "a" * 64}}, {"status": {"data_hash": "b" * 64}}, "data_hash"),
        ({"steps": 60}, {"steps": 100}, "train.steps"),
        ({"status": {"source_hash": "x"}}, {"status": {"source_hash": "y"}}, "source_hash"),
    ],
)
def test_runs_that_differ_beyond_the_plan_are_never_averaged(pool, first: dict, second: dict, key: str) -> None:
    for norm, level in (("rms", 1.5), ("layer", 1.6)):
        for seed in range(3):
            pool.run({"norm": norm}, seed, level, **first)
        pool.run({"norm": norm}, 3, level + 1.0, name=f"odd-{norm}", **second)
    report = read_facts([pool.root]).report
    assert [cell["n"] for cell in report["cells"]] == [3, 3, 1, 1]
    assert [round(cell["mean"], 6) for cell in report["cells"]] == [1.5, 1.6, 2.5, 2.6]
    assert list(report["factors"]) == ["norm"]
    assert key in report["cells"][0]["group"] and key in report["cells"][2]["label"]
    assert any(key in line and "never averaged" in line for line in report["warnings"])
    for item in report["comparisons"]:
        assert item["difference"] == pytest.approx(0.1)


def test_rates_that_nobody_declared_are_two_cells_and_a_warning(pool) -> None:
    for norm in ("rms", "layer"):
        for lr, final in ((1e-3, 1.5), (1e-4, 1.9)):
            pool.run({"norm": norm}, 0, final, name=f"{norm}{lr}", config={"optimizer": {"lr": lr}})
    report = read_facts([pool.root]).report
    assert sorted(cell["mean"] for cell in report["cells"]) == [1.5, 1.5, 1.9, 1.9]
    assert any("optimizer.lr" in line for line in report["warnings"])


def test_other_code_without_more_is_a_warning(pool) -> None:
    for seed, commit in enumerate(["a" * 40, "b" * 40]):
        pool.run({"norm": "rms"}, seed, status={"environment": {"git": {"commit": commit, "dirty": False}}})
    assert any(
        "several code versions" in line and "aaaaaaaa" in line for line in read_facts([pool.root]).report["warnings"]
    )


def test_commits_do_not_matter_where_the_code_is_known_to_be_the_same(pool) -> None:
    for seed, commit in ((0, "a" * 40), (1, "b" * 40)):
        pool.run({"norm": "rms"}, seed, status={"git_commit": commit, "source_hash": "s"})
    assert read_facts([pool.root]).report["warnings"] == []


def test_of_duplicates_the_newest_finished_run_counts(pool) -> None:
    pool.run({"norm": "rms"}, 0, 1.1, name="old", status={"heartbeat": 100.0})
    pool.run({"norm": "rms"}, 0, 1.2, name="new", status={"heartbeat": 200.0})
    pool.run({"norm": "rms"}, 0, 1.3, name="newest-but-failed", state="failed", status={"heartbeat": 300.0})
    pool.run({"norm": "layer"}, 0, 1.4)
    report = read_facts([pool.root]).report
    assert report["cells"][0]["values"] == {"0": 1.2} and report["cells"][0]["planned"] == 1
    reasons = {item["run"]: item["reason"] for item in report["excluded"]}
    assert set(reasons) == {"old", "newest-but-failed"} and all(
        "duplicate of new" in reason for reason in reasons.values()
    )


@pytest.mark.parametrize("state", STATES[1:])
def test_planned_is_always_the_sum_of_all_states(pool, state: str) -> None:
    plans = [
        {"factors": {"norm": norm}, "seed": seed, "folder": f"{norm}-{seed}"}
        for norm in ("rms", "layer")
        for seed in range(4)
    ]
    for number, cell in enumerate(plans):
        lost = number in (1, 5, 6)
        if state != "missing" or not lost:
            pool.run(cell["factors"], cell["seed"], 1.5 + number / 100, name=cell["folder"], state=state if lost else "finished",
                     status={"reason": "because"})  # fmt: skip
    report = read_facts([pool.study("s", plans, {"norm": ["rms", "layer"]})]).report
    for cell, lost in zip(report["cells"], (1, 2), strict=True):
        assert cell["planned"] == 4 == sum(cell[name] for name in STATES)
        assert cell[state] == lost and cell["n"] == 4 - lost == cell["finished"]
    assert len(report["excluded"]) == 3
    assert all(state in item["reason"] for item in report["excluded"])
    assert any(f"2 {state}" in line for line in report["warnings"])
    assert report["comparisons"][0]["n_pairs"] == 2  # seeds 0 and 3


def test_empty_cells_keep_their_place_and_name_their_overrides(pool) -> None:
    plans = [
        {"factors": {"norm": norm, "ffn": ffn}, "seed": 0, "folder": f"{norm}-{ffn}"}
        for norm in ("rms", "layer")
        for ffn in ("swiglu", "relu")
    ]
    pool.run(plans[0]["factors"], 0, 1.5, name=plans[0]["folder"])
    pool.run(plans[1]["factors"], 0, rows=[], name=plans[1]["folder"])  # metrics without a row
    (pool.run(plans[2]["factors"], 0, 1.5, name=plans[2]["folder"]) / "metrics.jsonl").unlink()
    report = read_facts([pool.study("s", plans, {"norm": ["rms", "layer"], "ffn": ["swiglu", "relu"]})]).report
    assert [cell["n"] for cell in report["cells"]] == [1, 0, 0, 0]
    assert [cell["mean"] for cell in report["cells"]] == [1.5, None, None, None]
    reasons = {item["run"]: item["reason"] for item in report["excluded"]}
    assert reasons["layer-relu"] == "missing: norm=layer ffn=relu seed=0"
    assert "no finite val/loss" in reasons["rms-relu"] and "no finite val/loss" in reasons["layer-swiglu"]


def test_tuned_values_are_chosen_on_selection_seeds_and_reported_on_others(pool) -> None:
    plans, factors = [], {"norm": ["rms", "layer"], "optimizer.lr": [1e-4, 1e-3, 1e-2]}
    for norm, best in (("rms", 1e-3), ("layer", 1e-2)):
        for lr in factors["optimizer.lr"]:
            for seed in range(4):
                # seed 0 chooses; on the others the chosen rate does not look best
                final = 2.0 - (lr == best) * (1 if seed == 0 else -0.5)
                folder = pool.run(
                    {"norm": norm},
                    seed,
                    final + seed / 1000,
                    name=f"{norm}{lr}-{seed}",
                    config={"optimizer": {"lr": lr}},
                )
                plans.append({"factors": {"norm": norm, "optimizer.lr": lr}, "seed": seed, "folder": folder.name})
    study = pool.study("s", plans, factors, nuisance=["optimizer.lr"], selection_seeds=[0])
    report = read_facts([study]).report
    assert report["factors"] == {"norm": ["rms", "layer"]}
    assert [cell["chosen"] for cell in report["cells"]] == [{"optimizer.lr": 1e-3}, {"optimizer.lr": 1e-2}]
    assert all(
        list(cell["values"]) == ["1", "2", "3"] and cell["mean"] == pytest.approx(2.502) for cell in report["cells"]
    )
    assert any("norm=layer" in line and "edge of its grid" in line for line in report["warnings"])
    assert not any("norm=rms:" in line and "edge" in line for line in report["warnings"])
    assert report["comparisons"][0]["n_pairs"] == 3


def test_runs_set_aside_are_listed(pool) -> None:
    plans = [{"factors": {"norm": "rms"}, "seed": 0, "folder": pool.run({"norm": "rms"}, name="a").name}]
    pool.run({"norm": "rms"}, 0, 9.0, name="a.1")
    report = read_facts([pool.study("s", plans, {"norm": ["rms"]})]).report
    assert report["cells"][0]["mean"] == 1.5
    assert {"run": "a.1", "reason": "superseded: kept aside by fresh=true"} in report["excluded"]


def test_runs_of_older_code_are_listed_and_not_counted(pool) -> None:
    pool.run({"norm": "rms"}, 0, 9.0, name="rms-seed0-0123456789")
    folder = pool.run({"norm": "rms"}, 0, 1.5, name="rms-seed0-abcdef0123").name
    cell = {"factors": {"norm": "rms"}, "seed": 0, "folder": folder, "superseded": ["0123456789"]}
    report = read_facts([pool.study("s", [cell], {"norm": ["rms"]})]).report
    assert report["cells"][0]["values"] == {"0": 1.5}
    assert report["excluded"] == [
        {"run": "rms-seed0-0123456789", "reason": "superseded: its code or data changed since"}
    ]


def test_identical_losses_of_different_variants_are_flagged(pool) -> None:
    for ffn, finals in (("swiglu", [1.5, 1.51]), ("relu", [1.5, 1.51]), ("third", [1.6, 1.61])):
        for seed, final in enumerate(finals):
            pool.run({"ffn": ffn}, seed, final)
    lines = [line for line in read_facts([pool.root]).report["warnings"] if "identical" in line]
    assert len(lines) == 1 and "ffn=relu" in lines[0] and "ffn=swiglu" in lines[0] and "seeds 0, 1" in lines[0]


def test_other_data_under_one_seed_is_no_pairing(pool) -> None:
    pool.run({"norm": "rms"}, 0, 1.5, status={"batch_hash": "a"})
    pool.run({"norm": "layer"}, 0, 1.6, status={"batch_hash": "b"})
    facts = read_facts([pool.root])
    assert facts.pairing[0].same is False
    assert any("batch_hash differs" in line for line in facts.report["warnings"])


def test_unequal_lengths_compare_their_data_where_both_were(pool) -> None:
    pool.run(
        {"norm": "rms"},
        0,
        1.5,
        steps=60,
        status={"batch_hash": "end", "batch_hash_at": {"0": "", "40": "same", "60": "end"}},
    )
    pool.run(
        {"norm": "layer"},
        0,
        1.6,
        steps=80,
        status={"batch_hash": "later", "batch_hash_at": {"0": "", "40": "same", "80": "later"}},
    )
    assert (read_facts([pool.root]).pairing[0].same, read_facts([pool.root]).pairing[0].step) == (True, 40)


def test_wide_residuals_and_collapsed_runs_are_flagged(pool) -> None:
    pool.run({"ffn": "swiglu"}, 0, 1.5, status={"ffn_residual": 0.0, "unigram_entropy": 3.0})
    pool.run({"ffn": "relu"}, 0, 3.1, status={"ffn_residual": 0.0159, "unigram_entropy": 3.0})
    warnings = read_facts([pool.root]).report["warnings"]
    assert any("ffn=relu" in line and "+1.59%" in line for line in warnings)
    assert any("collapsed" in line and "relu" in line for line in warnings)
    assert not any("swiglu:" in line for line in warnings)
