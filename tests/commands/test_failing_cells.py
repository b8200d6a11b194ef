"""Cells that fail, die, or diverge: the others finish, every cause is told, the same command puts it right."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from support.commands import Done, Lab, curve, rows

GRID = ["norm=rms,layer", "position=rope,none", "seed=1,2", "jobs=3"]
#: what befalls each of the eight cells, by its index in the plan
FAULTS = "raise@2/0 exit0@2/1 sigkill@4/2 nan@4/3 hardexit@4/4 sigterm@4/5"
CAUSES = [
    ("failed", "RuntimeError: a fault from outside"),
    ("failed", "sys.exit(0)"),
    ("failed", "killed by SIGKILL"),
    ("diverged", "not finite"),
    ("failed", "code 0"),
    ("interrupted", "SIGTERM"),
    ("finished", ""),
    ("finished", ""),
]


@pytest.fixture(scope="module")
def struck(lab: Lab) -> Done:
    return lab.tiny(*GRID, FAULT=FAULTS)


@pytest.fixture(scope="module")
def again(lab: Lab, struck: Done) -> Done:
    """The same command without the faults."""
    return lab.tiny(*GRID)


@pytest.fixture(scope="module")
def undisturbed(new_lab: Callable[..., Lab]) -> Lab:
    lab = new_lab("undisturbed")
    assert lab.tiny(*GRID).code == 0
    return lab


def test_every_cell_gets_its_own_outcome(lab: Lab, struck: Done) -> None:
    assert struck.code == 1
    table = struck.out.partition("cell ┃")[2]
    for cell, (state, cause) in zip(lab.study()["cells"], CAUSES, strict=True):
        (line,) = [line for line in table.splitlines() if cell["run"] in line]
        assert state in line and cause in line


def test_each_traceback_is_printed_and_logged_where_it_belongs(lab: Lab, struck: Done) -> None:
    cells = lab.study()["cells"]
    logs = [(lab.runs / cell["folder"] / "run.log").read_text() for cell in cells]
    raised = ["RuntimeError: a fault from outside" in log for log in logs]
    assert raised == [True] + [False] * 7
    assert "Traceback" in logs[0] and "SystemExit" in logs[1]
    assert struck.out.count("Traceback (most recent call last)") == 2  # the killed cells have none to show
    assert struck.out.index("Traceback") < struck.out.index("cell ┃")  # when it happens


def test_the_same_command_reuses_outcomes_and_goes_on_with_the_rest(lab: Lab, struck: Done, again: Done) -> None:
    assert again.code == 0, again.text  # a diverged run is an outcome
    assert "reused 3, ran 5 (resumed 1, tried again 4)" in again.out
    assert lab.states() == [
        "finished",
        "finished",
        "finished",
        "diverged",
        "finished",
        "finished",
        "finished",
        "finished",
    ]
    killed = lab.runs / lab.study()["cells"][2]["folder"]
    log = (killed / "run.log").read_text()
    assert log.count("starting") == 1 and log.count("resuming") == 1


def test_the_curves_are_those_of_an_undisturbed_sweep(lab: Lab, again: Done, undisturbed: Lab) -> None:
    for cell, other in zip(lab.study()["cells"], undisturbed.study()["cells"], strict=True):
        assert cell["folder"] == other["folder"]
        if cell["index"] != 3:
            assert curve(lab.runs / cell["folder"]) == curve(undisturbed.runs / cell["folder"])
            assert lab.state(cell)["batch_hash"] == undisturbed.state(other)["batch_hash"]


def test_a_diverged_run_keeps_its_last_good_checkpoint(lab: Lab, struck: Done) -> None:
    import torch

    run = lab.runs / lab.study()["cells"][3]["folder"]
    assert rows(run)[-1]["train/loss"] is None
    best = torch.load(run / "checkpoints" / "last.pt", weights_only=True)
    assert best["step"] == 3
    assert all(torch.isfinite(tensor).all() for tensor in best["model"].values())


def test_all_fail_and_all_are_listed(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab()
    done = lab.tiny("norm=rms,layer", "seed=1,2", FAULT="raise@2")
    assert done.code == 1
    assert lab.states() == ["failed"] * 4
    table = done.out.partition("cell ┃")[2]
    assert table.count("a fault from outside") == 4
    for cell in lab.study()["cells"]:
        assert "RuntimeError: a fault from outside" in (lab.runs / cell["folder"] / "run.log").read_text()
    done = lab.tiny("norm=rms,layer", "seed=1,2", "optimizer.lr=2e-3", "fail_fast=true", "jobs=1", FAULT="raise@2")
    assert done.code == 1
    slow = next(
        p.parent.name for p in (lab.runs / "studies").glob("*/study.json") if '"optimizer.lr=0.002"' in p.read_text()
    )
    assert lab.states(slow) == ["failed", "missing", "missing", "missing"]
    assert done.out.partition("cell ┃")[2].count("missing") == 3
    assert "not run 3" in done.out
