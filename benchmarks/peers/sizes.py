"""The sizes that are compared, and what a contestant must be able to do."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Protocol


@dataclass(frozen=True)
class Size:
    """A decoder: V vocabulary, T context, D width, L layers, H heads, F width of the SwiGLU, B sequences a step."""

    vocab: int
    length: int
    width: int
    layers: int
    heads: int
    hidden: int
    batch: int
    tied: bool = False

    @property
    def tokens(self) -> int:
        """Tokens of one step."""
        return self.batch * self.length


SIZES = {
    "tiny": Size(vocab=40, length=16, width=32, layers=2, heads=2, hidden=96, batch=4),
    "demo": Size(vocab=84, length=128, width=128, layers=4, heads=4, hidden=384, batch=32),
    "cs336": Size(vocab=10_000, length=256, width=512, layers=4, heads=16, hidden=1344, batch=8),
    "gpt2_small": Size(vocab=50_257, length=1024, width=768, layers=12, heads=12, hidden=2048, batch=1, tied=True),
}

#: AdamW of every contestant; the gradient's norm is clipped at CLIP
ADAMW = {"lr": 1e-3, "weight_decay": 0.1, "betas": (0.9, 0.95), "eps": 1e-8}
CLIP = 1.0


@dataclass(frozen=True)
class Setting:
    """How a contestant trains."""

    size: Size
    precision: str = "fp32"
    compile: bool = False
    threads: int = 1
    device: str = "cpu"


class Trainer(Protocol):
    """A model in training."""

    parameters: int

    def step(self) -> None:
        """One optimiser step on the next batch."""

    def evaluate(self, sequences: int) -> None:
        """The loss of so many sequences, without gradients."""

    def loss(self) -> float:
        """Mean loss of the last step, in nats per token; waits for the device."""
