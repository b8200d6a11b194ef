"""Slot `block`: `(d_model, attn, ffn, make_norm, *, ...)`, one residual layer, (B, T, D) to (B, T, D).

`make_norm()` gives a new norm of width d_model. `final_norm` says whether the head wants a norm before it.
"""

from __future__ import annotations

from collections.abc import Callable

import torch.nn.functional as F
from torch import Tensor, nn

from ..registry import register
from .context import Cache, Context

Norm = Callable[[Tensor], Tensor]


class _Block(nn.Module):
    """The four parts of a layer, under the names that its state dict has."""

    def __init__(self, d_model: int, attn: nn.Module, ffn: nn.Module, make_norm: Callable[[], Norm]) -> None:
        super().__init__()
        self.ln1 = make_norm()
        self.attn = attn
        self.ln2 = make_norm()
        self.ffn = ffn


@register("block", "pre_norm")
class PreNorm(_Block):
    """x + f(norm(x)) (Xiong et al. 2020, arXiv:2002.04745)."""

    final_norm = True

    def forward(self, x: Tensor, context: Context, cache: Cache | None = None) -> Tensor:
        x = x + F.dropout(self.attn(self.ln1(x), context, cache), context.dropout)
        return x + F.dropout(self.ffn(self.ln2(x)), context.dropout)


@register("block", "post_norm")
class PostNorm(_Block):
    """norm(x + f(x)) (Vaswani et al. 2017, arXiv:1706.03762); the last layer ends with a norm of its own."""

    final_norm = False

    def forward(self, x: Tensor, context: Context, cache: Cache | None = None) -> Tensor:
        x = self.ln1(x + F.dropout(self.attn(x, context, cache), context.dropout))
        return self.ln2(x + F.dropout(self.ffn(x), context.dropout))
