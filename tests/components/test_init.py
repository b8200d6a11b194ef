from __future__ import annotations

import math

import pytest
import torch

from ablab import UsageError
from ablab.components.init import CS336, GPT2, seeded, stream_seed


def draw(init: GPT2 | CS336, kind: str, shape: tuple[int, int] = (400, 300), seed: int = 1) -> torch.Tensor:
    matrix = torch.empty(shape)
    init.fill(matrix, kind, torch.Generator().manual_seed(seed))
    return matrix


@pytest.mark.parametrize(
    ("d_model", "kind", "std"),
    [
        (64, "inner", 0.02),
        (64, "head", 0.02),
        (64, "residual", 0.02 / math.sqrt(8)),
        (64, "embedding", 0.02),
        (64, "tied", 0.02),
        (512, "embedding", 2 / 512),
        (512, "tied", 2 / 512),
        (512, "inner", 0.02),
    ],
)
def test_gpt2_spreads(d_model, kind, std):
    matrix = draw(GPT2(4, d_model), kind)
    assert matrix.std().item() == pytest.approx(std, rel=0.02)
    assert abs(matrix.mean().item()) < 0.02 * std


@pytest.mark.parametrize(
    ("kind", "std"), [("inner", math.sqrt(2 / 700)), ("head", math.sqrt(2 / 700)), ("embedding", 1), ("tied", 1 / 64)]
)
def test_cs336_spreads_and_cut(kind, std):
    matrix = draw(CS336(4, 64), kind)
    assert matrix.abs().max() <= 3 * std * (1 + 1e-6)
    assert matrix.abs().max() > 2.8 * std
    # a normal distribution cut at three standard deviations has 0.9866 of its spread
    assert matrix.std().item() == pytest.approx(0.98658 * std, rel=0.02)


def test_the_spread_of_gpt2_is_an_option():
    assert draw(GPT2(2, 8, std=0.1), "inner").std().item() == pytest.approx(0.1, rel=0.02)
    with pytest.raises(UsageError, match=r"init\.std"):
        GPT2(2, 8, std=0.0)


def test_streams_differ_by_seed_salt_and_name_and_by_nothing_else():
    seeds = {stream_seed(s, t, n) for s in range(3) for t in range(3) for n in ("a", "b", "1/a")}
    assert len(seeds) == 27
    assert all(0 <= s < 2**63 for s in seeds)
    assert stream_seed(1, 2, "x") == stream_seed(1, 2, "x")


def test_seeded_leaves_the_global_stream_alone():
    torch.manual_seed(5)
    want = torch.rand(3)
    torch.manual_seed(5)
    with seeded(1, 0, "a"):
        first = torch.rand(3)
    torch.testing.assert_close(torch.rand(3), want, rtol=0, atol=0)
    with seeded(1, 0, "a"):
        torch.testing.assert_close(torch.rand(3), first, rtol=0, atol=0)
