"""A run's length: every budget becomes a number of optimiser steps when the study is planned."""

from __future__ import annotations

import math
from typing import Any

from omegaconf import DictConfig

from ..errors import UsageError
from ..schema import BUDGETS


def tokens_per_step(cfg: DictConfig) -> int:
    """Training tokens of one optimiser step."""
    return int(cfg.train.batch_size * cfg.train.grad_accum * cfg.model.context_length)


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
