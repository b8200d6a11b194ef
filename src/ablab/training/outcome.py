"""How a run ended, and how far it is: the two things that training tells its caller."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outcome:
    """End of a run.

    Attributes:
        state: finished, diverged, interrupted, or (by whoever runs the cell) failed.
        step: optimiser steps done; of a diverged run the step at which it diverged.
        reason: why, in a few words; None for a finished run.
        summary: final numbers under the names of metrics.jsonl (`val/loss`, `best/val_loss`, ...).
    """

    state: str
    step: int
    reason: str | None = None
    summary: Mapping[str, object] = field(default_factory=dict)


@dataclass(frozen=True)
class Progress:
    """State of a run for a progress line; numbers that are not known yet are None.

    Attributes:
        step, steps: optimiser steps done and planned.
        train_loss, val_loss: latest logged, in nats per token.
        lr: learning rate of the last step.
        tokens_per_second: over the last logged interval.
        seconds: training time so far, without evaluation.
        seconds_left: estimate for the remaining steps.
    """

    step: int
    steps: int
    train_loss: float | None
    val_loss: float | None
    lr: float | None
    tokens_per_second: float | None
    seconds: float
    seconds_left: float | None
