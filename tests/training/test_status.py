from __future__ import annotations

import json
import math
import threading
import time
from pathlib import Path

import pytest
import torch
from support.tiny_cell import Cell

from ablab.runfolder import state
from ablab.training import Outcome, Progress, Status, environment, status


def read(folder: Path) -> dict:
    return json.loads((folder / "status.json").read_text(), parse_constant=pytest.fail)


def wait_until(condition: object, what: str) -> None:
    deadline = time.time() + 30
    while not condition():  # type: ignore[operator]
        assert time.time() < deadline, what
        time.sleep(0.005)


def test_says_running_at_once_beats_and_ends_with_the_outcome(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BEAT", 0.01)
    with Status(tmp_path, seed=3, steps=6) as own:
        first = read(tmp_path)
        assert (first["state"], first["step"], first["steps"], first["seed"]) == ("running", 0, 6, 3)
        assert abs(first["heartbeat"] - time.time()) < 30 and state(tmp_path) == "running"
        own.update(step=4)
        wait_until(lambda: read(tmp_path)["step"] == 4, "a heartbeat carries what is new")
        own.finish(Outcome("diverged", 5, "loss is not finite"))
    last = read(tmp_path)
    assert (last["state"], last["step"], last["reason"]) == ("diverged", 5, "loss is not finite")
    assert own.done and not any(t.name == "heartbeat" for t in threading.enumerate())


def test_the_beat_is_well_below_the_time_after_which_a_run_counts_as_gone() -> None:
    from ablab.runfolder import STALE_AFTER

    assert status.BEAT == 10 and STALE_AFTER >= 3 * status.BEAT


def test_an_exception_is_a_failure_with_its_cause(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Status(tmp_path):
        raise RuntimeError("out of luck")
    assert (read(tmp_path)["state"], read(tmp_path)["reason"]) == ("failed", "RuntimeError: out of luck")


def test_an_exception_after_the_outcome_does_not_change_it(tmp_path: Path) -> None:
    with pytest.raises(RuntimeError), Status(tmp_path) as own:
        own.finish(Outcome("finished", 6))
        raise RuntimeError("too late")
    assert read(tmp_path)["state"] == "finished"


def test_numbers_that_are_not_finite_are_null_however_deep(tmp_path: Path) -> None:
    with Status(tmp_path) as own:
        own.update(write=True, a=math.nan, b={"c": [math.inf, 1.5, ("x", -math.inf)], 7: True})
    found = read(tmp_path)
    assert found["a"] is None and found["b"] == {"c": [None, 1.5, ["x", None]], "7": True}


def test_what_others_wrote_there_survives_a_resume_but_the_old_state_does_not(tmp_path: Path) -> None:
    with Status(tmp_path, wandb_id="abc") as own:
        own.finish(Outcome("interrupted", 3, "SIGTERM"))
    with Status(tmp_path):
        found = read(tmp_path)
    assert (found["wandb_id"], found["step"], found["state"], found["reason"]) == ("abc", 3, "running", None)


def test_an_unknown_state_is_refused(tmp_path: Path) -> None:
    with Status(tmp_path) as own:
        with pytest.raises(ValueError, match="choices: finished"):
            own.finish(Outcome("done", 1))
        own.finish(Outcome("finished", 1))


def test_a_disk_that_is_full_for_a_moment_does_not_end_training(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setattr(status, "BEAT", 0.01)
    plain, broken = status.write_json_atomic, threading.Event()

    def write(path: Path, value: object) -> None:
        if broken.is_set():
            raise OSError(28, "No space left on device")
        plain(path, value)

    monkeypatch.setattr(status, "write_json_atomic", write)
    with Status(tmp_path) as own:
        broken.set()
        wait_until(lambda: "No space left" in caplog.text, "it is said")
        broken.clear()
        own.update(step=9)
        wait_until(lambda: read(tmp_path)["step"] == 9, "the heartbeat goes on")
        own.finish(Outcome("finished", 9))


def test_a_reader_never_meets_half_a_file(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(status, "BEAT", 0.0001)
    with Status(tmp_path) as own:
        for step in range(200):
            own.update(step=step, batch_hash=str(step), write=step % 50 == 0)
            found = read(tmp_path)
            assert found["step"] == 0 or found["batch_hash"] == str(found["step"])
        own.finish(Outcome("finished", 200))
    assert read(tmp_path)["step"] == 200
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


def test_a_run_leaves_all_that_a_report_needs(cell: Cell) -> None:
    cell.train("run")
    found = cell.status("run")
    assert (found["state"], found["step"], found["steps"], found["seed"], found["reason"]) == (
        "finished",
        6,
        6,
        1,
        None,
    )
    assert found["data_hash"] == cell.data.hash and len(found["batch_hash"]) == 64
    assert found["batch_hash"] == found["batch_hash_at"]["6"]
    assert found["unigram_entropy"] == cell.data.unigram_entropy and found["vocab_size"] == cell.data.vocab_size
    assert found["peak_memory"] > 2**20 and found["seconds"] > 0
    rows = [row for row in cell.rows("run") if "val/loss" in row]
    best = min(rows, key=lambda row: row["val/loss"])
    assert found["best"] == {"loss": best["val/loss"], "step": best["step"]}
    assert found["first_loss"] == rows[0]["val/loss"]
    machine = found["environment"]
    assert machine["versions"]["torch"] == torch.__version__ and machine["threads"] == 1
    assert machine["hardware"]["device"] == "cpu" and set(machine["git"]) == {"commit", "dirty"}


def test_the_callers_status_is_updated_but_not_finished(cell: Cell) -> None:
    with Status(cell.folder / "run") as own:
        outcome = cell.train("run", status=own)
        assert outcome.state == "finished" and not own.done
        own.finish(outcome)
    assert cell.status("run")["state"] == "finished" and cell.status("run")["step"] == 6


def test_progress_and_sinks_hear_of_every_row(cell: Cell) -> None:
    told: list[Progress] = []
    rows: list[dict] = []
    sink = type("Sink", (), {"log": lambda self, row: rows.append(dict(row))})()
    cell.train("run", sinks=[sink], report=told.append)
    lines = (cell.folder / "run" / "metrics.jsonl").read_text().splitlines()
    assert rows == [json.loads(line) for line in lines]
    assert [p.step for p in told if p.step in (0, 2, 3, 4, 6)] == [0, 2, 3, 4, 6]
    last = told[-1]
    assert (last.step, last.steps, last.seconds_left) == (6, 6, 0)
    assert last.val_loss == rows[-1]["val/loss"] and last.train_loss == rows[-1]["train/loss"]
    assert told[0].seconds_left is None and told[1].seconds_left > 0


def test_git_is_asked_and_its_absence_is_no_error(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    assert environment.git(tmp_path) == {"commit": None, "dirty": None}
    assert environment.git(tmp_path / "missing") == {"commit": None, "dirty": None}
    import subprocess

    who = ["-c", "user.name=a", "-c", "user.email=a@b.c"]
    for words in (["init", "-q"], ["add", "."], [*who, "commit", "-q", "-m", "x"]):
        (tmp_path / "file").write_text("1")
        subprocess.run(["git", "-C", str(tmp_path), *words], check=True, capture_output=True)
    clean = environment.git(tmp_path)
    assert clean["commit"] and len(clean["commit"]) == 40 and clean["dirty"] is False
    (tmp_path / "file").write_text("2")
    assert environment.git(tmp_path) == {"commit": clean["commit"], "dirty": True}
    monkeypatch.setenv("PATH", "")
    assert environment.git(tmp_path) == {"commit": None, "dirty": None}
