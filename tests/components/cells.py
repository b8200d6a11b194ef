"""Configs of the cells of the grid, made by hand so that a test of a model composes nothing; two users' parts."""

from __future__ import annotations

from itertools import product
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from ablab import register

CHOICES: dict[str, list[str]] = {
    "norm": ["rms", "layer", "identity"],
    "block": ["pre_norm", "post_norm"],
    "ffn": ["swiglu", "relu"],
    "position": ["rope", "none"],
    "embedding": ["untied", "tied"],
}
ALL = [dict(zip(CHOICES, values, strict=True)) for values in product(*CHOICES.values())]
#: the cells that are functions of their own: identity has no placement
CELLS = [c for c in ALL if (c["norm"], c["block"]) != ("identity", "post_norm")]
SIZES: dict[str, dict[str, Any]] = {
    "tiny": {"d_model": 32, "n_layers": 2, "n_heads": 4, "context_length": 16},
    "demo": {"d_model": 128, "n_layers": 4, "n_heads": 4, "context_length": 128},
    "cs336": {"d_model": 512, "n_layers": 4, "n_heads": 16, "context_length": 256, "ffn_width": 1344},
    "gpt2_small": {"d_model": 768, "n_layers": 12, "n_heads": 12, "context_length": 1024},
}
VOCAB = 23


def name(cell: dict[str, str]) -> str:
    """A label for pytest."""
    return "-".join(cell.values())


def config(scale: str = "tiny", **changes: Any) -> DictConfig:
    """The model's part of a run config; `changes` are choices, model sizes, `ffn={"d_ff": 8}`, `seed`, `salt`."""
    choices = {key: values[0] for key, values in CHOICES.items()} | {"attention": "mha", "init": "gpt2"}
    options: dict[str, dict[str, Any]] = {key: {} for key in choices}
    model = {"dropout": 0.0, "final_norm": None, "ffn_width": None} | SIZES[scale]
    seeds = {"init": changes.pop("seed", 0), "data": 0, "salt": changes.pop("salt", 0)}
    for key, value in changes.items():
        if isinstance(value, dict):
            options[key] = value
        elif key in choices:
            choices[key] = value
        else:
            model[key] = value
    return OmegaConf.create({"choices": choices, **options, "model": model, "seeds": seeds})


@register("ffn", "test_biased")
class BiasedFFN(nn.Module):
    """A user's FFN: plain Linears with biases, and a gain that is drawn from the global stream."""

    def __init__(self, d_model: int, *, d_ff: int | None = None, scale: float = 1.0) -> None:
        super().__init__()
        self.up = nn.Linear(d_model, d_ff or 4 * d_model)
        self.down = nn.Linear(self.up.out_features, d_model)
        self.gain = nn.Parameter(torch.rand(d_model) * scale)

    def forward(self, x: Tensor) -> Tensor:
        return self.down(torch.tanh(self.up(x))) * self.gain


@register("norm", "test_scalar")
class ScalarNorm(nn.Module):
    """A user's norm: one number and one matrix that is no weight of a Linear."""

    def __init__(self, d_model: int, *, eps: float = 1e-3) -> None:
        super().__init__()
        self.alpha = nn.Parameter(torch.tensor(0.7))
        self.mix = nn.Parameter(torch.eye(d_model))

    def forward(self, x: Tensor) -> Tensor:
        return torch.tanh(self.alpha * x) @ self.mix
