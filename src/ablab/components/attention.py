"""Slot `attention`: `(d_model, n_heads, *, ...)`.

Called with x (B, T, D), the pass's `Context` and, when text is generated, this layer's `Cache`; gives
(B, T, D). `residual_projection` names the matrix that writes to the residual stream, which inits may
scale.
"""

from __future__ import annotations

import torch.nn.functional as F
from einops import rearrange
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register
from .context import Cache, Context


def attend(q: Tensor, k: Tensor, v: Tensor, mask: Tensor | None = None, dropout: float = 0.0) -> Tensor:
    """softmax(q k^T / sqrt(K) + mask) v for q (B, H, T, K), k and v (B, H, S, K).

    `mask` is boolean and broadcastable to (B, H, T, S), True = may attend. Without one attention is causal
    (which needs T = S), and a single query sees every key. A row that may attend to nothing gives zeros.
    """
    if mask is None:
        return F.scaled_dot_product_attention(q, k, v, dropout_p=dropout, is_causal=q.shape[2] > 1)
    some = mask.any(-1, keepdim=True)
    # Such rows look at everything for a moment, so that no NaN arises even in a gradient.
    y = F.scaled_dot_product_attention(q, k, v, attn_mask=mask | ~some, dropout_p=dropout)
    return y.masked_fill(~some, 0.0)


@register("attention", "mha")
class MultiHeadAttention(nn.Module):
    """Causal multi-head self-attention (Vaswani et al. 2017, arXiv:1706.03762), four D x D matrices."""

    residual_projection = "output_proj"

    def __init__(self, d_model: int, n_heads: int) -> None:
        super().__init__()
        if n_heads < 1 or d_model % n_heads:
            raise UsageError(f"model.d_model={d_model} must be a multiple of model.n_heads={n_heads}")
        self.n_heads = n_heads
        self.q_proj, self.k_proj, self.v_proj, self.output_proj = (
            nn.Linear(d_model, d_model, bias=False) for _ in range(4)
        )

    def forward(self, x: Tensor, context: Context, cache: Cache | None = None) -> Tensor:
        q, k, v = (
            rearrange(project(x), "b t (h k) -> b t h k", h=self.n_heads)
            for project in (self.q_proj, self.k_proj, self.v_proj)
        )
        q, k = context.position.rotate(q, k, context.tables)
        q, k, v = (rearrange(y, "b t h k -> b h t k") for y in (q, k, v))
        if cache is not None:
            k, v = cache.append(k, v)
        y = attend(q, k, v, context.mask, context.dropout)
        return self.output_proj(rearrange(y, "b h t k -> b t (h k)"))
