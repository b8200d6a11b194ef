"""Sweeps that are stopped: Ctrl-C, SIGTERM, SIGKILL. Nothing is lost, no process stays, the same command goes on."""

from __future__ import annotations

import os
import signal
import subprocess
import time
from collections.abc import Callable

import pytest
from support.commands import SECONDS, Done, Lab, alive, curve, finished, load, rows, tiny

#: long enough to be met in the middle: from step 5 on a faulty step takes half a second
SLOW = ["norm=rms,layer,identity", "seed=1", "train.steps=120", "train.log_every=1", "jobs=2"]


def until(what: Callable[[], bool]) -> None:
    """Wait for something to happen."""
    end = time.monotonic() + SECONDS
    while not what():
        if time.monotonic() > end:
            raise TimeoutError
        time.sleep(0.1)


def start_and_wait(lab: Lab, step: int) -> subprocess.Popen[str]:
    """The slow sweep, met when two cells have each logged `step` or a later one."""
    process = lab.start(*tiny(*SLOW), FAULT="slow@5")

    def met() -> bool:
        if process.poll() is not None:
            raise RuntimeError(f"it ended: {process.communicate()}")
        logged = [rows(run)[-1:] for run in lab.cells() if (run / "metrics.jsonl").exists()]
        return sum(bool(last) and last[0]["step"] >= step for last in logged) >= 2

    until(met)
    return process


@pytest.fixture(scope="module")
def stopped(lab: Lab) -> dict[str, tuple[Done, list[str]]]:
    """Three ways to stop the same sweep, one after the other; after each the states of its cells."""
    found = {}
    process = start_and_wait(lab, 6)
    os.killpg(process.pid, signal.SIGINT)  # Ctrl-C reaches every process of the terminal
    found["SIGINT"] = finished(process), lab.states()
    assert not alive(process.pid)
    process = start_and_wait(lab, 12)
    process.send_signal(signal.SIGTERM)
    found["SIGTERM"] = finished(process), lab.states()
    assert not alive(process.pid)
    process = start_and_wait(lab, 18)
    process.kill()
    finished(process)
    until(lambda: not alive(process.pid))
    found["SIGKILL"] = Done(process.returncode, "", ""), lab.states()
    return found


@pytest.mark.parametrize(("name", "code"), [("SIGINT", 130), ("SIGTERM", 143), ("SIGKILL", -9)])
def test_running_cells_are_interrupted_and_the_rest_is_missing(
    stopped: dict[str, tuple[Done, list[str]]], name: str, code: int
) -> None:
    done, states = stopped[name]
    assert done.code == code
    assert states == ["interrupted", "interrupted", "missing"]
    if code > 0:
        assert name in done.out and "the same command goes on from here" in done.out
        assert "Traceback" not in done.text
        table = done.out.partition("cell ┃")[2]
        assert table.count("interrupted") == 2 and table.count("missing") == 1


def test_children_of_a_killed_command_say_why_they_stopped(lab: Lab, stopped: object) -> None:
    reasons = [load(run / "status.json")["reason"] for run in lab.cells()]
    assert reasons == ["the sweep's process is gone"] * 2


def test_the_same_command_ends_it_bit_for_bit(lab: Lab, stopped: object, new_lab: Callable[..., Lab]) -> None:
    done = lab.tiny(*SLOW)
    assert done.code == 0, done.text
    assert "reused 0, ran 3 (resumed 2)" in done.out
    other = new_lab("undisturbed")
    assert other.tiny(*SLOW).code == 0
    for run in lab.cells():
        assert curve(run) == curve(other.runs / run.name)
        assert len(curve(run)) == 121
    assert len(lab.cells()) == 3


def test_ctrl_c_in_a_cell_stops_the_sweep(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab(NO_REPORT="")
    process = lab.start(*tiny("jobs=1", "norm=rms,layer", "seed=1,2"), FAULT="sigint@2", FAULT_JOB="1")
    done = finished(process)
    assert done.code == 130
    assert lab.states() == ["finished", "interrupted", "missing", "missing"]
    interrupted = lab.runs / lab.study()["cells"][1]["folder"]
    assert rows(interrupted)[0]["step"] == 0
    assert load(interrupted / "status.json")["step"] == 2
    assert not alive(process.pid)
    report = load(lab.runs / "studies" / lab.study()["study"] / "report" / "report.json")
    counted = [(c["planned"], c["finished"], c["interrupted"], c["missing"]) for c in report["cells"]]
    assert counted == [(2, 1, 0, 1), (2, 0, 1, 1)]
    assert report["excluded"]


def test_single_runs_have_the_same_exit_codes(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab()
    done = lab.run(*tiny("norm=layer", sweep=False), FAULT="sigint@4")
    assert done.code == 130
    assert lab.states() == ["interrupted"]
    done = lab.run(*tiny("norm=layer", sweep=False))
    assert done.code == 0 and "ran 1 (resumed 1)" in done.out
