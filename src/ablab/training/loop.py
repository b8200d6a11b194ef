"""The training loop: a run from its first step to its outcome, to be read from top to bottom."""

from __future__ import annotations

import gc
from collections.abc import Callable, Sequence
from contextlib import closing, nullcontext
from pathlib import Path

import torch
from omegaconf import DictConfig
from torch.nn.utils import clip_grads_with_norm_, get_total_norm

from ..data import TokenData, check_length
from ..errors import UsageError
from ..runfolder import CACHE
from ..tracking.sink import Sink
from .device import compiled, quiet_gc, runtime
from .divergence import diverged
from .outcome import Outcome, Progress
from .resume import find
from .run import Run, Sample
from .status import Status

Stop = Callable[[], str | None]

#: keys of `train` that are whole numbers from 1
COUNTS = ("steps", "batch_size", "grad_accum", "eval_batch_size", "log_every", "eval_every",
          "checkpoint_every", "threads")  # fmt: skip


def train(
    cfg: DictConfig,
    run_dir: Path,
    data: TokenData,
    sinks: Sequence[Sink] = (),
    stop: Stop = lambda: None,
    report: Callable[[Progress], None] = lambda progress: None,
    *,
    status: Status | None = None,
    sample: Sample | None = None,
    spare: int = 1,
) -> Outcome:
    """Train one run to its end, or on from its last checkpoint, and say how it ended.

    Writes metrics.jsonl and checkpoints/ in `run_dir` and hands every row to `sinks`, which the caller starts
    and finishes. Called again in the same folder it goes on where it was cut off, on a CPU bit for bit.

    Args:
        cfg: resolved config with train.steps set.
        data: the prepared corpus.
        stop: asked at every step and every batch of an evaluation; a text is the reason to save and to return
            `interrupted`.
        report: called with every row, and about once a second in between.
        status: the run's status.json, where the caller keeps it open and writes the final state. Without it
            train does both.
        spare: for every thread of train.threads so many cores that nothing else uses; evaluation takes them, too, and
            its numbers stay the same.
        sample: writes a text with the trained model, which the sinks show; it may not touch the random state.

    Raises:
        UsageError: config out of range, data too short, or a checkpoint of another run.
        CheckpointError: a checkpoint cannot be written.
    """
    # 1. Check all that can be checked before anything is built or written.
    check_train(cfg)
    check_length(data, cfg.model.context_length)
    found = find(cfg, Path(run_dir), data.hash)
    with (
        Status(run_dir) if status is None else nullcontext(status) as current,
        runtime(cfg.train.device, cfg.train.threads, cfg.train.precision) as where,
    ):
        # 2. Build the parts; weights, data order and dropout each have a generator of their own.
        run = Run(cfg, Path(run_dir), data, where, current, sinks, report, sample, spare)
        # 3. Take over a checkpoint: this run's own, else the one that train.resume_from names.
        run.restore(found)
        # 4. Train.
        cache = Path(cfg.runs_dir).expanduser() / CACHE / "compiled"
        with closing(run.metrics), closing(run.gradients), compiled(run.model, cfg.train.compile, cache), quiet_gc():
            outcome = _loop(run, stop)
        # 5. The end, unless the caller says it.
        if status is None:
            current.finish(outcome)
        return outcome


def check_train(cfg: DictConfig) -> None:
    """UsageError unless every number of `train` is usable."""
    t = cfg.train
    for key in COUNTS:
        value = t[key]
        if not isinstance(value, int) or isinstance(value, bool) or value < 1:
            raise UsageError(f"train.{key}={value}: must be a whole number >= 1")
    if t.grad_clip is not None and not t.grad_clip >= 0:
        raise UsageError(f"train.grad_clip={t.grad_clip}: must be a number >= 0; null or 0: no clipping")


def _loop(run: Run, stop: Stop) -> Outcome:
    s, every = run.state, run.cfg.train
    run.restart_clock()
    while True:
        last = s.step >= run.steps
        logs = s.step > 0 and (last or s.step % every.log_every == 0)
        evaluates = last or s.step % every.eval_every == 0
        saves = last or s.step % every.checkpoint_every == 0
        if logs or evaluates or saves:
            # 1. Look at the steps since the last time. Only here does the host wait for the device.
            numbers, bad_step = run.look()
            trouble = "loss or gradient is not finite" if bad_step else None
            if not s.settled:
                # 2. Evaluate on the whole validation split, unless the run is broken already.
                result = None
                if evaluates and not bad_step:
                    result = run.evaluate(run.model, stop)
                    run.restart_clock()
                    if result is None:  # stopped in the middle: the resumed run evaluates again
                        return run.interrupt(stop() or "stopped")
                    warm = s.step > run.schedule.warmup_steps
                    trouble = diverged(result.loss, s.first_loss, run.data.vocab_size, warm)
                # 3. One row holds all that is known at this step.
                if logs or evaluates or bad_step:
                    run.write_row(numbers if logs or bad_step else None, result)
                if result is not None and trouble is None:
                    run.note(result)
                s.settled = True
            # 4. Save, but nothing that is not finite and nothing that went wrong.
            if trouble is None and saves and not run.save():
                trouble = "weights are not finite"
            if trouble is not None:
                return run.diverge(bad_step or s.step, trouble)
            gc.collect()
            run.restart_clock()
        # 5. The end?
        if last:
            return run.finish()
        if reason := stop():
            return run.interrupt(reason)
        # 6. One optimiser step.
        take_step(run)
        run.tell()


def take_step(run: Run) -> None:
    """One optimiser step over train.grad_accum micro-batches; nothing in it waits for the device."""
    s = run.state
    batch = run.feed.take(s.step, s.batch_hash)
    # 1. The rate of this step. A run made longer never goes back above the rate of the step before.
    scale = run.schedule.scale(s.step)
    if s.longer and s.scale is not None:
        scale = min(scale, s.scale)
    for group in run.optimizer.param_groups:
        group["lr"] = group["peak"] * scale
    # 2. Gradients. Each token weighs the same in whatever micro-batch it is: one division by the targets of the step.
    total = torch.zeros((), device=run.where.device)
    for x, y in zip(batch.x, batch.y, strict=True):
        total += run.gradients.add(x, y, batch.targets)
    # 3. The norm of the whole gradient, taken before clipping.
    norm = get_total_norm([p.grad for p in run.parameters if p.grad is not None])
    if run.clip is not None:
        clip_grads_with_norm_(run.parameters, run.clip, norm)
    # 4. The step.
    run.optimizer.step()
    run.optimizer.zero_grad(set_to_none=True)
    s.step, s.settled, s.scale, s.batch_hash = s.step + 1, False, scale, batch.hash
    run.meter.add(s.step, total, batch.targets, norm, run.clip)
    run.status.update(step=s.step, batch_hash=s.batch_hash)
    # 5. The next batch, while the device is busy with this one.
    if s.step < run.steps:
        run.feed.prepare(s.step, s.batch_hash)
