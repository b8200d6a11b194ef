"""study.json: declared once, added to, never rewritten."""

from __future__ import annotations

from pathlib import Path

import pytest
from support.commands import SAFE_NAME
from support.studies import small_plan

from ablab import runfolder
from ablab.study.plan import declare, study_name


def test_a_study_is_declared_before_it_runs(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, "norm=rms", "norm=layer", seeds=(0, 1))
    study = declare(plan)
    assert study == runfolder.read_json(tmp_path / "studies" / "small" / "study.json")
    assert [(c["index"], c["label"], c["seed"]) for c in study["cells"]] == [
        (0, "norm=rms", 0), (1, "norm=layer", 0), (2, "norm=rms", 1), (3, "norm=layer", 1),
    ]  # fmt: skip
    assert study["factors"] == {"norm": ["rms", "layer"]} and study["baseline"] == {"norm": "rms"}
    assert study["additions"] == [] and study["seeds"] == [0, 1]
    assert [c["run"] for c in study["cells"]] == [c.id for c in plan.cells]


def test_declaring_again_changes_nothing(tmp_path: Path) -> None:
    declare(small_plan(tmp_path, "norm=rms", "norm=layer"))
    path = tmp_path / "studies" / "small" / "study.json"
    before = path.stat().st_mtime_ns
    declare(small_plan(tmp_path, "norm=rms", "norm=layer"))
    assert path.stat().st_mtime_ns == before


def test_looking_writes_nothing(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, "norm=layer")
    declare(plan, write=False)
    assert list(tmp_path.iterdir()) == []
    declare(small_plan(tmp_path, "norm=rms", "norm=layer"))
    declare(plan, write=False)
    assert plan.cells[0].index == 1  # its place in the study, not in this command


def test_new_cells_are_additions_behind_the_old_ones(tmp_path: Path) -> None:
    first = declare(small_plan(tmp_path, "norm=rms", "norm=layer"))
    plan = small_plan(tmp_path, "norm=identity", "norm=rms", seeds=(0, 7))
    second = declare(plan)
    assert second["cells"][:2] == first["cells"]
    assert [(c["label"], c["seed"]) for c in second["cells"][2:]] == [
        ("norm=identity", 0),
        ("norm=identity", 7),
        ("norm=rms", 7),
    ]
    assert [c["index"] for c in second["cells"]] == list(range(5))
    assert [c.index for c in plan.cells] == [2, 0, 3, 4]
    assert second["factors"] == {"norm": ["rms", "layer", "identity"]}
    assert second["baseline"] == {"norm": "rms"} and second["seeds"] == [0, 7]
    assert second["declared"] == first["declared"]
    assert [a["cells"] for a in second["additions"]] == [[2, 3, 4]]


def test_an_edited_source_supersedes_a_run_in_its_place(tmp_path: Path) -> None:
    first = declare(small_plan(tmp_path, "norm=rms", "norm=layer"))
    second = declare(small_plan(tmp_path, "norm=rms", "norm=layer", source="edited"))
    third = declare(small_plan(tmp_path, "norm=rms", "norm=layer", source="again"))
    assert len(third["cells"]) == 2 and third["additions"] == []
    for old, middle, new in zip(first["cells"], second["cells"], third["cells"], strict=True):
        assert new["superseded"] == [old["run"], middle["run"]]
        assert new["index"] == old["index"] and new["run"] not in new["superseded"]


def test_an_undone_edit_points_back(tmp_path: Path) -> None:
    first = declare(small_plan(tmp_path, "norm=rms"))
    declare(small_plan(tmp_path, "norm=rms", source="edited"))
    third = declare(small_plan(tmp_path, "norm=rms"))
    assert third["cells"][0]["run"] == first["cells"][0]["run"]


@pytest.mark.parametrize(
    ("swept", "words"),
    [
        (["norm", "ffn"], "ffn+norm"),
        (["optimizer.lr"], "lr"),
        ([], "run"),
        ([f"norm.{'x' * 60}{i}" for i in range(9)], ""),
    ],
)
def test_study_names(swept: list[str], words: str) -> None:
    name = study_name(swept, ["model.d_model=32"])
    assert name.startswith(words) and SAFE_NAME.fullmatch(name)
    assert name == study_name(swept[::-1], ["model.d_model=32"])
    assert name != study_name(swept, ["model.d_model=64"])


def test_the_order_of_what_was_set_is_no_other_study() -> None:
    assert study_name(["norm"], ["a=1", "b=2"]) == study_name(["norm"], ["b=2", "a=1"])
