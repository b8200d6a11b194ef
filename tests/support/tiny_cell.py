"""A cell so small that training it takes a tenth of a second, and what tests ask of it."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch.optim.optimizer import register_optimizer_step_post_hook

from ablab.data import TokenData
from ablab.runfolder import read_metrics
from ablab.training import Outcome, train

TINY = (
    "train.device=cpu model.d_model=32 model.n_layers=2 model.n_heads=2 model.context_length=16 data=text "
    "train.batch_size=2 train.steps=6 train.log_every=2 train.eval_every=3 train.checkpoint_every=3 "
    "train.eval_batch_size=8 optimizer.lr=1e-3 seed=1 tracker=none"
)
#: columns that hold wall-clock time: the only ones that may differ between two equal runs
TIMED = {"seconds", "tokens_per_second"}


class Killed(BaseException):
    """Ends a run as a kill does: nothing that it would save is saved."""


class Cell:
    """Configs, data and runs of the tiny cell."""

    def __init__(self, base: DictConfig, data: TokenData, folder: Path) -> None:
        self.base, self.data, self.folder = base, data, folder

    def cfg(self, **changes: Any) -> DictConfig:
        """The tiny config with changes, e.g. `cfg(train__steps=12, choices__norm="layer")`."""
        cfg = self.base.copy()
        for key, value in changes.items():
            OmegaConf.update(cfg, key.replace("__", "."), value, merge=False)
        return cfg

    def train(self, name: str, cfg: DictConfig | None = None, **options: Any) -> Outcome:
        """Train in the folder `name`."""
        return train(self.cfg() if cfg is None else cfg, self.folder / name, options.pop("data", self.data), **options)

    def rows(self, name: str) -> list[dict[str, Any]]:
        """Rows of metrics.jsonl without the columns of time."""
        return [{k: v for k, v in row.items() if k not in TIMED} for row in read_metrics(self.folder / name)]

    def last(self, name: str, file: str = "last.pt") -> dict[str, Any]:
        """A checkpoint, loaded as outsiders would."""
        return torch.load(self.folder / name / "checkpoints" / file, weights_only=True)

    def state(self, name: str) -> dict[str, Any]:
        """last.pt without its clocks: equal to the last bit in two equal runs."""
        return {k: v for k, v in self.last(name).items() if k not in ("seconds", "line_seconds")}

    def status(self, name: str) -> dict[str, Any]:
        """status.json."""
        return json.loads((self.folder / name / "status.json").read_text())

    def files(self, name: str) -> set[str]:
        """Names in checkpoints/."""
        return {p.name for p in (self.folder / name / "checkpoints").iterdir()}


def poison(value: float) -> Callable[[torch.optim.Optimizer], None]:
    """An action that fills every weight with `value`."""

    def fill(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.data.fill_(value)

    return fill


@contextmanager
def after(steps: int, action: Callable[[torch.optim.Optimizer], None]) -> Iterator[None]:
    """Call `action(optimizer)` right after the given number of optimiser steps from now."""
    count = 0

    def hook(optimizer: torch.optim.Optimizer, args: object, kwargs: object) -> None:
        nonlocal count
        count += 1
        if count == steps:
            action(optimizer)

    handle = register_optimizer_step_post_hook(hook)
    try:
        yield
    finally:
        handle.remove()


def kill(optimizer: torch.optim.Optimizer) -> None:
    """An action that ends the run on the spot."""
    raise Killed


def same(a: Any, b: Any) -> bool:
    """Whether two nested values are equal to the last bit, tensors included."""
    if isinstance(a, torch.Tensor):
        return isinstance(b, torch.Tensor) and a.dtype == b.dtype and torch.equal(a, b)
    if isinstance(a, dict):
        return isinstance(b, dict) and a.keys() == b.keys() and all(same(a[k], b[k]) for k in a)
    if isinstance(a, (list, tuple)):
        return len(a) == len(b) and all(same(x, y) for x, y in zip(a, b, strict=True))
    return a == b
