"""Everything about a run that changes while it trains, and that a checkpoint must hold for bit-equal resumption."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass, field, fields
from typing import Any

import torch


@dataclass
class TrainState:
    """Plain numbers of a run.

    Attributes:
        step: optimiser steps done.
        settled: whether what was due after `step` (evaluation, row) is done; False only if a stop cut an
        evaluation. batch_hash, batch_hash_at: running hash of the data trained on, and its value at each
        evaluation, by step. scale: multiplier of the learning rate at the last step; None before the first.
        longer: this run goes on from a shorter one, so the rate may not rise above the step before.
        first_loss: validation loss before the first step.
        best_loss, best_step: lowest validation loss so far.
        seconds: training time, evaluation and saving left out.
        line_step, line_seconds: `step` and `seconds` at the last line with training numbers.
    """

    step: int = 0
    settled: bool = False
    batch_hash: str = ""
    batch_hash_at: dict[str, str] = field(default_factory=dict)
    scale: float | None = None
    longer: bool = False
    first_loss: float | None = None
    best_loss: float | None = None
    best_step: int | None = None
    seconds: float = 0.0
    line_step: int = 0
    line_seconds: float = 0.0

    @classmethod
    def of(cls, content: Mapping[str, Any]) -> TrainState:
        """The state in a checkpoint."""
        return cls(**{f.name: content[f.name] for f in fields(cls)})


def seed_noise(seed: int) -> None:
    """Seed torch's own generators, from which dropout draws; weights and data have generators of their own."""
    digest = hashlib.sha256(f"dropout/{seed}".encode()).digest()
    torch.manual_seed(int.from_bytes(digest[:8], "little") >> 1)


def random_states(device: torch.device) -> dict[str, torch.Tensor]:
    """States of torch's generators on the CPU and on the device."""
    states = {"cpu": torch.get_rng_state()}
    if device.type == "cuda":
        states["cuda"] = torch.cuda.get_rng_state(device)
    elif device.type == "mps":
        states["mps"] = torch.mps.get_rng_state()
    return states


def set_random_states(states: Mapping[str, torch.Tensor], device: torch.device) -> None:
    """Put generators back; a state saved on another kind of device is left alone."""
    torch.set_rng_state(states["cpu"])
    if device.type == "cuda" and "cuda" in states:
        torch.cuda.set_rng_state(states["cuda"], device)
    elif device.type == "mps" and "mps" in states:
        torch.mps.set_rng_state(states["mps"])
