"""Slot `init`: `(n_layers, d_model, *, ...)`; `fill(matrix, kind, generator)` draws one matrix in place.

Every matrix has its own generator, seeded by (seed, salt, its name): what two variants share starts equal
to the last bit, whatever else they have. Gains stay as their classes make them; biases of Linears start at 0.
"""

from __future__ import annotations

import hashlib
import math
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Literal

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register

#: what a matrix does: reads tokens, reads and predicts, predicts, writes to the residual stream, other
Kind = Literal["embedding", "tied", "head", "residual", "inner"]


def stream_seed(seed: int, salt: int, name: str) -> int:
    """A 63-bit seed for the stream called `name`."""
    digest = hashlib.sha256(f"{seed}/{salt}/{name}".encode()).digest()
    return int.from_bytes(digest[:8], "little") >> 1


@contextmanager
def seeded(seed: int, salt: int, name: str) -> Iterator[None]:
    """PyTorch's own CPU stream starts at `stream_seed` inside and goes on undisturbed after."""
    with torch.random.fork_rng(devices=[]):
        torch.random.default_generator.manual_seed(stream_seed(seed, salt, name))
        yield


@register("init", "gpt2")
class GPT2:
    """N(0, std^2); writers to the residual stream divided by sqrt(2 L) (Radford et al. 2019).

    The embedding is N(0, min(std, 2 / D)^2), tied or not, so that tying changes nothing but the sharing
    and a tied model, too, starts at a loss near ln V.
    """

    def __init__(self, n_layers: int, d_model: int, *, std: float = 0.02) -> None:
        if not 0 < std < float("inf"):
            raise UsageError(f"init.std must be a positive number, not {std}")
        embedding = min(std, 2 / d_model)
        self.std: dict[str, float] = {
            "embedding": embedding,
            "tied": embedding,
            "head": std,
            "inner": std,
            "residual": std / math.sqrt(2 * n_layers),
        }

    def fill(self, matrix: Tensor, kind: Kind, generator: torch.Generator) -> None:
        matrix.normal_(0.0, self.std[kind], generator=generator)


@register("init", "cs336")
class CS336:
    """Linear N(0, 2 / (in + out)), embedding N(0, 1), both cut at three standard deviations.

    A tied matrix has std 1 / D, since with 1 it would predict with logits of size sqrt(D). Models without
    norms still start far above ln V.
    """

    def __init__(self, n_layers: int, d_model: int) -> None:
        self.d_model = d_model

    def fill(self, matrix: Tensor, kind: Kind, generator: torch.Generator) -> None:
        std = math.sqrt(2 / (matrix.shape[0] + matrix[0].numel()))
        std = {"embedding": 1.0, "tied": 1 / self.d_model}.get(kind, std)
        nn.init.trunc_normal_(matrix, 0.0, std, -3 * std, 3 * std, generator=generator)
