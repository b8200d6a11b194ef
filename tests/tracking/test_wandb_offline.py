from __future__ import annotations

import os
import signal
import subprocess
import time
from pathlib import Path

import pytest
from omegaconf import OmegaConf
from support.tracking import child, core_processes, info, keep, row, shell, track, wandb_sink
from support.wandb_file import files, only, read
from support.wandb_server import WandbServer

from ablab.errors import UsageError
from ablab.tracking import closing_lines

RUN = """
import sys, pathlib, time
from support.tracking import info, row, track, wandb_sink
runs_dir = pathlib.Path(sys.argv[1])
"""


def test_without_key_or_terminal_it_is_offline_and_says_how_to_upload(tmp_path: Path) -> None:
    """T3."""
    code = RUN + (
        "import logging; logging.basicConfig(level='INFO')\n"
        "track(wandb_sink(mode='auto'), info(runs_dir), range(4))\n"
        "from ablab.tracking import closing_lines\n"
        "print(*closing_lines('wandb', runs_dir, ['r1']), sep='\\n')"
    )
    process = child(code, tmp_path)
    output, _ = process.communicate(timeout=60)
    assert process.returncode == 0, output
    assert "W&B is offline: no key" in output
    assert f"wandb sync --yes {tmp_path}/wandb" in output and f"wandb leet {tmp_path}/wandb" in output
    assert len(only(tmp_path).history) == 4
    assert core_processes(process.pid) == []


def test_offline_client_reports_to_nobody(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("WANDB_ERROR_REPORTING")
    sink = wandb_sink()
    sink.start(info(tmp_path))
    (process,) = core_processes(os.getpid())
    arguments = subprocess.run(["ps", "-wwo", "args", "-p", str(process)], capture_output=True, text=True).stdout
    sink.finish("finished", {})
    assert "--no-observability" in arguments


def test_preloaded_client_can_be_forked(tmp_path: Path) -> None:
    code = RUN + (
        "import os, threading, ablab.tracking.wandb_preload\n"
        "assert threading.active_count() == 1\n"
        "children = []\n"
        "for run_id in ('a', 'b'):\n"
        "    if (pid := os.fork()) == 0:\n"
        "        track(wandb_sink(), info(runs_dir, run_id), range(3)); os._exit(0)\n"
        "    children.append(pid)\n"
        "print([os.waitpid(pid, 0)[1] for pid in children])"
    )
    output, _ = child(code, tmp_path).communicate(timeout=60)
    assert output.endswith("[0, 0]\n"), output
    assert {run.id: len(run.history) for run in map(read, files(tmp_path))} == {"a": 3, "b": 3}


def test_config_keeps_its_types(tmp_path: Path) -> None:
    """T4."""
    config = OmegaConf.create(
        {
            "choices": {"norm": "rms", "position": "none"},
            "optimizer": {"lr": 1e-4, "betas": [0.9, 0.95]},
            "train": {"steps": 6, "tokens": None, "compile": False, "batch": "${train.steps}"},
            "note": "50% @ a,b #1 naïve",
        }
    )
    extra = {"parameters": 1234, "data_hash": "ab12", "git": {"commit": "c0ffee"}, "part": config.train}
    track(wandb_sink(), info(tmp_path, config={**config, **extra}), range(1))
    logged = only(tmp_path).config
    del logged["_wandb"]
    assert logged == {**OmegaConf.to_container(config, resolve=True), **extra, "part": logged["train"]}
    assert type(logged["optimizer"]["lr"]) is float and logged["train"]["batch"] == 6


def test_names_fit_before_they_are_refused_at_the_upload(tmp_path: Path, server: WandbServer) -> None:
    """T5: the server of these tests refuses what is too long."""
    long = ",".join(f"model.some_rather_long_option_{i}={i}" for i in range(12))
    sweep = [
        info(tmp_path, f"{seed}#{long}", name=f"{long},seed={seed}", group=long, tags=(f"study {long}",))
        for seed in range(2)
    ]
    for run in sweep:
        track(wandb_sink(mode="offline"), run, range(1))
    runs = [read(path) for path in files(tmp_path)]
    assert len({run.id for run in runs}) == len({run.name for run in runs}) == 2
    assert len({run.group for run in runs}) == 1
    for line in closing_lines("wandb", tmp_path, [run.id for run in sweep]):
        if "sync" in line:
            shell(line.split("upload: ")[1])
    assert {run.id for run in runs} == set(server.runs)
    assert all(run.state == "finished" for run in server.runs.values())


def test_every_step_has_both_losses_and_nothing_is_dropped(tmp_path: Path) -> None:
    """T6: also the last step, a row with a number that was not finite, and steps far apart."""
    rows = [row(0), row(1), {**row(2), "val/loss": None}, row(50)]
    sink = wandb_sink()
    sink.start(info(tmp_path))
    for item in rows:
        sink.log(item)
    sink.finish("finished", {})
    run = only(tmp_path)
    assert [{key: logged[key] for key in row(0)} for logged in run.history] == rows
    assert [logged["_step"] for logged in run.history] == [0, 1, 2, 50]
    debug = "".join(path.read_text() for path in tmp_path.glob("wandb/*run-*/logs/*.log"))
    assert "monotonically" not in debug and "less than" not in debug


def test_metrics_are_drawn_against_tokens_and_losses_keep_their_minimum(tmp_path: Path) -> None:
    track(wandb_sink(), info(tmp_path), range(6))
    run = only(tmp_path)
    assert run.metrics["val/loss"].step_metric == run.metrics["*"].step_metric == "tokens"
    assert run.summary["val/loss"] == {"min": 2.0, "last": 4.0}
    assert run.summary["best/val_loss"] == 2.0


@pytest.mark.parametrize(
    ("state", "code", "tags", "preempting"),
    [
        ("finished", 0, ["study-a"], False),
        ("diverged", 1, ["study-a", "diverged"], False),
        ("failed", 1, ["study-a"], False),
        ("interrupted", 1, ["study-a"], True),
    ],
)
def test_outcomes_look_so(tmp_path: Path, state: str, code: int, tags: list[str], preempting: bool) -> None:
    track(wandb_sink(), info(tmp_path), range(2), state)
    run = only(tmp_path)
    assert (run.exit_code, run.tags, run.preempting) == (code, tags, preempting)
    assert run.summary["state"] == state


def test_a_run_left_open_neither_swallows_the_next_nor_looks_well(tmp_path: Path) -> None:
    left = wandb_sink()
    left.start(info(tmp_path, "left"))
    left.log(row(0))
    track(wandb_sink(), info(tmp_path, "next"), range(3))
    runs = {run.id: run for run in map(read, files(tmp_path))}
    assert (len(runs["left"].history), runs["left"].exit_code) == (1, 1)
    assert (len(runs["next"].history), runs["next"].exit_code) == (3, 0)
    assert core_processes(os.getpid()) == []


def test_texts_and_figures_go_with_their_step(tmp_path: Path) -> None:
    picture = tmp_path / "loss.png"
    from PIL import Image

    Image.new("RGB", (4, 3)).save(picture)
    sink = wandb_sink()
    sink.start(info(tmp_path))
    for step in range(3):
        sink.log_text("sample", f"<b> step {step}", step)
        if step == 2:
            sink.log_figure("figure", picture, step)
        sink.log(row(step))
    sink.finish("finished", {})
    run = only(tmp_path)
    text = run.path.parent / "files" / run.history[1]["sample"]["path"]
    assert "&lt;b&gt; step 1" in text.read_text()
    assert [logged["_step"] for logged in run.history] == [0, 1, 2]
    assert (run.path.parent / "files" / run.history[2]["figure"]["path"]).stat().st_size > 0


@pytest.mark.parametrize("what", ["runs_dir is a file", "wandb is a file", "no such device"])
def test_unwritable_folder_is_an_error_and_never_the_temporary_folder(tmp_path: Path, what: str) -> None:
    """T8."""
    runs_dir = tmp_path / "runs"
    if what == "runs_dir is a file":
        runs_dir.touch()
    elif what == "wandb is a file":
        runs_dir.mkdir()
        (runs_dir / "wandb").touch()
    else:
        runs_dir = Path("/dev/null/runs")
    with pytest.raises(UsageError, match=f"runs_dir={runs_dir}: cannot write"):
        wandb_sink().start(info(runs_dir))


def test_hidden_folder_of_others_does_not_hide_the_data(tmp_path: Path) -> None:
    (tmp_path / ".wandb").mkdir()
    track(wandb_sink(), info(tmp_path), range(2))
    assert len(only(tmp_path).history) == 2


def test_sigkill_loses_at_most_the_last_second_and_leaves_no_process(tmp_path: Path) -> None:
    code = RUN + (
        "sink = wandb_sink(flush_interval=0.5); sink.start(info(runs_dir))\n"
        "step = 0\n"
        "while True:\n"
        "    sink.log(row(step)); print(time.time(), flush=True); step += 1; time.sleep(0.05)"
    )
    process = child(code, tmp_path)
    times = []
    for line in process.stdout or ():
        times.append(float(line))
        if len(times) == 30:
            break
    process.send_signal(signal.SIGKILL)
    killed = time.time()
    rest, _ = process.communicate(timeout=10)
    times += [float(line) for line in rest.split()]
    kept = len(only(tmp_path).history)
    assert kept >= sum(moment < killed - 1.0 for moment in times) > 0
    deadline = time.time() + 10
    while core_processes(process.pid) and time.time() < deadline:
        time.sleep(0.05)
    assert core_processes(process.pid) == []


def test_client_that_dies_does_not_stop_the_training(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    sink = wandb_sink()
    sink.start(info(tmp_path))
    sink.log(row(0))
    for process in core_processes(os.getpid()):
        os.kill(process, signal.SIGKILL)
    for step in range(1, 50):
        sink.log(row(step))
    sink.finish("finished", {})
    assert caplog.text.count("W&B could not") == 1
    track(wandb_sink(), info(tmp_path, "next"), range(2))
    assert [len(run.history) for run in map(read, files(tmp_path)) if run.id == "next"] == [2]


def test_offline_resume_adds_what_is_missing_and_repeats_nothing(tmp_path: Path, server: WandbServer) -> None:
    run = info(tmp_path)
    code = RUN + (
        "import os; sink = wandb_sink(mode='offline'); sink.start(info(runs_dir))\n"
        "for step in range(5): sink.log(row(step))\n"
        "time.sleep(0.6); os.kill(os.getpid(), 9)"
    )
    child(code, tmp_path).communicate(timeout=60)
    assert [logged["step"] for logged in only(tmp_path).history] == [0, 1, 2, 3, 4]
    # metrics.jsonl has step 5, which the kill took from W&B; the checkpoint is from step 3
    keep(run.run_dir, range(6))
    track(wandb_sink(mode="offline"), info(tmp_path, resumed=True), range(4, 9))
    first, second = map(read, files(tmp_path))
    assert [logged["step"] for logged in first.history + second.history] == list(range(9))
    assert second.summary["val/loss"] == {"min": 2.0, "last": 7.0}
    shell(closing_lines("wandb", tmp_path, ["r1"])[1].split("upload: ")[1])
    uploaded = server.runs["r1"]
    assert [logged["_step"] for logged in uploaded.history] == list(range(9))
    assert uploaded.state == "finished" and uploaded.summary["val/loss"] == {"min": 2.0, "last": 7.0}


def test_fresh_start_replaces_what_an_earlier_attempt_holds_back(tmp_path: Path, server: WandbServer) -> None:
    track(wandb_sink(mode="offline"), info(tmp_path), range(7), "failed")
    track(wandb_sink(mode="offline"), info(tmp_path), range(3))
    shell(closing_lines("wandb", tmp_path, ["r1"])[1].split("upload: ")[1])
    assert [logged["step"] for logged in server.runs["r1"].history] == [0, 1, 2]
    assert closing_lines("wandb", tmp_path, ["r1"])[1:] == []
