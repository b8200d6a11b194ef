"""The model against other people's models, built from a config with random weights."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import pytest
import torch
import torch.nn.functional as F
from components.cells import config
from torch import Tensor, nn
from transformers import (
    HeliumConfig,
    HeliumForCausalLM,
    LlamaConfig,
    LlamaForCausalLM,
    OPTConfig,
    OPTForCausalLM,
    SmolLM3Config,
    SmolLM3ForCausalLM,
    Starcoder2Config,
    Starcoder2ForCausalLM,
)

from ablab import build_model

VOCAB, WIDTH, LAYERS, HEADS, LENGTH, HIDDEN = 61, 48, 3, 4, 24, 80
SIZES = {
    "vocab_size": VOCAB,
    "hidden_size": WIDTH,
    "num_hidden_layers": LAYERS,
    "num_attention_heads": HEADS,
    "max_position_embeddings": LENGTH,
    "pad_token_id": None,
    "bos_token_id": None,
    "eos_token_id": None,
}
MODERN = SIZES | {"num_key_value_heads": HEADS, "intermediate_size": HIDDEN, "initializer_range": 0.15}
ATTENTION = {"q_proj": "self_attn.q_proj", "k_proj": "self_attn.k_proj", "v_proj": "self_attn.v_proj"}


@dataclass(frozen=True)
class Peer:
    """Someone else's model and how its parameters are called here."""

    make: Callable[[bool], nn.Module]
    root: str
    layer: dict[str, str]  # ours within layers.i -> theirs
    outer: dict[str, str]
    choices: dict[str, str]
    halves: bool = False  # rotates (i, i + K/2) instead of (2i, 2i + 1)


def llama(tied: bool) -> nn.Module:
    return LlamaForCausalLM(LlamaConfig(**MODERN, rms_norm_eps=1e-5, tie_word_embeddings=tied))


def helium(tied: bool) -> nn.Module:
    return HeliumForCausalLM(
        HeliumConfig(**MODERN, head_dim=WIDTH // HEADS, rms_norm_eps=1e-5, tie_word_embeddings=tied)
    )


def smollm3(tied: bool) -> nn.Module:
    layers = {"no_rope_layers": [0] * LAYERS, "no_rope_layer_interval": 1, "use_sliding_window": False}
    return SmolLM3ForCausalLM(SmolLM3Config(**MODERN, **layers, rms_norm_eps=1e-5, tie_word_embeddings=tied))


def starcoder2(tied: bool) -> nn.Module:
    options = {"hidden_act": "relu", "use_bias": False, "norm_epsilon": 1e-5, "sliding_window": None}
    dropout = dict.fromkeys(("attention_dropout", "residual_dropout", "embedding_dropout"), 0.0)
    return Starcoder2ForCausalLM(Starcoder2Config(**MODERN, **options, **dropout, tie_word_embeddings=tied))


def opt(tied: bool) -> nn.Module:
    model = OPTForCausalLM(
        OPTConfig(
            **SIZES,
            ffn_dim=HIDDEN,
            word_embed_proj_dim=WIDTH,
            do_layer_norm_before=False,
            activation_function="relu",
            enable_bias=False,
            dropout=0.0,
            attention_dropout=0.0,
            layerdrop=0.0,
            init_std=0.15,
            tie_word_embeddings=tied,
        )
    )
    # its learned positions, silenced, leave no position information
    nn.init.zeros_(model.model.decoder.embed_positions.weight).requires_grad_(False)
    return model


OUTER = {"token_embeddings": "embed_tokens", "ln_final": "norm", "lm_head": "lm_head"}
PRE = {"ln1": "input_layernorm", "ln2": "post_attention_layernorm", **{f"attn.{a}": b for a, b in ATTENTION.items()}}
GATED = {"ffn.w1": "mlp.gate_proj", "ffn.w2": "mlp.down_proj", "ffn.w3": "mlp.up_proj"}
O_PROJ = {"attn.output_proj": "self_attn.o_proj"}
PEERS = {
    "llama": Peer(llama, "model", PRE | O_PROJ | GATED, OUTER, {}, halves=True),
    "helium": Peer(helium, "model", PRE | O_PROJ | GATED, OUTER, {}),
    "smollm3": Peer(smollm3, "model", PRE | O_PROJ | GATED, OUTER, {"position": "none"}),
    "starcoder2": Peer(
        starcoder2,
        "model",
        PRE | O_PROJ | {"ffn.w1": "mlp.c_fc", "ffn.w2": "mlp.c_proj"},
        OUTER,
        {"norm": "layer", "ffn": "relu"},
        halves=True,
    ),
    "opt": Peer(
        opt,
        "model.decoder",
        {f"attn.{a}": b for a, b in ATTENTION.items()}
        | {"attn.output_proj": "self_attn.out_proj", "ffn.w1": "fc1", "ffn.w2": "fc2"}
        | {"ln1": "self_attn_layer_norm", "ln2": "final_layer_norm"},
        {"token_embeddings": "embed_tokens", "lm_head": "lm_head"},
        {"norm": "layer", "block": "post_norm", "ffn": "relu", "position": "none"},
    ),
}


def their_name(peer: Peer, ours: str) -> str:
    module, leaf = ours.rsplit(".", 1)
    if module.startswith("layers."):
        _, i, part = module.split(".", 2)
        return f"{peer.root}.layers.{i}.{peer.layer[part]}.{leaf}"
    return f"lm_head.{leaf}" if module == "lm_head" else f"{peer.root}.{peer.outer[module]}.{leaf}"


def in_our_order(peer: Peer, name: str, w: Tensor) -> Tensor:
    """Rows of q and k from half-split to interleaved pairs."""
    if not peer.halves or not name.endswith(("q_proj.weight", "k_proj.weight")):
        return w
    return w.view(HEADS, 2, WIDTH // HEADS // 2, -1).transpose(1, 2).reshape(w.shape)


def pair(label: str, tied: bool) -> tuple[nn.Module, nn.Module, Callable[[Callable[[Tensor], Any]], dict[str, Tensor]]]:
    """Their model, ours with the same weights, and a reader of theirs under our names."""
    peer = PEERS[label]
    torch.manual_seed(0)
    theirs: Any = peer.make(tied).train()
    for name, p in theirs.named_parameters():
        if "norm" in name:
            nn.init.normal_(p, 1.0 if name.endswith("weight") else 0.0, 0.2)
    theta = (getattr(theirs.config, "rope_parameters", None) or {}).get("rope_theta", 10000.0)
    cfg = config(
        d_model=WIDTH,
        n_layers=LAYERS,
        n_heads=HEADS,
        context_length=LENGTH,
        embedding="tied" if tied else "untied",
        **peer.choices,
    )
    cfg.ffn = {"d_ff": HIDDEN}
    if cfg.choices.position == "rope":
        cfg.position = {"theta": float(getattr(theirs.config, "rope_theta", theta))}
    ours = build_model(cfg, VOCAB)
    parameters = dict(theirs.named_parameters())

    def read(of: Callable[[Tensor], Any]) -> dict[str, Tensor]:
        names = [n for n, _ in ours.named_parameters()]
        return {n: in_our_order(peer, n, of(parameters[their_name(peer, n)])) for n in names}

    trained = sum(p.numel() for p in parameters.values() if p.requires_grad)
    assert trained == sum(p.numel() for p in ours.parameters())
    ours.load_state_dict(read(lambda p: p.detach()))
    return theirs, ours.train(), read


def batch(step: int = 0) -> tuple[Tensor, Tensor]:
    tokens = torch.randint(VOCAB, (3, LENGTH + 1), generator=torch.Generator().manual_seed(step))
    return tokens[:, :-1], tokens[:, 1:]


def losses(theirs: Any, ours: Any, x: Tensor, y: Tensor) -> tuple[Tensor, Tensor]:
    total, count = ours.loss(x, y)
    return F.cross_entropy(theirs(input_ids=x).logits.flatten(0, 1), y.flatten()), total / count


CASES = [(label, tied) for label in PEERS for tied in (False, True)]


@pytest.mark.parametrize(("label", "tied"), CASES)
def test_logits_loss_and_gradients(label, tied):
    theirs, ours, read = pair(label, tied)
    x, y = batch()
    logits = theirs(input_ids=x).logits
    assert logits.std() > 0.3  # far from a guess, so that agreement means something
    torch.testing.assert_close(ours(x), logits, rtol=0, atol=5e-5)
    want, got = losses(theirs, ours, x, y)
    assert abs(got / want - 1) < 2e-5
    want.backward()
    got.backward()
    gradients = read(lambda p: p.grad)
    for name, p in ours.named_parameters():
        assert abs(p.grad.norm() / gradients[name].norm() - 1) < 2e-5, name
        torch.testing.assert_close(p.grad, gradients[name], rtol=1e-3, atol=2e-6)


@pytest.mark.parametrize(("label", "tied"), CASES)
def test_six_steps_of_adamw(label, tied):
    theirs, ours, _ = pair(label, tied)
    options = {"lr": 1e-3, "betas": (0.9, 0.95), "weight_decay": 0.1}
    optimizers = [torch.optim.AdamW([p for p in m.parameters() if p.requires_grad], **options) for m in (theirs, ours)]
    first = None
    for step in range(6):
        x, y = batch(step % 2)
        pairs = losses(theirs, ours, x, y)
        first = first or pairs[0].item()
        assert abs(pairs[0].item() - pairs[1].item()) < 2e-4
        for optimizer, loss in zip(optimizers, pairs, strict=True):
            optimizer.zero_grad()
            loss.backward()
            optimizer.step()
    want, got = losses(theirs, ours, *batch(0))
    assert abs(got - want) < 2e-4
    assert want < first - 0.05  # six steps that moved
