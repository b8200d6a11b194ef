"""What the process of one cell does: own the run, train it, leave a true state behind."""

from __future__ import annotations

import logging
import os
import signal
import sys
import threading
import time
import traceback
from dataclasses import asdict
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any

import torch
from hydra.conf import HydraConf
from hydra.core.hydra_config import HydraConfig
from omegaconf import DictConfig, OmegaConf

from .. import catalog, runfolder
from ..components.sampling import Sampling
from ..data.token_data import TokenData, open_data
from ..generate import generate
from ..model import DecoderLM
from ..tracking.make import make_sinks
from ..tracking.sink import RunInfo, Sink
from ..training.loop import train
from ..training.outcome import Outcome, Progress
from ..training.status import Status
from . import pool
from .task import Task

log = logging.getLogger("ablab")

#: signals that mean: save and stop. USR1 and USR2 are what schedulers send before they pre-empt a job
STOPPING = ("SIGINT", "SIGTERM", "SIGHUP", "SIGUSR1", "SIGUSR2")


class Stop:
    """Why a run should stop, if it should: a signal, or the end of the process that asked for it."""

    def __init__(self, connection: Connection) -> None:
        self.reason: str | None = None
        for name in STOPPING:
            signal.signal(getattr(signal, name), lambda number, frame: self._set(signal.Signals(number).name))
        threading.Thread(target=self._watch, args=(connection,), daemon=True).start()

    def __call__(self) -> str | None:
        return self.reason

    def _set(self, reason: str) -> None:
        self.reason = self.reason or reason

    def _watch(self, connection: Connection) -> None:
        try:
            while True:
                connection.recv()
        except (EOFError, OSError):
            self._set("the sweep's process is gone")

    def tell(self, connection: Connection, message: tuple[Any, ...]) -> None:
        """Send a message to the sweep's process; when that is gone, stop instead of failing."""
        try:
            connection.send(message)
        except OSError:
            self._set("the sweep's process is gone")


def run_cell(task: Task, connection: Connection) -> None:
    """Train one cell. Messages sent: ("progress", fields of a Progress), then one of ("busy",), ("done", state) for a run that
    somebody else has finished, ("outcome", state, step, reason, traceback or None)."""
    os.environ.update(task.environment)
    stop = Stop(connection)
    runs_dir = Path(task.runs_dir)
    with pool.owned(runs_dir, task.run_id) as mine:
        if not mine:
            stop.tell(connection, ("busy",))
            return
        state = runfolder.state(task.run_dir)
        if state in runfolder.OUTCOMES:
            stop.tell(connection, ("done", state))
            return
        try:
            message = _run(task, stop, connection)
        except BaseException as error:  # also sys.exit in a component: whatever happens is this cell's outcome
            trace = traceback.format_exc()
            log.error("the run failed\n%s", trace)
            message = ("outcome", "failed", _step(task), _reason(error), trace)
            _record_failure(task, _reason(error))
    stop.tell(connection, message)


def _run(task: Task, stop: Stop, connection: Connection) -> tuple[Any, ...]:
    run_dir = task.run_dir
    cfg = OmegaConf.create(task.config)
    run_dir.mkdir(parents=True, exist_ok=True)
    _divert_output(run_dir / runfolder.LOG)
    _enter_hydra(task)
    catalog.load_plugins()
    resumed = (run_dir / runfolder.CHECKPOINTS / "last.pt").exists()
    if not (run_dir / runfolder.CONFIG).exists():
        runfolder.write_text_atomic(run_dir / runfolder.CONFIG, OmegaConf.to_yaml(cfg))
    log.info(
        "%s %s, cell %d of study %s",
        "resuming" if resumed else "starting",
        task.run_id,
        task.number,
        task.study,
    )
    data = open_data(Path(task.data_folder))
    sinks = make_sinks(cfg.choices.tracker, cfg.tracker)
    last = [0.0]

    def report(progress: Progress) -> None:
        if time.monotonic() - last[0] >= 0.25 or progress.step == progress.steps:
            last[0] = time.monotonic()
            stop.tell(connection, ("progress", asdict(progress)))

    outcome = Outcome("failed", 0, "the tracker did not start")
    started: list[Sink] = []
    with Status(
        run_dir, seed=cfg.seed, steps=cfg.train.steps, run=task.run_id, tracker_id=task.tracker_id,
        source_hash=task.facts.get("source_hash"),
    ) as status:  # fmt: skip
        try:
            info = _info(task, cfg, resumed, data.hash)
            for sink in sinks:
                sink.start(info)
                started.append(sink)
            sample = partial(_sample, data) if cfg.choices.tracker != "none" else None
            outcome = train(cfg, run_dir, data, sinks, stop, report, status=status, sample=sample, spare=task.spare)
            status.finish(outcome)
            if outcome.state == "finished":
                for sink in started:
                    _keep_files(sink, task, data)
        except BaseException as error:
            outcome = Outcome("failed", _step(task), _reason(error))
            raise
        finally:
            for sink in started:
                sink.finish(outcome.state, {**outcome.summary, "reason": outcome.reason})
    log.info("%s at step %d%s", outcome.state, outcome.step, f": {outcome.reason}" if outcome.reason else "")
    return ("outcome", outcome.state, outcome.step, outcome.reason, None)


def _info(task: Task, cfg: DictConfig, resumed: bool, data_hash: str) -> RunInfo:
    facts = {"run_id": task.run_id, "label": task.label, "data_hash": data_hash, **task.facts}
    return RunInfo(
        id=task.tracker_id, name=task.folder, group=task.label, job_type="train", tags=(task.study,),
        config=task.config | facts, runs_dir=Path(task.runs_dir), run_dir=task.run_dir, resumed=resumed, notes=cfg.note,
    )  # fmt: skip


def _keep_files(sink: Sink, task: Task, data: TokenData) -> None:
    """Offer the checkpoints and the tokens of a finished run; a sink keeps them if it was asked to."""
    checkpoints = task.run_dir / runfolder.CHECKPOINTS
    sink.log_artifact(
        f"checkpoints-{task.tracker_id}", "model", sorted(p for p in checkpoints.iterdir() if p.is_file())
    )
    sink.log_artifact(f"tokens-{data.hash[:10]}", "dataset", sorted(p for p in data.folder.iterdir() if p.is_file()))


def _sample(data: TokenData, model: DecoderLM) -> str:
    """A text of at most a context's length that the model writes from the first token of the validation text."""
    tokenizer = data.tokenizer
    start = [int(data.val[0])]
    generator = torch.Generator(model.token_embeddings.weight.device).manual_seed(0)
    length = min(200, model.context_length - 1)
    written = generate(
        model, [start], length, sampling=Sampling(temperature=0.8), eot_id=tokenizer.eot_id, generator=generator
    )
    return tokenizer.decode(start + written[0].ids)


def _enter_hydra(task: Task) -> None:
    """Make HydraConfig say in this process what it would say in one that Hydra started."""
    schema = OmegaConf.create({"hydra": OmegaConf.structured(HydraConf)})
    OmegaConf.set_struct(schema.hydra, False)  # conf/hydra may add keys
    node = OmegaConf.merge(schema, {"hydra": task.hydra})
    HydraConfig.instance().set_config(node)  # type: ignore[arg-type]


def _divert_output(path: Path) -> None:
    """Send log records, and whatever libraries print, to the run's own log."""
    file = open(path, "ab", buffering=0)  # noqa: SIM115 - stays open as long as the process
    os.dup2(file.fileno(), 1)
    os.dup2(file.fileno(), 2)
    sys.stdout.reconfigure(line_buffering=True)  # type: ignore[union-attr]
    handler = logging.StreamHandler(sys.stderr)
    handler.setFormatter(logging.Formatter("%(asctime)s %(levelname)s %(name)s: %(message)s"))
    logging.basicConfig(level=logging.INFO, handlers=[handler], force=True)
    logging.captureWarnings(True)


def _reason(error: BaseException) -> str:
    if isinstance(error, SystemExit):
        return f"sys.exit({error.code}) before the last step"
    return " ".join(f"{type(error).__name__}: {error}".split()).rstrip(":")[:500]


def _step(task: Task) -> int:
    return int((runfolder.read_status(task.run_dir) or {}).get("step") or 0)


def _record_failure(task: Task, reason: str) -> None:
    """The last word on a failed run, also when it failed before its status.json was opened."""
    try:
        status = runfolder.read_status(task.run_dir) or {"step": 0, "seed": task.config["seed"]}
        status |= {"state": "failed", "reason": reason, "heartbeat": time.time()}
        runfolder.write_json_atomic(task.run_dir / runfolder.STATUS, status)
    except OSError as error:
        log.error("cannot write %s: %s", task.run_dir / runfolder.STATUS, error)
