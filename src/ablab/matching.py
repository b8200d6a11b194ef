"""Equal cost: the FFN width at which every variant has what the others have.

A gated FFN gets the width W, a plain one 3W/2 (3 D W parameters either way). The rule looks at the cell alone, so that
a run means the same in every study, and solves the width by counting the class's own parameters.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import nn

from . import registry
from .components.embedding import TiedHead
from .components.ffn import base_width
from .errors import UsageError


def ffn_budget(cfg: DictConfig | Mapping[str, Any], vocab_size: int) -> int:
    """Parameters that one layer's FFN should have: 3 D W, with W from `model.ffn_width` or the rule.

    With `model.match_embedding` tied embeddings give the V D parameters that they save back, a share to each layer.
    """
    cfg = as_config(cfg)
    sizes = cfg.model
    width = base_width(sizes.d_model) if sizes.ffn_width is None else sizes.ffn_width
    if width < 1:
        raise UsageError(f"model.ffn_width must be at least 1, not {width}")
    saved = vocab_size * sizes.d_model if sizes.get("match_embedding") and _is_tied(cfg, vocab_size) else 0
    return 3 * sizes.d_model * width + saved // sizes.n_layers


def resolved_d_ff(cfg: DictConfig | Mapping[str, Any], vocab_size: int) -> int | None:
    """The FFN width that `build_model` uses; None for an FFN that has no `d_ff` or chooses it itself."""
    return ffn_options(as_config(cfg), vocab_size).get("d_ff")


def ffn_options(cfg: DictConfig, vocab_size: int) -> dict[str, Any]:
    """Options of the FFN, with `d_ff` solved from the budget where it is not given.

    `model.match`: `parameters` counts all parameters of the FFN, `flops` those in matrix products alone (a training
    token costs 6 FLOPs in each), `none` leaves the width to the class.
    """
    options = options_of(cfg, "ffn")
    cls = registry.get("ffn", cfg.choices.ffn)
    match = cfg.model.get("match") or "parameters"
    if "d_ff" not in registry.keywords(cls) or options.get("d_ff") is not None or match == "none":
        return options
    budget, width = ffn_budget(cfg, vocab_size), cfg.model.d_model

    def count(d_ff: int) -> int:
        with torch.device("meta"):
            ffn: nn.Module = cls(width, **(options | {"d_ff": d_ff}))
        return sum(p.numel() for p in ffn.parameters() if match == "parameters" or p.dim() > 1)

    # Parameters grow linearly with the width, so that two counts give the line.
    low = max(1, budget // (3 * width))
    at_low, at_high = count(low), count(2 * low)
    slope = (at_high - at_low) / low
    return options | {"d_ff": max(1, round(low + (budget - at_low) / slope)) if slope > 0 else low}


def options_of(cfg: DictConfig, slot: str) -> dict[str, Any]:
    """Options of a slot as plain keyword arguments."""
    return dict(OmegaConf.to_container(cfg.get(slot) or OmegaConf.create({}), resolve=True))  # type: ignore[arg-type]


def as_config(cfg: DictConfig | Mapping[str, Any]) -> DictConfig:
    """A config given as a plain mapping, as OmegaConf has it."""
    return cfg if isinstance(cfg, DictConfig) else OmegaConf.create(dict(cfg))


def _is_tied(cfg: DictConfig, vocab_size: int) -> bool:
    with torch.device("meta"):
        cls = registry.get("embedding", cfg.choices.embedding)
        return isinstance(cls(vocab_size, cfg.model.d_model, **options_of(cfg, "embedding")).head, TiedHead)
