"""A finished sweep: what it leaves behind, and what further commands reuse of it."""

from __future__ import annotations

import csv
import math
import re
from collections.abc import Callable
from itertools import product

import pytest
from omegaconf import OmegaConf
from support.commands import SAFE_NAME, TINY, Done, Lab, files, load, rows

import ablab

NOTE = 'note="50% @ a,b #1 naïve | x"'
SWEEP = ["norm=rms,identity", "block=pre_norm,post_norm", "position=none,rope", "seed=1,2", NOTE]


@pytest.fixture(scope="module")
def swept(lab: Lab) -> Done:
    """Two norms, two placements, two positions, two seeds: 12 runs, since identity has no placement."""
    return lab.tiny(*SWEEP, NO_REPORT="")


def test_it_ends_well_and_says_so(lab: Lab, swept: Done) -> None:
    assert swept.code == 0, swept.text
    assert "reused 0, ran 12" in swept.out
    assert swept.out.count("finished") >= 24  # as each ends, and in the closing table
    assert "Traceback" not in swept.text


def test_the_same_function_is_trained_once(lab: Lab, swept: Done) -> None:
    cells = lab.study()["cells"]
    kinds = [(c["factors"]["norm"], c["factors"]["block"], c["factors"]["position"], c["seed"]) for c in cells]
    placed = [(n, b, p) for n, b, p in product(("rms", "identity"), ("pre_norm", "post_norm"), ("none", "rope"))]
    placed = [kind for kind in placed if kind[:2] != ("identity", "post_norm")]
    assert kinds == [(*kind, seed) for seed in (1, 2) for kind in placed]  # seed by seed, in the order typed
    assert len({c["run"] for c in cells}) == len(lab.cells()) == 12
    for cell in cells:
        assert load_config(lab, cell).choices.block == cell["factors"]["block"]


def test_study_json_declares_the_plan(lab: Lab, swept: Done) -> None:
    study = lab.study()
    assert [c["index"] for c in study["cells"]] == list(range(12))
    assert study["factors"] == {
        "norm": ["rms", "identity"], "block": ["pre_norm", "post_norm"], "position": ["none", "rope"],
    }  # fmt: skip
    assert study["baseline"] == {"norm": "rms", "block": "pre_norm", "position": "none"}
    assert study["seeds"] == [1, 2]
    assert (study["margin"], study["alpha"], study["looks"]) == (0.005, 0.05, [3, 5, 8])
    assert study["command"].startswith("python run.py -m ") and "norm=rms,identity" in study["command"]
    assert re.fullmatch(r"\d{4}-\d\d-\d\dT\d\d:\d\d:\d\d[+-]\d{4}", study["declared"])
    assert re.fullmatch(r"block\+norm\+position-[0-9a-f]{6}", study["study"])
    assert (lab.runs / "studies" / study["study"] / "study.json").exists()
    first = study["cells"][0]
    assert first["label"] == "norm=rms,block=pre_norm,position=none"
    vocabulary = len(set((lab.folder / "tiny.txt").read_text())) + 2  # end of text, and what it does not know
    width, d_ff, gains = 32, 96, 2 * 2 + 1
    assert first["parameters"] == 2 * vocabulary * width + 2 * (4 * width**2 + 3 * width * d_ff) + gains * width


def test_labels_stay_words(lab: Lab, swept: Done) -> None:
    values = {c["factors"]["position"] for c in lab.study()["cells"]}
    assert values == {"none", "rope"}
    report = load(lab.runs / "studies" / lab.study()["study"] / "report" / "report.json")
    assert {cell["factors"]["position"] for cell in report["cells"]} == {"none", "rope"}
    assert all(cell["finished"] == 2 for cell in report["cells"])
    done = lab.run("runs", "--out", "curves.csv", script="analysis/collect.py")
    assert done.code == 0, done.text
    with open(lab.folder / "curves.csv", newline="", encoding="utf-8") as file:
        table = list(csv.DictReader(file))
    assert {row["position"] for row in table} == {"none", "rope"}
    assert len({row["run"] for row in table}) == 12


def test_folder_names(lab: Lab, swept: Done) -> None:
    names = [run.name for run in lab.cells()]
    assert all(SAFE_NAME.fullmatch(name) for name in names)
    for cell in lab.study()["cells"]:
        label, seed, identity = cell["folder"].rsplit("-", 2)
        assert (seed, identity) == (f"seed{cell['seed']}", cell["run"])
        assert cell["factors"]["norm"] in label and cell["factors"]["position"] in label
    assert {p.name for p in lab.folder.iterdir()} <= {"tiny.txt", "runs", "curves.csv"}  # no outputs/, no multirun/
    assert not (lab.runs / "wandb").exists()  # tracker=none


def test_config_is_whole_and_what_compose_gives(lab: Lab, swept: Done, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(lab.folder)
    for cell in lab.study()["cells"]:
        stored = load_config(lab, cell)
        assert stored.note == "50% @ a,b #1 naïve | x"
        assert not OmegaConf.missing_keys(stored)
        assert "${" not in (lab.runs / cell["folder"] / "config.yaml").read_text()
        composed = ablab.compose(cell["overrides"])
        for key in set(stored) - {"runs_dir"}:
            assert stored[key] == composed[key], key
        assert set(composed) - set(stored) <= {"jobs", "fresh", "plan", "status", "cell", "fail_fast"}
        assert list(stored.choices) == [
            "norm", "block", "ffn", "position", "embedding", "attention", "init", "optimizer", "schedule", "data",
            "scale", "tracker",
        ]  # fmt: skip


def test_metrics(lab: Lab, swept: Done) -> None:
    for run in lab.cells():
        lines = rows(run)
        assert [line["step"] for line in lines] == [0, 3, 6]
        assert all(line["tokens"] == line["step"] * 2 * 16 for line in lines)
        assert all(math.isfinite(line["val/loss"]) for line in lines)
        assert math.isfinite(lines[-1]["train/loss"])


def test_status(lab: Lab, swept: Done) -> None:
    for cell in lab.study()["cells"]:
        status = lab.state(cell)
        assert (status["state"], status["step"], status["steps"], status["reason"]) == ("finished", 6, 6, None)
        assert status["seed"] == cell["seed"]
        assert status["parameters"] == cell["parameters"]
        assert status["flops_per_token"] == cell["flops_per_token"]
        assert status["heartbeat"] > 1.7e9
        assert status["environment"]
    states = [lab.state(cell) for cell in lab.study()["cells"]]
    assert len({s["data_hash"] for s in states}) == 1
    seen = {(s["seed"], s["batch_hash"]) for s in states}
    assert len(seen) == 2  # every variant of a seed saw the same batches; the seeds saw others


def test_the_same_command_again_trains_nothing(lab: Lab, swept: Done) -> None:
    before = {run: files(run) for run in lab.cells()}
    done = lab.tiny(*SWEEP)
    assert done.code == 0
    assert "reused 12, ran 0" in done.out
    assert {run: files(run) for run in lab.cells()} == before


def test_more_seeds_reuse_what_is_there(lab: Lab, swept: Done) -> None:
    before = {run: files(run) for run in lab.cells()}
    done = lab.tiny("norm=rms,identity", "position=none", "seed=0,1,2", "study.name=A", "note=another")
    assert done.code == 0, done.text
    assert "reused 4, ran 2" in done.out
    assert lab.study("A")["seeds"] == [0, 1, 2]
    assert {run: files(run) for run in before} == before  # their own note included


def test_a_study_that_grows_keeps_what_it_was(lab: Lab, swept: Done) -> None:
    first = lab.study("A")
    before = {run: files(run) for run in lab.cells()}
    done = lab.tiny("norm=identity", "position=none", "seed=7", "study.name=A")
    assert done.code == 0 and "reused 0, ran 1" in done.out
    second = lab.study("A")
    assert second["cells"][:6] == first["cells"]
    assert second["declared"] == first["declared"] and second["command"] == first["command"]
    assert second["cells"][6]["seed"] == 7 and second["seeds"] == [0, 1, 2, 7]
    assert second["factors"] == first["factors"] and second["baseline"] == first["baseline"]
    assert [a["cells"] for a in second["additions"]] == [[6]]
    assert lab.runs / second["cells"][6]["folder"] not in before
    assert {run: files(run) for run in before} == before


def test_fresh_keeps_the_old_run_beside_the_new(lab: Lab, swept: Done) -> None:
    cell = lab.study("block*")["cells"][3]
    run = lab.runs / cell["folder"]
    old = files(run)
    done = lab.tiny(*SWEEP, "cell=3", "fresh=true")
    assert done.code == 0
    assert "reused 0, ran 1" in done.out and f"{cell['folder']}.1" in done.out
    assert files(run.with_name(f"{run.name}.1")) == old
    assert rows(run)[-1]["val/loss"] == rows(run.with_name(f"{run.name}.1"))[-1]["val/loss"]  # bit for bit
    assert lab.state(cell)["state"] == "finished"


def test_looking_trains_nothing(lab: Lab, swept: Done) -> None:
    before = files(lab.runs)
    done = lab.tiny(*SWEEP, "status=true", "optimizer.lr=3e-4")  # another rate is another run
    assert done.code == 1 and "0 of 12" in done.out
    done = lab.tiny("ffn=swiglu,relu", "seed=1,2", "plan=true")
    assert done.code == 0, done.text
    for word in ("ffn=swiglu", "ffn=relu", "96", "144", "28,704"):
        assert word in done.out
    assert files(lab.runs) == before


def test_a_value_that_all_swept_options_know(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab()
    done = lab.tiny("ffn=swiglu,relu", "ffn.d_ff=128", "norm=layer", "norm.eps=1e-6", "position.theta=100")
    assert done.code == 0, done.text
    cells = lab.study()["cells"]
    assert [cell["d_ff"] for cell in cells] == [128, 128]
    for cell in cells:
        config = load_config(lab, cell)
        assert config.ffn.d_ff == 128 and config.norm.eps == 1e-6 and config.position.theta == 100
    assert "parameters against the budget" in done.out  # both widths are off the matched ones


def test_long_and_odd_overrides_give_short_plain_names(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab()
    folder = lab.folder / "my text" / "über"
    folder.mkdir(parents=True)
    (lab.folder / "tiny.txt").rename(folder / "a b.txt")
    twelve = [
        "optimizer.lr=0.00123456789", "optimizer.weight_decay=0.0123456789", "optimizer.eps=1.23456789e-9",
        "schedule.warmup_steps=2", "schedule.min_lr_ratio=0.123456789", "model.dropout=0.123456789", "train.log_every=1",
        "train.grad_clip=0.123456789", "norm.eps=1.23456789e-7", "position.theta=123456.789", "init.std=0.0123456789",
        "data.val_fraction=0.123456789", 'note="a/b"', "data.path='my text/über/a b.txt'",
    ]  # fmt: skip
    words = [word for word in TINY if not word.startswith("data.path")]
    done = lab.run(*words, *twelve, "tracker=none", "study.name=long")
    assert done.code == 0, done.text
    (run,) = lab.cells()
    assert SAFE_NAME.fullmatch(run.name)
    cell = lab.study("long")["cells"][0]
    typed = dict(word.split("=", 1) for word in cell["overrides"])
    assert set(typed) >= {word.partition("=")[0] for word in twelve}
    config = load_config(lab, cell)
    assert float(typed["norm.eps"]) == config.norm.eps == 1.23456789e-7
    assert config.note == "a/b" and config.data.path == "my text/über/a b.txt"
    assert {p.name for p in lab.folder.iterdir()} == {"my text", "runs"}
    # another note and another cadence of the log are the same run
    done = lab.run(*words, *twelve, "tracker=none", "study.name=long", "note=other", "train.log_every=2", "status=true")
    assert done.code == 0, done.text


def load_config(lab: Lab, cell: dict) -> OmegaConf:  # type: ignore[type-arg]
    return OmegaConf.load(lab.runs / cell["folder"] / "config.yaml")
