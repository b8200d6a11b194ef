"""Slot `norm`: `(d_model, *, ...)`, maps (..., D) to (..., D).

Statistics are taken in float32 or wider, whatever the input's dtype; the result has the input's dtype.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register
from .dtype import wide
from .fused import RMS, by_hand


def _positive(eps: float) -> float:
    if not 0 < eps < float("inf"):
        raise UsageError(f"norm.eps must be a positive number, not {eps}")
    return float(eps)


@register("norm", "rms")
class RMSNorm(nn.Module):
    """x / sqrt(mean(x^2) + eps) * weight, over the last axis (Zhang & Sennrich 2019, arXiv:1910.07467).

    `eps` stands inside the root. weight (D) starts at 1.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = _positive(eps)
        self.weight = nn.Parameter(torch.ones(d_model))

    def forward(self, x: Tensor) -> Tensor:
        if by_hand(x):
            return RMS.apply(x, self.weight, self.eps)
        y = wide(x)
        return F.rms_norm(y, self.weight.shape, self.weight.to(y.dtype), self.eps).to(x.dtype)


@register("norm", "layer")
class LayerNorm(nn.Module):
    """(x - mean) / sqrt(var + eps) * weight + bias, over the last axis (Ba et al. 2016, arXiv:1607.06450).

    `var` is the biased variance. weight (D) starts at 1, bias (D) at 0.
    """

    def __init__(self, d_model: int, *, eps: float = 1e-5) -> None:
        super().__init__()
        self.eps = _positive(eps)
        self.weight = nn.Parameter(torch.ones(d_model))
        self.bias = nn.Parameter(torch.zeros(d_model))

    def forward(self, x: Tensor) -> Tensor:
        y = wide(x)
        weight, bias = self.weight.to(y.dtype), self.bias.to(y.dtype)
        return F.layer_norm(y, weight.shape, weight, bias, self.eps).to(x.dtype)


@register("norm", "identity")
class Identity:
    """No normalisation. Not a module: nothing of a norm is left in the model, its final one included."""

    def __init__(self, d_model: int) -> None:
        del d_model  # every norm is called with it

    def __call__(self, x: Tensor) -> Tensor:
        return x
