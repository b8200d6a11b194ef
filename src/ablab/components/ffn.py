"""Slot `ffn`: `(d_model, *, d_ff=None, ...)`, maps (B, T, D) to (B, T, D).

The model always passes `d_ff`: by default the width at which the class has as many parameters as every other
option (`matched_width`). `residual_projection` names the matrix that writes to the residual stream.
"""

from __future__ import annotations

import math

import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register


def base_width(d_model: int) -> int:
    """W: 8/3 D rounded up to a multiple of min(64, D/2). Every FFN is given 3 D W parameters."""
    step = max(1, min(64, d_model // 2))
    return math.ceil(8 * d_model / (3 * step)) * step


def _width(d_ff: int | None, default: int) -> int:
    if d_ff is None:
        return default
    if isinstance(d_ff, bool) or int(d_ff) != d_ff or d_ff < 1:
        raise UsageError(f"ffn.d_ff must be a positive integer, not {d_ff}")
    return int(d_ff)


@register("ffn", "swiglu")
class SwiGLU(nn.Module):
    """w2(silu(w1 x) * w3 x), three matrices without bias (Shazeer 2020, arXiv:2002.05202)."""

    residual_projection = "w2"

    def __init__(self, d_model: int, *, d_ff: int | None = None) -> None:
        super().__init__()
        width = _width(d_ff, base_width(d_model))
        self.w1 = nn.Linear(d_model, width, bias=False)
        self.w2 = nn.Linear(width, d_model, bias=False)
        self.w3 = nn.Linear(d_model, width, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.silu(self.w1(x)) * self.w3(x))


@register("ffn", "relu")
class ReLU(nn.Module):
    """w2(relu(w1 x)), two matrices without bias (Vaswani et al. 2017, arXiv:1706.03762)."""

    residual_projection = "w2"

    def __init__(self, d_model: int, *, d_ff: int | None = None) -> None:
        super().__init__()
        width = _width(d_ff, 3 * base_width(d_model) // 2)
        self.w1 = nn.Linear(d_model, width, bias=False)
        self.w2 = nn.Linear(width, d_model, bias=False)

    def forward(self, x: Tensor) -> Tensor:
        return self.w2(F.relu(self.w1(x)))
