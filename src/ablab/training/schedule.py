"""Learning-rate schedules: the share of the peak rate at each step.

A schedule is built with the number of steps of the run and answers `scale(step)` for the step about to be
taken, counted from 0. `warmup_steps` says after how many steps its warm-up is over.
"""

from __future__ import annotations

import logging
import math
from typing import Protocol

from ..errors import UsageError
from ..registry import register

log = logging.getLogger(__name__)


class Schedule(Protocol):
    """What the training loop asks of a schedule."""

    warmup_steps: int

    def scale(self, step: int) -> float:
        """Multiplier of the peak rate for step `step` (0-based)."""


@register("schedule", "cosine")
class Cosine:
    """Linear warm-up, then half a cosine that reaches `min_lr_ratio` exactly at the last step.

    Step i of the warm-up runs at (i + 1) / warmup_steps, so that no step is wasted at rate 0 and the first
    step after it starts the descent from 1 (Loshchilov and Hutter 2017, equation 5, without restarts).

    Args:
        steps: optimiser steps of the run.
        warmup_steps: steps of the warm-up; null: a tenth of the run. One as long as the run is cut to steps - 1,
            which is said in the log.
        min_lr_ratio: share of the peak at the last step, in [0, 1].

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(self, steps: int, *, warmup_steps: int | None = None, min_lr_ratio: float = 0.1) -> None:
        if steps < 1:
            raise UsageError(f"train.steps={steps}: must be at least 1")
        if not 0 <= min_lr_ratio <= 1:
            raise UsageError(f"schedule.min_lr_ratio={min_lr_ratio}: must be in [0, 1]")
        wanted = steps // 10 if warmup_steps is None else warmup_steps
        if wanted < 0 or wanted != int(wanted):
            raise UsageError(f"schedule.warmup_steps={warmup_steps}: must be null or a whole number >= 0")
        self.warmup_steps = min(int(wanted), steps - 1)
        if self.warmup_steps < wanted:
            log.warning("schedule.warmup_steps=%s is as long as the run: cut to %s", wanted, self.warmup_steps)
        self.min_lr_ratio = float(min_lr_ratio)
        self._last = steps - 1
        self._peak = max(self.warmup_steps - 1, 0)

    def scale(self, step: int) -> float:
        """Multiplier of the peak rate for step `step` (0-based); it stays at the minimum after the last step."""
        if step >= self._last:
            return self.min_lr_ratio
        if step < self.warmup_steps:
            return (step + 1) / self.warmup_steps
        done = (step - self._peak) / (self._last - self._peak)
        return self.min_lr_ratio + (1 - self.min_lr_ratio) * 0.5 * (1 + math.cos(math.pi * done))
