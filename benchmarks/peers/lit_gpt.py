"""litgpt's GPT, set up as a Llama."""

from __future__ import annotations

import torch
from litgpt.config import Config
from litgpt.model import GPT

from .plain import PlainLoop
from .sizes import Setting


def make(setting: Setting) -> PlainLoop:
    torch.manual_seed(0)
    size = setting.size
    config = Config(
        block_size=size.length, vocab_size=size.vocab, padded_vocab_size=size.vocab, n_layer=size.layers,
        n_head=size.heads, n_embd=size.width, rotary_percentage=1.0, parallel_residual=False, bias=False,
        norm_class_name="RMSNorm", norm_eps=1e-5, mlp_class_name="LLaMAMLP", intermediate_size=size.hidden,
    )  # fmt: skip
    model = GPT(config)
    if size.tied:
        model.lm_head.weight = model.transformer.wte.weight
    return PlainLoop(model, setting, lambda call, ids: call(ids))
