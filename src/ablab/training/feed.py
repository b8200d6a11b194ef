"""Batches on their way to the device, one step ahead."""

from __future__ import annotations

from dataclasses import dataclass

import torch

from ..data import Batches, batch_hash
from ..data.windows import IGNORE
from .device import Runtime


@dataclass(frozen=True)
class Step:
    """What one optimiser step trains on.

    Attributes:
        x, y: ids and targets on the device, (grad_accum, batch_size, context_length) int64; -100 is no
        target. targets: how many targets there are in the whole step.
        hash: running hash of everything trained on up to and including this step.
    """

    x: torch.Tensor
    y: torch.Tensor
    targets: int
    hash: str


class Feed:
    """Hands out steps in order; `prepare` gets the next one ready while the device is still busy with this one.

    On CUDA the host only launches work, so what it does between launching a step and asking for the next is
    free: no thread is needed. The hash goes along with its step and counts only once that step is taken.
    """

    def __init__(self, batches: Batches, grad_accum: int, runtime: Runtime) -> None:
        self._batches, self._accum, self._runtime = batches, grad_accum, runtime
        self._ready: tuple[int, str, Step] | None = None

    def take(self, step: int, so_far: str) -> Step:
        """Step number `step` (0-based), after data whose running hash is `so_far`."""
        ready, self._ready = self._ready, None
        if ready is not None and ready[:2] == (step, so_far):
            return ready[2]
        return self._make(step, so_far)

    def prepare(self, step: int, so_far: str) -> None:
        """Get a step ready before it is asked for."""
        self._ready = (step, so_far, self._make(step, so_far))

    def _make(self, step: int, so_far: str) -> Step:
        x, y = self._batches.step(step)
        shape = (self._accum, len(x) // self._accum, x.shape[1])
        return Step(
            self._runtime.move(torch.from_numpy(x).view(shape)),
            self._runtime.move(torch.from_numpy(y).view(shape)),
            int((y != IGNORE).sum()),
            batch_hash(so_far, x, y),
        )
