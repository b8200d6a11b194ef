"""Hand-written derivatives, whatever layout the tensors and their gradients come in."""

from __future__ import annotations

import pytest
import torch
from torch import Tensor

from ablab.components.fused import RMS, Turn

LAYOUTS = {
    "plain": lambda y: y,
    "transposed last": lambda y: y.transpose(-1, -2),
    "transposed first": lambda y: y.transpose(0, 1),
    "every other": lambda y: y[..., ::2],
}


def tensor(*shape: int) -> Tensor:
    return torch.randn(*shape, dtype=torch.float64, requires_grad=True)


@pytest.mark.parametrize("after", LAYOUTS)
@pytest.mark.parametrize("before", ["plain", "transposed first"])
def test_gradients_are_right_in_every_layout(before: str, after: str):
    torch.manual_seed(0)
    x, weight = tensor(2, 3, 5, 8), tensor(8)
    table = torch.polar(torch.ones(5, 4, dtype=torch.float64), torch.randn(5, 4, dtype=torch.float64))
    enter, leave = LAYOUTS[before], LAYOUTS[after]
    assert torch.autograd.gradcheck(lambda x: leave(Turn.apply(enter(x), table)).contiguous(), (x,))
    assert torch.autograd.gradcheck(lambda x, w: leave(RMS.apply(enter(x), w, 1e-5)).contiguous(), (x, weight))
