"""Slot `embedding`: `(vocab_size, d_model, *, ...)`, an object with `.table` and `.head`.

`table` maps ids (B, T) to (B, T, D). `head` maps (..., D) to logits (..., V) by its matrix `head.weight`
(V, D) and nothing else, which lets the loss work through many tokens in pieces.
"""

from __future__ import annotations

import torch
import torch.nn.functional as F
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register


class Table(nn.Embedding):
    """Row look-up in weight (V, D). An id outside 0 .. V-1 is an error on the CPU.

    On an accelerator a look-up cannot raise without waiting for the device; there the check that the data
    passed before training has to do.
    """

    def forward(self, ids: Tensor) -> Tensor:
        if torch.compiler.is_compiling():
            return super().forward(ids)
        try:
            return super().forward(ids)
        except IndexError:
            size = self.num_embeddings
            bad = int(ids[(ids < 0) | (ids >= size)][0])
            raise UsageError(f"token id {bad} is outside the vocabulary of {size} tokens") from None


class TiedHead:
    """Logits by the embedding's own matrix. Not a module: the matrix stays one parameter with one name."""

    def __init__(self, table: nn.Embedding) -> None:
        self.table = table

    @property
    def weight(self) -> Tensor:
        return self.table.weight

    def __call__(self, x: Tensor) -> Tensor:
        return F.linear(x, self.table.weight)


@register("embedding", "untied")
class Untied:
    """Two matrices, one to read tokens and one to predict them."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        self.table = Table(vocab_size, d_model)
        self.head = nn.Linear(d_model, vocab_size, bias=False)


@register("embedding", "tied")
class Tied:
    """One matrix for both (Press & Wolf 2017, arXiv:1608.05859)."""

    def __init__(self, vocab_size: int, d_model: int) -> None:
        self.table = Table(vocab_size, d_model)
        self.head = TiedHead(self.table)
