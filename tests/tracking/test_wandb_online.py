from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.tracking import child, core_processes, info, keep, row, shell, track, wandb_sink
from support.wandb_file import files
from support.wandb_server import WandbServer

from ablab.errors import UsageError
from ablab.tracking import closing_lines


def steps(server: WandbServer, run_id: str = "r1") -> list[int]:
    """Steps of a run as the server holds them; the client's own step is the same."""
    history = server.runs[run_id].history
    assert [logged["_step"] for logged in history] == [logged["step"] for logged in history]
    return [logged["step"] for logged in history]


def upload(runs_dir: Path) -> None:
    """Do what the closing text says."""
    line = closing_lines("wandb", runs_dir, ["r1"])[1]
    shell(line.split("upload: ")[1])


def test_a_run_arrives_whole(tmp_path: Path, server: WandbServer) -> None:
    sink = wandb_sink()
    track(sink, info(tmp_path, notes="50% @ a,b"), range(5))
    run = server.runs["r1"]
    assert (sink.mode, sink.url) == ("online", f"{server.url}/local/ablab/runs/r1")
    assert (run.project, run.group, run.job_type, run.tags) == ("ablab", "norm=rms", "train", ["study-a"])
    assert (run.state, run.notes) == ("finished", "50% @ a,b")
    assert run.values() == {"optimizer": {"lr": 1e-4}, "seed": 0}
    assert steps(server) == [0, 1, 2, 3, 4]
    assert run.summary["val/loss"] == {"min": 2.0, "last": 3.0}
    assert closing_lines("wandb", tmp_path, ["r1"])[1:] == []
    assert core_processes(os.getpid()) == []


def test_many_runs_in_one_process_stay_apart_and_leave_nothing(tmp_path: Path, server: WandbServer) -> None:
    open_files, threads = [], []
    for number in range(5):
        track(wandb_sink(), info(tmp_path, f"r{number}"), range(number + 1))
        open_files.append(len(os.listdir("/dev/fd")))
        threads.append(threading.active_count())
    assert [steps(server, f"r{number}") for number in range(3)] == [[0], [0, 1], [0, 1, 2]]
    assert open_files[-1] <= open_files[1] + 2 and threads[-1] <= threads[1] + 2, (open_files, threads)
    assert core_processes(os.getpid()) == []


@pytest.mark.parametrize(
    ("state", "shown", "tags"),
    [
        ("failed", "failed", ["study-a"]),
        ("diverged", "failed", ["study-a", "diverged"]),
        ("interrupted", "preempted", ["study-a"]),
    ],
)
def test_bad_ends_do_not_look_finished(
    tmp_path: Path, server: WandbServer, state: str, shown: str, tags: list[str]
) -> None:
    track(wandb_sink(), info(tmp_path), range(2), state)
    run = server.runs["r1"]
    assert (run.state, run.tags, run.summary["state"]) == (shown, tags, state)


def test_resume_goes_on_in_the_same_run(tmp_path: Path, server: WandbServer) -> None:
    track(wandb_sink(), info(tmp_path), range(6), "interrupted")
    # the checkpoint is from step 3: steps 4 and 5 are trained again
    track(wandb_sink(), info(tmp_path, resumed=True), range(4, 9))
    run = server.runs["r1"]
    assert steps(server) == list(range(9))
    assert (run.state, run.summary["state"]) == ("finished", "finished")
    assert run.summary["val/loss"] == {"min": 2.0, "last": 7.0}
    assert list(server.runs) == ["r1"]


def test_fresh_start_of_a_known_run_shows_no_step_twice(tmp_path: Path, server: WandbServer) -> None:
    track(wandb_sink(), info(tmp_path), range(3), "failed")
    track(wandb_sink(), info(tmp_path), range(5))
    assert steps(server) == [0, 1, 2, 3, 4]


def test_offline_then_online_uploads_what_was_missing(tmp_path: Path, server: WandbServer) -> None:
    track(wandb_sink(mode="offline"), info(tmp_path), range(4), "interrupted")
    keep(tmp_path / "run-r1", range(4))
    track(wandb_sink(), info(tmp_path, resumed=True), range(4, 7))
    assert steps(server) == list(range(7))
    assert closing_lines("wandb", tmp_path, ["r1"])[1:] == []


def test_online_then_offline_is_completed_by_the_upload(tmp_path: Path, server: WandbServer) -> None:
    track(wandb_sink(), info(tmp_path), range(4), "interrupted")
    keep(tmp_path / "run-r1", range(4))
    track(wandb_sink(mode="offline"), info(tmp_path, resumed=True), range(4, 7))
    upload(tmp_path)
    assert steps(server) == list(range(7))
    assert server.runs["r1"].summary["val/loss"] == {"min": 2.0, "last": 5.0}


@pytest.mark.parametrize("mode", ["auto", "online"])
@pytest.mark.parametrize("trouble", ["gone", "errors", "silence"])
def test_no_server_at_the_start_means_offline_and_says_so(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture, mode: str, trouble: str
) -> None:
    if trouble == "gone":
        server.die()
    elif trouble == "errors":
        server.fail = lambda path: 503
    else:
        server.delay = lambda path: 30.0
    sink = wandb_sink(mode=mode, init_timeout=1.5)
    track(sink, info(tmp_path), range(3))
    assert (sink.mode, sink.url) == ("offline", None)
    assert "W&B is offline" in caplog.text and server.url in caplog.text
    assert [path.parent.name.startswith("offline-run-") for path in files(tmp_path)] == [True]
    assert closing_lines("wandb", tmp_path, ["r1"])[1].endswith(f"wandb sync --yes {tmp_path}/wandb")


def test_server_that_refuses_the_run_means_offline_and_says_so(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch
) -> None:
    def refuse(variables: dict[str, Any], base: str) -> dict[str, Any]:
        raise ValueError("permission denied")

    monkeypatch.setattr(server, "on_UpsertBucket", refuse)
    sink = wandb_sink(mode="online")
    track(sink, info(tmp_path), range(3))
    assert sink.mode == "offline" and "did not take the run" in caplog.text
    assert {entry.split(":")[0] for entry in server.rejected} == {"UpsertBucket"}
    server.rejected.clear()
    assert [path.parent.name.startswith("offline-run-") for path in files(tmp_path)] == [True]


def outage(server: WandbServer, trouble: str) -> Callable[[], None]:
    """Begin an outage; call what is returned to end it."""
    if trouble == "errors":
        server.fail = lambda path: 503
    else:
        server.delay = lambda path: 5.0

    def end() -> None:
        server.fail = lambda path: None
        server.delay = lambda path: 0.0

    return end


def test_outage_in_the_middle_loses_nothing(tmp_path: Path, server: WandbServer) -> None:
    sink = wandb_sink(finish_timeout=15)
    sink.start(info(tmp_path))
    for step in range(3):
        sink.log(row(step))
    end = outage(server, "errors")
    for step in range(3, 8):
        sink.log(row(step))
    time.sleep(0.3)
    end()
    for step in range(8, 10):
        sink.log(row(step))
    sink.finish("finished", {})
    assert steps(server) == list(range(10))
    assert server.runs["r1"].state == "finished"


@pytest.mark.parametrize("trouble", ["errors", "silence"])
def test_server_dying_or_slow_at_the_end_costs_seconds_and_the_upload_comes_later(
    tmp_path: Path, server: WandbServer, caplog: pytest.LogCaptureFixture, trouble: str
) -> None:
    sink = wandb_sink(finish_timeout=1)
    sink.start(info(tmp_path))
    for step in range(3):
        sink.log(row(step))
    end = outage(server, trouble)
    for step in range(3, 6):
        sink.log(row(step))
    sink.finish("finished", {})
    assert "wandb sync --include-online" in caplog.text
    assert core_processes(os.getpid()) == []
    end()
    assert server.runs["r1"].state == "running"
    upload(tmp_path)
    assert steps(server) == list(range(6))
    assert server.runs["r1"].state == "finished"


def test_process_ends_soon_though_the_server_is_gone(tmp_path: Path, server: WandbServer) -> None:
    """T8."""
    code = (
        "import sys, time, pathlib\nfrom support.tracking import info, row, wandb_sink\n"
        "runs_dir = pathlib.Path(sys.argv[1])\n"
        "sink = wandb_sink(finish_timeout=1); sink.start(info(runs_dir)); print(sink.mode, flush=True)\n"
        "while not (runs_dir / 'gone').exists(): time.sleep(0.02)\n"
        "sink.log(row(0)); sink.finish('finished', {}); print('ended', flush=True)"
    )
    process = child(code, tmp_path)
    assert process.stdout is not None and process.stdout.readline() == "online\n"
    server.die()
    server.fail = lambda path: 503  # connections that are open already
    (tmp_path / "gone").touch()
    output, _ = process.communicate(timeout=30)
    assert process.returncode == 0 and "ended" in output
    assert core_processes(process.pid) == []


@pytest.mark.parametrize("key", ["", "too-short"])
def test_online_without_a_usable_key_is_an_error_and_auto_is_offline(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, key: str
) -> None:
    monkeypatch.setenv("WANDB_API_KEY", key)
    with pytest.raises(UsageError, match=r"tracker.mode=online.*wandb login"):
        wandb_sink(mode="online").start(info(tmp_path))
    sink = wandb_sink(mode="auto")
    track(sink, info(tmp_path), range(1))
    assert sink.mode == "offline" and server.runs == {}


def test_log_in_of_the_home_folder_counts(
    tmp_path: Path, server: WandbServer, home: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    key = os.environ["WANDB_API_KEY"]
    monkeypatch.delenv("WANDB_API_KEY")
    netrc = home / ".netrc"
    netrc.write_text(f"machine 127.0.0.1:{server.url.rsplit(':', 1)[1]}\n  login user\n  password {key}\n")
    netrc.chmod(0o600)
    sink = wandb_sink(mode="auto")
    track(sink, info(tmp_path), range(2))
    assert sink.mode == "online" and steps(server) == [0, 1]


@pytest.mark.parametrize(("named", "mode"), [("offline", "offline"), ("disabled", "disabled")])
def test_auto_follows_the_environment(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch, named: str, mode: str
) -> None:
    monkeypatch.setenv("WANDB_MODE", named)
    sink = wandb_sink(mode="auto")
    track(sink, info(tmp_path), range(2))
    assert sink.mode == mode and server.runs == {}
    assert len(files(tmp_path)) == (mode == "offline")


@pytest.mark.parametrize("wanted", [True, False])
def test_files_become_artifacts_on_request(tmp_path: Path, server: WandbServer, wanted: bool) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    sink = wandb_sink(artifacts=wanted, finish_timeout=15)
    sink.start(info(tmp_path))
    sink.log(row(0))
    sink.log_artifact("norm=rms model", "model", [weights])
    sink.finish("finished", {})
    kept = [(item["type"], item["name"], item["state"]) for item in server.artifacts.values()]
    assert kept == ([("model", "norm_rms_model", "COMMITTED")] if wanted else [])
    assert (b"weights" in server.blobs.values()) == wanted


def test_artifacts_of_an_offline_run_come_with_the_upload(tmp_path: Path, server: WandbServer) -> None:
    weights = tmp_path / "model.safetensors"
    weights.write_bytes(b"weights")
    sink = wandb_sink(mode="offline", artifacts=True)
    sink.start(info(tmp_path))
    sink.log(row(0))
    sink.log_artifact("model", "model", [weights])
    sink.finish("finished", {})
    upload(tmp_path)
    assert b"weights" in server.blobs.values() and steps(server) == [0]
