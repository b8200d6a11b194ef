"""One run in training: its parts, and what happens to it between steps. The order of things is in loop.py."""

from __future__ import annotations

import dataclasses
import logging
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from ..data import Batches, TokenData, eval_windows
from ..errors import UsageError
from ..model import build_model
from ..registry import get
from ..runfolder import CHECKPOINTS
from ..tracking.sink import Sink
from . import checkpoint
from .device import Runtime
from .environment import peak_memory
from .evaluate import Evaluation, Evaluator
from .facts import facts
from .feed import Feed
from .gradients import LARGE, WORTH, Gradients, independent, shared_out, work
from .metrics import Meter, MetricsFile
from .optimizer import parameter_groups
from .outcome import Outcome, Progress
from .resume import Found
from .state import TrainState, random_states, seed_noise, set_random_states
from .status import Status

log = logging.getLogger(__name__)

#: writes a text with a model, to be shown beside the last row
Sample = Callable[[nn.Module], str]


class Run:
    """The parts of a run, built from its config, and its state."""

    def __init__(
        self,
        cfg: DictConfig,
        run_dir: Path,
        data: TokenData,
        where: Runtime,
        status: Status,
        sinks: Sequence[Sink],
        report: Callable[[Progress], None],
        sample: Sample | None = None,
        spare: int = 1,
    ) -> None:
        t, length = cfg.train, cfg.model.context_length
        self.cfg, self.run_dir, self.data, self.where = cfg, run_dir, data, where
        self.status, self.sinks, self.report, self.sample = status, sinks, report, sample
        self.steps, self.clip = t.steps, t.grad_clip or None
        self.tokens_per_step = t.batch_size * t.grad_accum * length
        self.model = build_model(cfg, data.vocab_size).to(where.device)
        self.parameters = [p for p in self.model.parameters() if p.requires_grad]
        groups = parameter_groups(self.model)
        self.optimizer = get("optimizer", cfg.choices.optimizer)(groups, **_options(cfg.optimizer))
        for group in self.optimizer.param_groups:
            group["peak"] = float(group["lr"])
        self.schedule = get("schedule", cfg.choices.schedule)(t.steps, **_options(cfg.schedule))
        batches = Batches(data.train, length, t.batch_size * t.grad_accum, cfg.seeds.data, cfg.data.order)
        self.feed = Feed(batches, t.grad_accum, where)
        tokens_per_byte = len(data.val) / data.val_bytes
        windows = eval_windows(data.val, length)
        self.evaluate = Evaluator(windows, t.eval_batch_size, tokens_per_byte, where, *self._crew(spare))
        self.state, self.meter = TrainState(), Meter(where)
        self.progress = Progress(0, t.steps, None, None, None, None, 0.0, None)
        self._config = OmegaConf.to_yaml(cfg, resolve=True)
        self._folder = run_dir / CHECKPOINTS
        self._saved: tuple[int, bool] | None = None
        self._clock = self._told = time.perf_counter()
        seed_noise(cfg.seeds.init)
        self.gradients = Gradients(self.model, self.parameters, where, self._parts())
        status.update(write=True, **facts(cfg, data, where.device))

    def restore(self, found: Found) -> None:
        """Take over a checkpoint, if there is one, as a whole; cut metrics.jsonl to it and open that file."""
        if found.content is not None:
            self._load(found.content)
        if found.own:
            self._saved = (self.state.step, self.state.settled)
        elif found.best is not None:
            checkpoint.write(self._folder / checkpoint.BEST, found.best)
        else:
            self.state.best_loss = self.state.best_step = None
        self.metrics = MetricsFile(self.run_dir, found.lines)
        for row in found.unseen:
            self._show(row)

    def look(self) -> tuple[dict[str, float], int]:
        """Wait for the device, stop the clock: (numbers since the last line, first step that went wrong or 0)."""
        numbers, bad_step = self.meter.read()
        now = time.perf_counter()
        self.state.seconds += now - self._clock
        self._clock = now
        return numbers, bad_step

    def restart_clock(self) -> None:
        """Training time goes on from now: evaluation and saving do not count."""
        self._clock = time.perf_counter()

    def write_row(self, numbers: dict[str, float] | None, evaluation: Evaluation | None) -> None:
        """One row for this step: training numbers since the last line that had them, and the evaluation."""
        s = self.state
        row: dict[str, Any] = {"step": s.step, "tokens": s.step * self.tokens_per_step}
        if numbers is not None:
            spent = s.seconds - s.line_seconds
            done = (s.step - s.line_step) * self.tokens_per_step
            row |= numbers | {"lr": self.rate(), "tokens_per_second": done / spent if spent > 0 else None}
            s.line_step, s.line_seconds = s.step, s.seconds
            self.meter.restart()
        if evaluation is not None:
            row |= evaluation.row()
        if self.sample is not None and s.step == self.steps:
            text = self.sample(self.model)
            for sink in self.sinks:
                sink.log_text("sample", text, s.step)
        self._show(self.metrics.write(row | {"seconds": s.seconds}))

    def note(self, evaluation: Evaluation) -> None:
        """Remember a good evaluation: first loss, hash of the data so far, and the weights if they are best."""
        s = self.state
        s.batch_hash_at[str(s.step)] = s.batch_hash
        if s.first_loss is None:
            s.first_loss = evaluation.loss
        if (s.best_loss is None or evaluation.loss < s.best_loss) and checkpoint.is_finite(self.parameters):
            s.best_loss, s.best_step = evaluation.loss, s.step
            content = {
                "model": self.model.state_dict(),
                "step": s.step,
                "loss": evaluation.loss,
            } | self._identity()
            checkpoint.write(self._folder / checkpoint.BEST, content)
        self.status.update(**self._summary())

    def save(self) -> bool:
        """Save everything needed to go on; False, and nothing saved, if a weight is not finite."""
        s = self.state
        if self._saved == (s.step, s.settled):
            return True
        if not checkpoint.is_finite(self.parameters):
            return False
        self.metrics.sync()
        content = {
            "model": self.model.state_dict(),
            "optimizer": self.optimizer.state_dict(),
            "meter": self.meter.state(),
            "random": random_states(self.where.device),
        }
        content |= dataclasses.asdict(s) | self._identity()
        checkpoint.write(self._folder / checkpoint.LAST, content, keep=self._folder / checkpoint.PREVIOUS)
        self._saved = (s.step, s.settled)
        return True

    def rate(self, step: int | None = None) -> float:
        """Learning rate of the step that ended at `step`, by default the last one."""
        scale = self.state.scale if step is None or step == self.state.step else self.schedule.scale(step - 1)
        return self.optimizer.param_groups[0]["peak"] * (scale or 0.0)

    def tell(self) -> None:
        """Report progress, at most once a second."""
        now = time.perf_counter()
        if now - self._told >= 1:
            self._tell(self.state.seconds + now - self._clock)

    def interrupt(self, reason: str) -> Outcome:
        """Save where the run is and end it; if it went wrong since the last look, that is its outcome instead."""
        _, bad_step = self.look()
        if bad_step:
            return self.diverge(bad_step, "loss or gradient is not finite")
        if not self.save():
            return self.diverge(self.state.step, "weights are not finite")
        return self._end("interrupted", self.state.step, reason)

    def diverge(self, step: int, reason: str) -> Outcome:
        """End the run as diverged; the last good checkpoint stays."""
        self.status.update(lr=self.rate(step))
        log.warning("diverged at step %d: %s (learning rate %.3g)", step, reason, self.rate(step))
        return self._end("diverged", step, reason)

    def finish(self) -> Outcome:
        """End the run as finished and leave its weights where others can load them."""
        metadata = {"format": "pt", "step": str(self.state.step)}
        checkpoint.write_weights(self._folder / checkpoint.WEIGHTS, self.model.state_dict(), metadata)
        return self._end("finished", self.state.step, None)

    def _end(self, state: str, step: int, reason: str | None) -> Outcome:
        if state != "interrupted":
            (self._folder / checkpoint.PREVIOUS).unlink(missing_ok=True)
        summary = self._summary()
        self.status.update(**summary)
        return Outcome(state, step, reason, summary)

    def _load(self, content: dict[str, Any]) -> None:
        self.model.load_state_dict(content["model"], strict=True)
        fresh = [{key: group.get(key) for key in ("names", "fused")} for group in self.optimizer.param_groups]
        saved = [group.get("names") for group in content["optimizer"]["param_groups"]]
        if saved != [group["names"] for group in fresh]:
            raise UsageError("the checkpoint's optimiser holds other parameters than this model has")
        self.optimizer.load_state_dict(content["optimizer"])
        for group, own in zip(self.optimizer.param_groups, fresh, strict=True):
            group["fused"] = own["fused"]  # belongs to the device, not to the run
        self.state = TrainState.of(content)
        self.meter.load(content["meter"])
        set_random_states(content["random"], self.where.device)

    def _parts(self) -> int:
        """Parts of a micro-batch that the threads take through the model on their own, where that pays."""
        parts = min(shared_out(torch.get_num_threads()), self.cfg.train.batch_size)
        tokens = self.cfg.train.batch_size * self.cfg.model.context_length // parts
        return parts if parts > 1 and WORTH <= work(self.model, tokens) <= LARGE and self._apart(training=True) else 1

    def _crew(self, spare: int) -> tuple[int, int]:
        """Batches of an evaluation at a time, and threads on each; the second, which decides the bits, does not depend on
        `spare`."""
        threads = torch.get_num_threads()
        size = work(self.model, self.cfg.train.eval_batch_size * self.cfg.model.context_length)
        if threads * spare < 2 or size < WORTH or not self._apart(training=False):
            return 1, threads
        each = 1 if size <= LARGE else threads
        return threads * spare // each, each

    def _apart(self, training: bool) -> bool:
        """Whether several threads may use the model at a time, in training or in evaluation."""
        if self.where.device.type != "cpu" or self.cfg.train.compile:
            return False
        self.model.train(training)
        try:
            return independent(self.model, self.data.vocab_size)
        finally:
            self.model.train()

    def _identity(self) -> dict[str, Any]:
        return {
            "config": self._config,
            "data_hash": self.data.hash,
            "tokenizer_hash": self.data.tokenizer.hash,
            "vocab_size": self.data.vocab_size,
        }

    def _summary(self) -> dict[str, Any]:
        s = self.state
        best = None if s.best_loss is None else {"loss": s.best_loss, "step": s.best_step}
        return {
            "first_loss": s.first_loss,
            "best": best,
            "batch_hash": s.batch_hash,
            "batch_hash_at": dict(s.batch_hash_at),
            "seconds": s.seconds,
            "peak_memory": peak_memory(self.where.device),
        }

    def _show(self, row: dict[str, Any]) -> None:
        for sink in self.sinks:
            sink.log(row)
        new = {"train_loss": row.get("train/loss"), "val_loss": row.get("val/loss"), "lr": row.get("lr"),
               "tokens_per_second": row.get("tokens_per_second")}  # fmt: skip
        self.progress = dataclasses.replace(self.progress, **{k: v for k, v in new.items() if v is not None})
        self._tell(self.state.seconds)

    def _tell(self, seconds: float) -> None:
        step = self.state.step
        left = seconds / step * (self.steps - step) if step else None
        self.progress = dataclasses.replace(self.progress, step=step, seconds=seconds, seconds_left=left)
        self._told = time.perf_counter()
        self.report(self.progress)


def _options(node: DictConfig) -> dict[str, Any]:
    """Options of a slot as plain values: lists are lists, as checkpoints need them."""
    return OmegaConf.to_container(node, resolve=True)  # type: ignore[return-value]
