"""x-transformers' decoder with rotary positions, RMSNorm and SwiGLU (whose gate keeps a bias)."""

from __future__ import annotations

import torch
from x_transformers import Decoder, TransformerWrapper

from .plain import PlainLoop
from .sizes import Setting


def make(setting: Setting) -> PlainLoop:
    torch.manual_seed(0)
    size = setting.size
    layers = Decoder(
        dim=size.width, depth=size.layers, heads=size.heads, attn_dim_head=size.width // size.heads,
        rotary_pos_emb=True, rotary_emb_dim=size.width // size.heads, attn_flash=True, use_rmsnorm=True, ff_swish=True,
        ff_glu=True, ff_mult=size.hidden / size.width, ff_no_bias=True,
    )  # fmt: skip
    model = TransformerWrapper(
        num_tokens=size.vocab, max_seq_len=size.length, use_abs_pos_emb=False, attn_layers=layers,
        tie_embedding=size.tied,
    )  # fmt: skip
    return PlainLoop(model, setting, lambda call, ids: call(ids))
