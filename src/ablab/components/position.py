"""Slot `position`: `(d_model, n_heads, context_length, *, ...)`, one per model, shared by its layers.

A class overrides the hooks of `Position` that it needs; the rest do nothing.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch
from torch import Tensor, nn

from ..errors import UsageError
from ..registry import register
from .dtype import wide
from .fused import Turn, by_hand


class Position(nn.Module):
    """Base of the slot: hooks that do nothing."""

    def embed(self, x: Tensor, positions: Tensor) -> Tensor:
        """Change the embeddings (B, T, D) of tokens at `positions`, (T) or (B, T)."""
        return x

    def tables(self, positions: Tensor) -> Any:
        """What `rotate` needs for tokens at `positions`, (T) or (B, T); called once per pass."""
        return None

    def rotate(self, q: Tensor, k: Tensor, tables: Any) -> tuple[Tensor, Tensor]:
        """Change queries and keys, both (B, T, H, K)."""
        return q, k


@register("position", "none")
class NoPosition(Position):
    """None: the causal mask alone breaks the symmetry (NoPE; Kazemnejad et al. 2023, arXiv:2305.19466)."""

    def __init__(self, d_model: int, n_heads: int, context_length: int) -> None:
        super().__init__()


@register("position", "rope")
class RoPE(Position):
    """Rotary embedding (Su et al. 2021, arXiv:2104.09864), interleaved pairs.

    The pair (x[2i], x[2i+1]) of every query and key at position m turns by the angle m * theta^(-2i/K), so
    that scores depend on distances alone. Angles and rotation are float32 or wider: in bfloat16 the positions
    256 and 257 would be one.
    """

    def __init__(self, d_model: int, n_heads: int, context_length: int, *, theta: float = 10000.0) -> None:
        super().__init__()
        if not 0 < theta < float("inf"):
            raise UsageError(f"position.theta must be a positive number, not {theta}")
        width = d_model // n_heads
        if width % 2:
            raise UsageError(
                f"position=rope needs an even head size, but model.d_model={d_model} over "
                f"model.n_heads={n_heads} gives {width}"
            )
        self.width, self.context_length, self.theta = width, context_length, float(theta)
        # Not a buffer: Module.to(bfloat16) would round it.
        self._table = self._build(None)

    def _build(self, device: torch.device | None) -> Tensor:
        """(context_length, 1, K/2, 2) float32: cosine and sine of every angle."""
        # float64 until the end; MPS has none, hence the CPU.
        home = "meta" if (device or torch.get_default_device()).type == "meta" else "cpu"
        pairs = torch.arange(0, self.width, 2, device=home, dtype=torch.float64)
        angles = torch.outer(
            torch.arange(self.context_length, device=home, dtype=torch.float64),
            self.theta ** (-pairs / self.width),
        )
        table = torch.stack((angles.cos(), angles.sin()), dim=-1).float()[:, None]
        return table.to(device or torch.get_default_device())

    def _apply(self, fn: Callable[[Tensor], Tensor], recurse: bool = True) -> RoPE:
        super()._apply(fn, recurse)
        device = fn(self._table.new_empty(0)).device
        if device != self._table.device:
            self._table = self._build(device)
        return self

    def tables(self, positions: Tensor) -> Tensor:
        """(T, 1, K/2, 2) or (B, T, 1, K/2, 2) float32, for positions (T) or (B, T)."""
        return self._table[positions]

    def rotate(self, q: Tensor, k: Tensor, tables: Tensor) -> tuple[Tensor, Tensor]:
        if by_hand(q):
            table = torch.view_as_complex(tables)
            return Turn.apply(q, table), Turn.apply(k, table)
        turn = turn_real if torch.compiler.is_compiling() or q.device.type == "mps" else turn_complex
        return turn(q, tables), turn(k, tables)


def turn_complex(x: Tensor, tables: Tensor) -> Tensor:
    """Rotate pairs as complex numbers: the fastest form without a compiler."""
    pairs = wide(x).unflatten(-1, (-1, 2))
    return torch.view_as_real(torch.view_as_complex(pairs) * torch.view_as_complex(tables)).flatten(-2).to(x.dtype)


def turn_real(x: Tensor, tables: Tensor) -> Tensor:
    """The same with real numbers, which a compiler fuses into one kernel."""
    even, odd = x[..., 0::2], x[..., 1::2]
    cos, sin = tables.unbind(-1)
    return torch.stack((even * cos - odd * sin, even * sin + odd * cos), dim=-1).flatten(-2).to(x.dtype)
