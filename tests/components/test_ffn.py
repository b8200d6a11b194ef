from __future__ import annotations

import pytest
import torch

from ablab import UsageError
from ablab.components.ffn import ReLU, SwiGLU, base_width


@pytest.mark.parametrize(
    ("d_model", "gated", "plain"),
    [(64, 192, 288), (128, 384, 576), (256, 704, 1056), (512, 1408, 2112), (768, 2048, 3072)],
)
def test_default_widths_match_to_the_last_parameter(d_model, gated, plain):
    with torch.device("meta"):
        swiglu, relu = SwiGLU(d_model), ReLU(d_model)
    assert (swiglu.w1.out_features, relu.w1.out_features) == (gated, plain)
    count = [sum(p.numel() for p in module.parameters()) for module in (swiglu, relu)]
    assert count == [3 * d_model * base_width(d_model)] * 2


def test_swiglu_equals_its_formula():
    ffn = SwiGLU(16, d_ff=24).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    gate = x @ ffn.w1.weight.T
    want = (gate / (1 + (-gate).exp()) * (x @ ffn.w3.weight.T)) @ ffn.w2.weight.T
    torch.testing.assert_close(ffn(x), want)


def test_relu_equals_its_formula():
    ffn = ReLU(16, d_ff=24).double()
    x = torch.randn(2, 5, 16, dtype=torch.float64)
    torch.testing.assert_close(ffn(x), (x @ ffn.w1.weight.T).clamp(min=0) @ ffn.w2.weight.T)


@pytest.mark.parametrize(("cls", "names"), [(SwiGLU, ["w1", "w2", "w3"]), (ReLU, ["w1", "w2"])])
def test_every_matrix_has_its_shape_and_takes_part(cls, names):
    ffn = cls(16, d_ff=24)
    ffn(torch.randn(3, 4, 16)).square().sum().backward()
    shapes = {name: tuple(p.shape) for name, p in ffn.named_parameters()}
    assert shapes == {f"{name}.weight": (16, 24) if name == "w2" else (24, 16) for name in names}
    assert all(p.grad.abs().max() > 0 for p in ffn.parameters())


@pytest.mark.parametrize("d_ff", [0, -1, 2.5, True])
@pytest.mark.parametrize("cls", [SwiGLU, ReLU])
def test_a_width_that_is_no_positive_integer_is_refused(cls, d_ff):
    with pytest.raises(UsageError, match=r"ffn\.d_ff"):
        cls(16, d_ff=d_ff)
