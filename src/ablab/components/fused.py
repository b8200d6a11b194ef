"""Derivatives written by hand for the CPU, where autograd's own passes over memory cost more than the arithmetic.

The functions are the plain ones; only the backward pass is shorter. They step aside where something else fuses better
(a compiler, a GPU) or must see plain operations (autocast, forward-mode and batched transforms).
"""

from __future__ import annotations

from typing import Any

import torch
from torch import Tensor
from torch.autograd.function import once_differentiable


def by_hand(x: Tensor) -> bool:
    """Whether the functions of this module are the better way for `x`."""
    return (
        x.device.type == "cpu"
        and x.dtype in (torch.float32, torch.float64)
        and not torch.compiler.is_compiling()
        and not torch.is_autocast_enabled("cpu")
        and not torch._C._are_functorch_transforms_active()
    )


class RMS(torch.autograd.Function):
    """x (..., D), weight (D) -> x / sqrt(mean(x^2) + eps) * weight."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, weight: Tensor, eps: float) -> Tensor:
        scale = torch.linalg.vecdot(x, x).unsqueeze(-1).div_(x.shape[-1]).add_(eps).rsqrt_()
        ctx.save_for_backward(x, weight, scale)
        return (x * scale).mul_(weight)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor | None, Tensor | None, None]:
        x, weight, scale = ctx.saved_tensors
        width = x.shape[-1]
        products = (gradient * x).reshape(-1, width)
        to_x = to_weight = None
        if ctx.needs_input_grad[1]:
            to_weight = (scale.view(1, -1) @ products).view(width)
        if ctx.needs_input_grad[0]:
            # x / rms changes along x, too: that part of the gradient goes.
            along = (products @ weight).view(scale.shape).mul_(scale.pow(3)).div_(width)
            to_x = (gradient * weight).mul_(scale).addcmul_(x, along, value=-1)
        return to_x, to_weight, None


class Turn(torch.autograd.Function):
    """x (..., K) of K/2 pairs, table (..., K/2) complex of absolute value 1 -> the pairs, turned."""

    @staticmethod
    def forward(ctx: Any, x: Tensor, table: Tensor) -> Tensor:
        ctx.save_for_backward(table)
        return _turn(x, table)

    @staticmethod
    @once_differentiable
    def backward(ctx: Any, gradient: Tensor) -> tuple[Tensor, None]:
        (table,) = ctx.saved_tensors
        return _turn(gradient, table.conj()), None


def _turn(x: Tensor, table: Tensor) -> Tensor:
    if x.stride(-1) != 1 or any(step % 2 for step in x.stride()[:-1]):
        x = x.contiguous()  # attention with dropout hands back transposed gradients, which no view makes pairs of
    pairs = torch.view_as_complex(x.unflatten(-1, (-1, 2)))
    return torch.view_as_real(pairs * table).flatten(-2)
