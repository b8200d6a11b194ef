"""Ablab as a run uses it: its own step with batches, hashes, schedule and meters."""

from __future__ import annotations

import tempfile
from contextlib import ExitStack
from pathlib import Path

import numpy as np
import torch

import ablab
from ablab.data import TokenData
from ablab.training import device, loop
from ablab.training.run import Run
from ablab.training.status import Status

from .sizes import ADAMW, CLIP, Setting

STEPS = 100_000
#: tokens of made-up text to train on
TOKENS = 2_000_000


class Vocabulary:
    """Stands in for a tokenizer: the data are random ids."""

    hash = "random"

    def __init__(self, size: int) -> None:
        self.vocab_size = size


class AblabRun:
    """A run between its first and its last step."""

    def __init__(self, setting: Setting, variant: tuple[str, ...] = ()) -> None:
        size, self._open = setting.size, ExitStack()
        cfg = ablab.compose(
            [
                f"model.d_model={size.width}", f"model.n_layers={size.layers}", f"model.n_heads={size.heads}",
                f"model.context_length={size.length}", f"model.ffn_width={size.hidden}", "tracker=none",
                f"train.steps={STEPS}", "train.eval_batch_size=16", f"train.batch_size={size.batch}", f"train.threads={setting.threads}",
                f"train.precision={setting.precision}", f"train.compile={setting.compile}",
                f"train.device={setting.device}", f"embedding={'tied' if size.tied else 'untied'}",
                f"train.grad_clip={CLIP}", f"optimizer.lr={ADAMW['lr']}",
                f"optimizer.weight_decay={ADAMW['weight_decay']}", *variant,
            ]
        )  # fmt: skip
        folder = Path(self._open.enter_context(tempfile.TemporaryDirectory(prefix="ablab-speed-")))
        ids = np.random.default_rng(0).integers(size.vocab, size=TOKENS).astype(np.uint16)
        val = ids[: 64 * size.length + 1]
        data = TokenData(
            train=ids, val=val, tokenizer=Vocabulary(size.vocab), hash="random", train_bytes=len(ids),
            val_bytes=len(val), unigram_entropy=float(np.log(size.vocab)), folder=folder, facts={"corpus": "random"},
        )  # type: ignore[arg-type]  # fmt: skip
        status = self._open.enter_context(Status(folder))
        where = self._open.enter_context(device.runtime(cfg.train.device, cfg.train.threads, cfg.train.precision))
        self.run = Run(cfg, folder, data, where, status, (), lambda progress: None)
        self._open.enter_context(device.compiled(self.run.model, cfg.train.compile))
        self._open.enter_context(device.quiet_gc())
        self.parameters = sum(p.numel() for p in self.run.parameters)

    def step(self) -> None:
        loop.take_step(self.run)

    def evaluate(self, sequences: int) -> None:
        self.run.evaluate(self.run.model)

    def loss(self) -> float:
        """Mean over the steps since the last time."""
        numbers, _ = self.run.meter.read()
        self.run.meter.restart()
        return numbers["train/loss"]

    def close(self) -> None:
        """Let go of the folder and the process settings."""
        self._open.close()


def make(setting: Setting) -> AblabRun:
    if setting.device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    return AblabRun(setting)
