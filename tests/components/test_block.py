from __future__ import annotations

import pytest
import torch
from torch import Tensor, nn

from ablab.components.block import PostNorm, PreNorm
from ablab.components.context import Context
from ablab.components.position import NoPosition


class Times(nn.Module):
    """A part that is easy to follow: multiplies by a number."""

    def __init__(self, factor: float) -> None:
        super().__init__()
        self.factor = factor

    def forward(self, x: Tensor, *_: object) -> Tensor:
        return x * self.factor


def shift(x: Tensor) -> Tensor:
    return x + 1


@pytest.mark.parametrize(
    ("cls", "want"),
    [
        (PreNorm, lambda x: (y := x + 2 * (x + 1)) + 3 * (y + 1)),
        (PostNorm, lambda x: (y := x + 2 * x + 1) + 3 * y + 1),
    ],
)
def test_norms_sit_where_the_class_says(cls, want):
    block = cls(4, Times(2.0), Times(3.0), lambda: shift)
    x = torch.randn(2, 3, 4)
    torch.testing.assert_close(block(x, Context(NoPosition(4, 1, 3))), want(x))


def test_only_pre_norm_wants_a_norm_before_the_head():
    assert PreNorm.final_norm and not PostNorm.final_norm


@pytest.mark.parametrize("cls", [PreNorm, PostNorm])
def test_dropout_acts_on_both_branches_and_never_on_the_stream(cls):
    x = torch.ones(1, 1, 10_000)
    context = Context(NoPosition(4, 1, 3), dropout=0.5)
    for attn, ffn in ((1.0, 0.0), (0.0, 1.0)):
        y = cls(10_000, Times(attn), Times(ffn), lambda: lambda v: v)(x, context)
        assert set(y.unique().tolist()) == {1.0, 3.0}  # dropped, or kept and doubled
        assert 0.4 < (y == 1).float().mean() < 0.6
