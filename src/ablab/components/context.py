"""What one forward pass works out once and every layer then uses."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

import torch
from torch import Tensor

from ..errors import UsageError

if TYPE_CHECKING:
    from .position import Position


class Context(NamedTuple):
    """Shared by all layers of one forward pass.

    Attributes:
        position: the model's position component.
        tables: what `position.tables` returned for this pass.
        mask: boolean, broadcastable to (B, H, T, S), True = may attend; None = plain causal attention.
        dropout: probability in this pass; 0 in eval mode.
    """

    position: Position
    tables: Any = None
    mask: Tensor | None = None
    dropout: float = 0.0


class Cache:
    """Keys and values of one layer for the tokens seen so far, at most `capacity` of them."""

    def __init__(self, capacity: int) -> None:
        self.capacity = capacity
        self.length = 0
        self._keys: Tensor | None = None
        self._values: Tensor | None = None

    def append(self, keys: Tensor, values: Tensor) -> tuple[Tensor, Tensor]:
        """Store (B, H, T, K) keys and values; returns all (B, H, S, K) held so far, as views."""
        start, end = self.length, self.length + keys.shape[2]
        if end > self.capacity:
            raise UsageError(f"the cache holds {self.capacity} tokens (model.context_length), not {end}")
        if self._keys is None or self._values is None:
            batch, heads, _, width = keys.shape
            self._keys = keys.new_empty(batch, heads, self.capacity, width)
            self._values = torch.empty_like(self._keys)
        self._keys[:, :, start:end], self._values[:, :, start:end] = keys, values
        self.length = end
        return self._keys[:, :, :end], self._values[:, :, :end]


def attention_mask(length: int, past: int, padding: Tensor | None, device: torch.device) -> Tensor | None:
    """Which of S = past + length keys each of `length` new queries may attend to.

    Args:
        padding: (B, S) boolean, True = a real token; None where nothing is padded.
    Returns:
        (B or 1, 1, T, S) boolean, or None where plain causal attention (or one query that sees all) is right.
    """
    if padding is None and (past == 0 or length == 1):
        return None
    queries = torch.arange(past, past + length, device=device)
    mask = (torch.arange(past + length, device=device) <= queries[:, None])[None, None]
    return mask if padding is None else mask & padding[:, None, None, :]
