"""A run's length: every budget becomes a number of optimiser steps when the study is planned."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

from omegaconf import DictConfig

from ..errors import UsageError
from ..schema import BUDGETS

#: epochs over the text from which on memorising shows in the validation loss (Muennighoff et al. 2023: about 4)
MANY_EPOCHS = 4.0


def tokens_per_step(cfg: DictConfig) -> int:
    """Training tokens of one optimiser step."""
    return int(cfg.train.batch_size * cfg.train.grad_accum * cfg.model.context_length)


def tokens(cfg: DictConfig) -> int:
    """Training tokens of a whole run with train.steps set."""
    return tokens_per_step(cfg) * int(cfg.train.steps)


def repeats(epochs: float) -> list[str]:
    """A warning where the text is gone over so often that the model may memorise it."""
    if epochs <= MANY_EPOCHS:
        return []
    return [
        f"the text is seen {epochs:.1f} times; beyond about {MANY_EPOCHS:g} epochs a model memorises what it trains on"
    ]


def span(values: Sequence[float], digits: int = 2) -> str:
    """`1.55`, or `1.55 to 1.61` where they differ in what is shown."""
    low, high = f"{min(values):.{digits}f}", f"{max(values):.{digits}f}"
    return low if low == high else f"{low} to {high}"


def steps(cfg: DictConfig, costs: dict[str, Any], seconds_per_step: float | None = None) -> int:
    """Optimiser steps that the config's budget buys, at least one.

    Args:
        costs: of the model: `non_embedding` parameters and `flops_per_token`.
        seconds_per_step: measured on this machine; needed by `train.minutes` only.

    Raises:
        UsageError: the budget is too small for one step.
    """
    train = cfg.train
    if train.steps is not None:
        return int(train.steps)
    per_step = tokens_per_step(cfg)
    if train.tokens is not None:
        count = train.tokens / per_step
    elif train.tokens_per_parameter is not None:
        count = train.tokens_per_parameter * costs["non_embedding"] / per_step
    elif train.flops is not None:
        count = train.flops / (costs["flops_per_token"] * per_step)
    else:
        if seconds_per_step is None:
            raise UsageError("train.minutes needs a measured speed")
        count = 60 * train.minutes / seconds_per_step
    whole = math.floor(count + 1e-9)
    if whole < 1:
        key = next(b for b in BUDGETS[1:] if train[b] is not None)
        raise UsageError(f"train.{key}={train[key]:g} is less than one step of {per_step} tokens")
    return whole
