"""Llama of Hugging Face transformers, from a config."""

from __future__ import annotations

import torch
from transformers import LlamaConfig, LlamaForCausalLM

from .plain import PlainLoop
from .sizes import Setting


def make(setting: Setting) -> PlainLoop:
    torch.manual_seed(0)
    size = setting.size
    config = LlamaConfig(
        vocab_size=size.vocab, hidden_size=size.width, intermediate_size=size.hidden, num_hidden_layers=size.layers,
        num_attention_heads=size.heads, max_position_embeddings=size.length, rms_norm_eps=1e-5, use_cache=False,
        tie_word_embeddings=size.tied, attn_implementation="sdpa", pad_token_id=None, bos_token_id=None,
        eos_token_id=None,
    )  # fmt: skip
    return PlainLoop(LlamaForCausalLM(config), setting, lambda model, ids: model(input_ids=ids).logits)
