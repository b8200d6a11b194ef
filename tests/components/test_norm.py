from __future__ import annotations

from collections.abc import Callable

import pytest
import torch
from torch import Tensor, nn

from ablab import UsageError
from ablab.components.norm import Identity, LayerNorm, RMSNorm

WIDTH = 48


def plain_rms(x: Tensor, eps: float, weight: Tensor) -> Tensor:
    x = x.double()
    return x / ((x**2).mean(-1, keepdim=True) + eps).sqrt() * weight.double()


def plain_layer(x: Tensor, eps: float, weight: Tensor, bias: Tensor) -> Tensor:
    x = x.double()
    centred = x - x.mean(-1, keepdim=True)
    return centred / ((centred**2).mean(-1, keepdim=True) + eps).sqrt() * weight.double() + bias.double()


def fresh(cls: type[nn.Module], **options: float) -> tuple[nn.Module, Callable[[Tensor], Tensor]]:
    """A norm whose parameters are not the trivial ones, and its formula."""
    norm = cls(WIDTH, **options)
    for p in norm.parameters():
        nn.init.normal_(p, 0.5, 1.0)
    formula = plain_rms if cls is RMSNorm else plain_layer
    return norm, lambda x: formula(x, norm.eps, *norm.parameters())


@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
@pytest.mark.parametrize("size", [1e-3, 1.0, 1e3])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 2e-6), (torch.float16, 1e-3), (torch.bfloat16, 8e-3)]
)
def test_equals_the_formula_at_every_size_and_dtype(cls, size, dtype, error):
    norm, formula = fresh(cls)
    x = (torch.randn(5, 7, WIDTH, dtype=torch.float64) * size + 0.3 * size).to(dtype)
    y = norm(x)
    assert y.dtype == dtype
    assert (y.double() - formula(x)).norm() <= error * formula(x).norm()


@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
def test_weights_in_another_dtype_change_only_precision(cls):
    norm, formula = fresh(cls)
    norm.bfloat16()
    for dtype in (torch.bfloat16, torch.float32):
        x = torch.randn(3, WIDTH).to(dtype)
        y = norm(x)
        assert y.dtype == dtype
        torch.testing.assert_close(y.double(), formula(x), rtol=1e-2, atol=1e-2)


@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
def test_half_precision_statistics_do_not_overflow(cls):
    norm, formula = fresh(cls)
    x = torch.full((1, WIDTH), 6e4, dtype=torch.float16)
    x[..., ::2] = -5e4  # squares are far beyond float16
    torch.testing.assert_close(norm(x).double(), formula(x), rtol=1e-3, atol=1e-3)


@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
def test_gradients_equal_the_formula(cls):
    norm, formula = fresh(cls)
    x = torch.randn(4, WIDTH, requires_grad=True)
    weights = torch.randn(4, WIDTH)
    got = torch.autograd.grad((norm(x) * weights).sum(), [x, *norm.parameters()])
    want = torch.autograd.grad((formula(x) * weights).sum(), [x, *norm.parameters()])
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-5)


@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
def test_eps_stands_inside_the_root_and_is_the_one_given(cls):
    x = torch.tensor([[3e-3, -3e-3] * (WIDTH // 2)])  # mean square 9e-6, mean 0
    for eps in (1e-5, 1e-2):
        assert cls(WIDTH, eps=eps)(x)[0, 0].item() == pytest.approx(3e-3 / (9e-6 + eps) ** 0.5, rel=1e-5)


def test_agrees_with_the_modules_of_pytorch():
    x = torch.randn(2, 3, WIDTH)
    torch.testing.assert_close(RMSNorm(WIDTH)(x), nn.RMSNorm(WIDTH, eps=1e-5)(x))
    torch.testing.assert_close(LayerNorm(WIDTH)(x), nn.LayerNorm(WIDTH, eps=1e-5)(x))


def test_parameters_and_their_start():
    assert {n: p.unique().tolist() for n, p in RMSNorm(4).named_parameters()} == {"weight": [1.0]}
    assert {n: p.unique().tolist() for n, p in LayerNorm(4).named_parameters()} == {"weight": [1.0], "bias": [0.0]}


def test_identity_is_no_module_and_changes_nothing():
    norm = Identity(8)
    x = torch.randn(2, 8)
    assert not isinstance(norm, nn.Module)
    assert norm(x) is x


@pytest.mark.parametrize("eps", [0.0, -1e-5, float("nan"), float("inf")])
@pytest.mark.parametrize("cls", [RMSNorm, LayerNorm])
def test_an_eps_that_is_not_positive_is_refused(cls, eps):
    with pytest.raises(UsageError, match=r"norm\.eps"):
        cls(8, eps=eps)
