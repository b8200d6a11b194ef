"""The pool: one owner per run, set-aside folders, lost runs."""

from __future__ import annotations

import json
import multiprocessing
import shutil
from multiprocessing.connection import Connection
from pathlib import Path

import pytest

from ablab import UsageError, runfolder
from ablab.study import pool


def hold(runs_dir: Path, run_id: str, connection: Connection) -> None:
    with pool.owned(runs_dir, run_id) as mine:
        connection.send(mine)
        connection.recv()


def test_a_run_has_one_owner_across_processes_and_a_killed_owner_lets_go(tmp_path: Path) -> None:
    context = multiprocessing.get_context("fork")
    here, there = context.Pipe()
    other = context.Process(target=hold, args=(tmp_path, "a", there))
    other.start()
    assert here.recv() is True
    with pool.owned(tmp_path, "a") as mine:
        assert mine is False
    with pool.owned(tmp_path, "b") as mine:
        assert mine is True
    other.kill()
    other.join()
    with pool.owned(tmp_path, "a") as mine:
        assert mine is True


def test_ownership_ends_with_the_context(tmp_path: Path) -> None:
    for _ in range(2):
        with pytest.raises(RuntimeError), pool.owned(tmp_path, "a") as mine:
            assert mine is True
            raise RuntimeError


def test_folders_are_set_aside_under_the_next_free_number(tmp_path: Path) -> None:
    run = tmp_path / "run"
    assert pool.set_aside(run) is None
    for number in (1, 2, 3):
        run.mkdir()
        (run / "metrics.jsonl").write_text(str(number))
        kept = pool.set_aside(run)
        assert kept == tmp_path / f"run.{number}" and not run.exists()
        assert (kept / "metrics.jsonl").read_text() == str(number)


def test_a_folder_that_cannot_be_written(tmp_path: Path) -> None:
    pool.writable(tmp_path / "new" / "runs")
    assert list((tmp_path / "new" / "runs").iterdir()) == []
    (tmp_path / "file").write_text("")
    with pytest.raises(UsageError, match=r"runs_dir=.*file/runs cannot be written"):
        pool.writable(tmp_path / "file" / "runs")


def test_a_lost_run_is_failed_at_its_last_row(tmp_path: Path) -> None:
    run = tmp_path / "run"
    runfolder.write_json_atomic(run / "status.json", {"state": "running", "step": 0, "heartbeat": 1.0, "seed": 4})
    (run / "metrics.jsonl").write_text('{"step": 0}\n{"step": 30}\n{"step": 4')
    pool.mark_lost(tmp_path, run, "a", "killed by SIGKILL")
    status = runfolder.read_status(run)
    assert status is not None
    assert (status["state"], status["reason"], status["step"], status["seed"]) == ("failed", "killed by SIGKILL", 30, 4)


@pytest.mark.parametrize("state", ["finished", "diverged", "failed"])
def test_an_outcome_is_not_overwritten(tmp_path: Path, state: str) -> None:
    runfolder.write_json_atomic(tmp_path / "run" / "status.json", {"state": state, "reason": "its own", "step": 3})
    pool.mark_lost(tmp_path, tmp_path / "run", "a", "killed by SIGKILL")
    assert runfolder.read_status(tmp_path / "run") == {"state": state, "reason": "its own", "step": 3}


def test_a_run_that_somebody_else_took_over_is_left_alone(tmp_path: Path) -> None:
    with pool.owned(tmp_path, "a"):
        pool.mark_lost(tmp_path, tmp_path / "run", "a", "killed by SIGKILL")
    assert not (tmp_path / "run").exists()


@pytest.mark.parametrize(
    ("count", "text"), [(0, "0 B"), (999, "999 B"), (1000, "1.0 kB"), (3_240_000, "3.2 MB"), (5e13, "50.0 TB")]
)
def test_sizes_for_people(count: float, text: str) -> None:
    assert pool.human(count) == text


def test_no_two_runs_share_an_id_at_the_tracker_whatever_was_pruned(tmp_path: Path) -> None:
    run = tmp_path / "rms-seed0-0123456789"

    def train() -> str:
        """A run starts in the folder, under the id that it gets."""
        name = pool.tracker_id(run, "0123456789")
        run.mkdir()
        (run / "status.json").write_text(json.dumps({"state": "finished", "tracker_id": name}))
        assert pool.tracker_id(run, "0123456789") == name  # and keeps it
        return name

    names = [train()]
    for _ in range(2):
        pool.set_aside(run)
        names.append(train())
    shutil.rmtree(tmp_path / f"{run.name}.1")
    shutil.rmtree(tmp_path / f"{run.name}.2")
    assert pool.tracker_id(run, "0123456789") == names[-1]
    pool.set_aside(run)
    names.append(train())
    assert names == ["0123456789", "0123456789-1", "0123456789-2", "0123456789-3"]


def test_a_folder_of_an_older_version_has_no_id_but_counts(tmp_path: Path) -> None:
    (tmp_path / "rms-seed0-0123456789.1").mkdir()
    assert pool.tracker_id(tmp_path / "rms-seed0-0123456789", "0123456789") == "0123456789-1"
