"""What the tests of trackers share: a run's description, its rows, and a run in a process of its own."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ablab.tracking.make import make_sinks
from ablab.tracking.sink import RunInfo, Sink

TESTS = Path(__file__).parents[1]
KEY = "0123456789" * 4
# `wandb agent`, but it looks for news more often than every five seconds
AGENT = (
    "import sys; from wandb.wandb_agent import Agent; from wandb.cli.cli import cli; "
    "Agent.POLL_INTERVAL = 0.2; cli(['agent', *sys.argv[1:]])"
)


def info(runs_dir: Path, run_id: str = "r1", **changes: Any) -> RunInfo:
    """A run with id `run_id` in `runs_dir`."""
    values: dict[str, Any] = {
        "id": run_id,
        "name": f"norm=rms_seed=0-{run_id}",
        "group": "norm=rms",
        "job_type": "train",
        "tags": ("study-a",),
        "config": {"optimizer": {"lr": 1e-4}, "seed": 0},
        "runs_dir": runs_dir,
        "run_dir": runs_dir / f"run-{run_id}",
    }
    return RunInfo(**{**values, **changes})


def row(step: int) -> dict[str, object]:
    """What a run logs at `step`: the validation loss is smallest at step 3."""
    return {"step": step, "tokens": 64 * step, "train/loss": 9.0 - step, "val/loss": 2.0 + abs(step - 3)}


def keep(run_dir: Path, steps: Iterable[int]) -> None:
    """Write metrics.jsonl, as the training loop does before it hands a row to a tracker."""
    run_dir.mkdir(parents=True, exist_ok=True)
    (run_dir / "metrics.jsonl").write_text("".join(json.dumps(row(step)) + "\n" for step in steps))


def track(sink: Sink, run: RunInfo, steps: Iterable[int], state: str = "finished") -> None:
    """A whole run."""
    sink.start(run)
    for step in steps:
        sink.log(row(step))
    sink.finish(state, {"best/val_loss": 2.0})


def wandb_sink(**options: Any) -> Any:
    """A W&B sink with times fit for a test."""
    return make_sinks("wandb", {"init_timeout": 3, "finish_timeout": 2, "flush_interval": 0.1, **options})[0]


def child(code: str, *args: object, **options: Any) -> subprocess.Popen[str]:
    """A Python process that can import ablab and this module; no terminal, output as text."""
    path = os.pathsep.join([str(TESTS), str(TESTS.parent / "src")])
    env = {**os.environ, "PYTHONPATH": path}
    pipes = {"stdin": subprocess.DEVNULL, "stdout": subprocess.PIPE, "stderr": subprocess.STDOUT}
    command = [sys.executable, "-c", code, *map(str, args)]
    return subprocess.Popen(command, env=env, text=True, **pipes, **options)


def shell(command: str) -> str:
    """Run a command as it was printed, with this Python's scripts first; its output if it succeeded."""
    env = {**os.environ, "PATH": f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"}
    done = subprocess.run(
        command, shell=True, env=env, capture_output=True, text=True, stdin=subprocess.DEVNULL, check=False
    )
    if done.returncode != 0:
        raise RuntimeError(f"{command}: {done.returncode}\n{done.stdout}\n{done.stderr}")
    return done.stdout + done.stderr


def core_processes(pid: int) -> list[int]:
    """Ids of the living client processes that were started for process `pid`."""
    command = ["ps", "-wweo", "pid,stat,args"]
    listing = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = []
    for line in listing.splitlines()[1:]:
        one, stat, args = line.split(None, 2)
        if "wandb-core" in args and f"--pid {pid}" in args and "Z" not in stat:
            found.append(int(one))
    return found
