"""Precision of what must not be rounded."""

from __future__ import annotations

import torch
from torch import Tensor


def wide(x: Tensor) -> Tensor:
    """`x` in float32 at least: half precisions go up, float32 and float64 stay."""
    return x if x.dtype in (torch.float32, torch.float64) else x.float()
