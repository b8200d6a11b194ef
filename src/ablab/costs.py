"""What a model costs, counted from the module itself on the meta device: no memory, no time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import torch
from omegaconf import DictConfig
from torch import nn

from .components.embedding import TiedHead
from .initialise import matrices
from .matching import ffn_budget, resolved_d_ff
from .model import build_model


@dataclass(frozen=True)
class Costs:
    """Counts of one model.

    Attributes:
        parameters: all of them; a tied matrix counts once.
        non_embedding: without embedding and head.
        matmul: those in matrix products, the head included even when it is tied.
        flops_per_token: of training, forward and backward, with the full attention square.
        d_ff: width of the FFN; None where its class has none.
        ffn_residual: (FFN parameters - budget) / budget.
        gains: parameters of norms that multiply.
        biases: parameters anywhere that are added.
    """

    parameters: int
    non_embedding: int
    matmul: int
    flops_per_token: int
    d_ff: int | None
    ffn_residual: float
    gains: int
    biases: int


def costs(cfg: DictConfig | Mapping[str, Any], vocab_size: int) -> Costs:
    """Count what `build_model(cfg, vocab_size)` would have.

    FLOPs per training token are 3 (2 N_matmul + 4 L T D): a multiplication and an addition per weight,
    attention's two products over T keys, and twice the forward pass for the backward one.
    """
    with torch.device("meta"):
        model = build_model(cfg, vocab_size)
    table = model.token_embeddings.weight.numel()
    tied = isinstance(model.lm_head, TiedHead)
    head = model.lm_head.weight.numel()
    total = sum(p.numel() for p in model.parameters())
    products = sum(p.numel() for p, kind in matrices(model).values() if kind != "embedding")
    vectors = {name: p.numel() for name, p in model.named_parameters() if p.dim() < 2}
    biases = {name: n for name, n in vectors.items() if name.endswith("bias")}
    in_norms = {
        f"{name}.{leaf}" for name, m in model.named_modules() if _is_norm(name) for leaf, _ in m.named_parameters()
    }
    layers, width = len(model.layers), model.token_embeddings.embedding_dim
    first: Any = model.layers[0]
    ffn = sum(p.numel() for p in first.ffn.parameters())
    budget = ffn_budget(cfg, vocab_size)
    return Costs(
        parameters=total,
        non_embedding=total - table - (0 if tied else head),
        matmul=products,
        flops_per_token=3 * (2 * products + 4 * layers * model.context_length * width),
        d_ff=resolved_d_ff(cfg, vocab_size),
        ffn_residual=(ffn - budget) / budget,
        gains=sum(n for name, n in vectors.items() if name in in_norms and name not in biases),
        biases=sum(biases.values()),
    )


def norm_modules(model: nn.Module) -> list[str]:
    """Names of the norm modules that a model has."""
    return [name for name, _ in model.named_modules() if _is_norm(name)]


def _is_norm(name: str) -> bool:
    return name.rsplit(".", 1)[-1] in ("ln1", "ln2", "ln_final")
