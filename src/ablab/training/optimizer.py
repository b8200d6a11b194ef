"""Optimisers: what turns gradients into steps, and which parameters decay."""

from __future__ import annotations

import math
from collections.abc import Iterable
from typing import Any

import torch
from torch import nn

from ..errors import UsageError
from ..registry import register

#: devices on which torch fuses a whole AdamW step into one kernel
FUSED_ON = ("cpu", "cuda", "mps")


def parameter_groups(model: nn.Module) -> list[dict[str, Any]]:
    """Two groups: matrices, which decay, and the rest (gains, biases), which does not.

    Every trainable parameter is in exactly one group; a matrix shared by two modules is one parameter and
    comes once. A group without parameters is left out. The names are kept beside the parameters (`names`), so
    that a checkpoint can be checked and an optimiser can tell an embedding from a projection.
    """
    named = [(name, p) for name, p in model.named_parameters() if p.requires_grad]
    matrices = [(name, p) for name, p in named if p.ndim >= 2]
    vectors = [(name, p) for name, p in named if p.ndim < 2]
    groups: list[dict[str, Any]] = []
    if matrices:
        groups.append({"params": [p for _, p in matrices], "names": [name for name, _ in matrices]})
    if vectors:
        groups.append({"params": [p for _, p in vectors], "names": [n for n, _ in vectors], "weight_decay": 0.0})
    return groups


@register("optimizer", "adamw")
class AdamW(torch.optim.AdamW):
    """AdamW: Adam with decoupled weight decay (Loshchilov and Hutter 2019, algorithm 2).

    Args:
        parameter_groups: see `parameter_groups`; a group may set its own `weight_decay`.
        lr: peak learning rate, which the schedule scales.
        weight_decay: share of lr by which a matrix shrinks each step.
        betas: decay of the running means of gradient and squared gradient, both in [0, 1).
        eps: added to the root of the second moment.

    Raises:
        UsageError: a value out of its range.
    """

    def __init__(
        self,
        parameter_groups: Iterable[dict[str, Any]],
        *,
        lr: float = 1e-3,
        weight_decay: float = 0.1,
        betas: tuple[float, float] = (0.9, 0.95),
        eps: float = 1e-8,
    ) -> None:
        _check("lr", lr, 0 <= lr < math.inf, "a number >= 0")
        _check("weight_decay", weight_decay, 0 <= weight_decay < math.inf, "a number >= 0")
        _check("eps", eps, 0 < eps < math.inf, "a number > 0")
        pair = tuple(float(b) for b in betas)
        _check("betas", list(pair), len(pair) == 2 and all(0 <= b < 1 for b in pair), "two numbers in [0, 1)")
        groups = list(parameter_groups)
        kinds = {p.device.type for group in groups for p in group["params"]}
        super().__init__(
            groups,
            lr=float(lr),
            betas=(pair[0], pair[1]),
            eps=float(eps),
            weight_decay=float(weight_decay),
            fused=kinds.issubset(FUSED_ON),
        )


def _check(key: str, value: object, right: bool, rule: str) -> None:
    if not right:
        raise UsageError(f"optimizer.{key}={value}: must be {rule}")
