"""What status.json says about a run from its first second on: sizes, data, machine."""

from __future__ import annotations

from dataclasses import asdict
from typing import Any

import torch
from omegaconf import DictConfig

from ..costs import costs
from ..data import TokenData
from .environment import environment


def facts(cfg: DictConfig, data: TokenData, device: torch.device) -> dict[str, Any]:
    """Fields of status.json that are known before the first step: costs counted from the model itself
    (`parameters`, `non_embedding`, `flops_per_token` of training, ...), the data with its hash, the environment."""
    return {
        "seed": cfg.seed,
        "steps": cfg.train.steps,
        "data_hash": data.hash,
        "vocab_size": data.vocab_size,
        "train_tokens": len(data.train),
        "val_tokens": len(data.val),
        "val_bytes": data.val_bytes,
        "unigram_entropy": data.unigram_entropy,
        **asdict(costs(cfg, data.vocab_size)),
        "environment": environment(device),
    }
