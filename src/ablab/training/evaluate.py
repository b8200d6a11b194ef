"""Loss on the whole validation split: the number that decides."""

from __future__ import annotations

import math
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from functools import partial

import numpy as np
import torch
from torch import nn

from ..data.windows import IGNORE, EvalWindows
from .device import Runtime


@dataclass(frozen=True)
class Evaluation:
    """Result of one evaluation: nats per token, and the same in bits per byte of the text."""

    loss: float
    bits_per_byte: float

    @property
    def perplexity(self) -> float:
        """exp(loss); infinite where that is beyond a float."""
        try:
            return math.exp(self.loss)
        except OverflowError:
            return math.inf

    def row(self) -> dict[str, float]:
        """The three numbers under their names in metrics.jsonl."""
        return {
            "val/loss": self.loss,
            "val/bits_per_byte": self.bits_per_byte,
            "val/perplexity": self.perplexity,
        }


class Evaluator:
    """Evaluates a model on fixed windows that cover each validation token after the first once.

    Every token weighs the same, whatever batch it falls into, so the batch size changes no more than the
    order of a float64 sum. Dropout is off and no random number is drawn: training goes on as if nothing had happened.

    Args:
        windows: of the validation split.
        batch_size: largest number of windows per forward pass.
        tokens_per_byte: of the validation text; turns nats per token into bits per byte.
        crew: batches at a time on a CPU, each on `threads` threads; 1: one after another on all threads of the run.
    """

    def __init__(
        self,
        windows: EvalWindows,
        batch_size: int,
        tokens_per_byte: float,
        runtime: Runtime,
        crew: int = 1,
        threads: int = 1,
    ) -> None:
        self._crew, self._threads = crew, threads
        batches = math.ceil(len(windows) / batch_size)
        self._windows, self._runtime, self._tokens_per_byte = windows, runtime, tokens_per_byte
        self._size = math.ceil(len(windows) / batches)  # even sizes, so that there is one shape to compile
        self._starts = range(0, len(windows), self._size)

    def __call__(self, model: nn.Module, stop: Callable[[], str | None] = lambda: None) -> Evaluation | None:
        """Evaluate; None if `stop()` gave a reason before the end. The model's mode is left as found."""
        total = torch.zeros((), dtype=self._runtime.sums, device=self._runtime.device)
        targets = 0
        was_training = model.training
        model.eval()
        try:
            for part, count in self._losses(model):
                if stop():
                    return None
                total += part
                targets += count
        finally:
            model.train(was_training)
        loss = float(total) / targets
        return Evaluation(loss, loss * self._tokens_per_byte / math.log(2))

    def _losses(self, model: nn.Module) -> Iterator[tuple[torch.Tensor, int]]:
        """Sum of losses and number of targets of every batch, in order."""
        if self._crew < 2:
            for start in self._starts:
                yield self._loss(model, start)
            return
        pool = ThreadPoolExecutor(self._crew, "evaluation", partial(torch.set_num_threads, self._threads))
        try:
            yield from pool.map(partial(self._loss, model), self._starts)
        finally:
            pool.shutdown(cancel_futures=True)

    def _loss(self, model: nn.Module, start: int) -> tuple[torch.Tensor, int]:
        x, y = self._batch(start)
        with torch.inference_mode(), self._runtime.autocast():
            loss, _ = model.loss(self._move(x), self._move(y))  # type: ignore[operator]
        return loss, int((y != IGNORE).sum())

    def _batch(self, start: int) -> tuple[np.ndarray, np.ndarray]:
        """Windows from `start` on; the last batch is filled up with windows that do not count."""
        x, y = self._windows[start : start + self._size]
        missing = self._size - len(x)
        if missing:
            x = np.concatenate([x, np.repeat(x[:1], missing, axis=0)])
            y = np.concatenate([y, np.full((missing, y.shape[1]), IGNORE)])
        return x, y

    def _move(self, array: np.ndarray) -> torch.Tensor:
        return self._runtime.move(torch.from_numpy(array))
