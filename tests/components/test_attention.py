from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from ablab import UsageError
from ablab.components.attention import MultiHeadAttention, attend
from ablab.components.context import Cache, Context, attention_mask
from ablab.components.position import NoPosition, RoPE


def plain(q: Tensor, k: Tensor, v: Tensor, mask: Tensor) -> Tensor:
    """softmax of the allowed scores, weighted sum of values; zeros where nothing is allowed."""
    scores = (q.double() @ k.double().mT / math.sqrt(q.shape[-1])).exp() * mask
    return scores @ v.double() / scores.sum(-1, keepdim=True).clamp(min=1e-300)


def qkv(t: int, s: int, dtype: torch.dtype = torch.float32) -> list[Tensor]:
    return [torch.randn(2, 3, n, 8, dtype=dtype) for n in (t, s, s)]


@pytest.mark.parametrize(("dtype", "error"), [(torch.float64, 1e-12), (torch.float32, 1e-5), (torch.bfloat16, 3e-2)])
@pytest.mark.parametrize("length", [1, 2, 33])
def test_causal_attention_equals_the_formula(dtype, error, length):
    q, k, v = qkv(length, length, dtype)
    want = plain(q, k, v, torch.ones(length, length, dtype=torch.bool).tril())
    torch.testing.assert_close(attend(q, k, v).double(), want, rtol=error, atol=error)


@pytest.mark.parametrize("length", [1, 3, 7])
def test_masked_attention_equals_the_formula(length):
    q, k, v = qkv(length, 7)
    mask = torch.rand(2, 1, length, 7) > 0.4
    mask[..., 0] = True
    torch.testing.assert_close(attend(q, k, v, mask).double(), plain(q, k, v, mask), rtol=1e-5, atol=1e-5)


def test_one_query_after_a_cache_sees_every_key():
    q, k, v = qkv(1, 9)
    want = plain(q, k, v, torch.ones(1, 9, dtype=torch.bool))
    torch.testing.assert_close(attend(q, k, v).double(), want, rtol=1e-5, atol=1e-5)


@pytest.mark.parametrize("dtype", [torch.float32, torch.bfloat16, torch.float64])
def test_rows_that_see_nothing_give_zeros_and_finite_gradients(dtype):
    q, k, v = (x.requires_grad_() for x in qkv(4, 4, dtype))
    mask = torch.ones(4, 4, dtype=torch.bool).tril()
    mask[2] = False
    y = attend(q, k, v, mask)
    assert y[:, :, 2].abs().max() == 0
    assert y[:, :, 3].abs().max() > 0
    for gradient in torch.autograd.grad(y.sum(), (q, k, v)):
        assert gradient.isfinite().all()


def test_which_keys_a_query_may_see():
    cpu = torch.device("cpu")
    assert attention_mask(5, 0, None, cpu) is None
    assert attention_mask(1, 5, None, cpu) is None
    assert attention_mask(2, 1, None, cpu).int().tolist() == [[[[1, 1, 0], [1, 1, 1]]]]
    padding = torch.tensor([[False, True, True], [True, True, True]])
    mask = attention_mask(3, 0, padding, cpu)
    assert mask[0, 0].int().tolist() == [[0, 0, 0], [0, 1, 0], [0, 1, 1]]
    assert mask[1, 0].int().tolist() == [[1, 0, 0], [1, 1, 0], [1, 1, 1]]


def test_the_module_equals_the_formula_head_by_head():
    torch.manual_seed(0)
    heads, width, length = 3, 8, 6
    module = MultiHeadAttention(heads * width, heads).double()
    position = RoPE(heads * width, heads, length)
    tables = position.tables(torch.arange(length))
    x = torch.randn(2, length, heads * width, dtype=torch.float64)
    parts = []
    for h in range(heads):
        rows = slice(h * width, (h + 1) * width)  # heads split as (h k)
        q, k, v = (x @ p.weight[rows].T for p in (module.q_proj, module.k_proj, module.v_proj))
        q, k = position.rotate(q[:, :, None], k[:, :, None], tables)
        parts.append(plain(q[:, :, 0], k[:, :, 0], v, torch.ones(length, length, dtype=torch.bool).tril()))
    want = torch.cat(parts, -1) @ module.output_proj.weight.T
    torch.testing.assert_close(module(x, Context(position, tables)), want)


def test_its_parameters_are_four_square_matrices_without_bias():
    module = MultiHeadAttention(12, 3)
    shapes = {name: tuple(p.shape) for name, p in module.named_parameters()}
    assert shapes == {f"{n}.weight": (12, 12) for n in ("q_proj", "k_proj", "v_proj", "output_proj")}


def test_a_cache_gives_the_same_in_pieces():
    module, position = MultiHeadAttention(16, 2), NoPosition(16, 2, 7)
    x = torch.randn(2, 7, 16)
    cache, pieces = Cache(7), []
    for start, end in ((0, 3), (3, 4), (4, 7)):
        mask = attention_mask(end - start, start, None, x.device)
        pieces.append(module(x[:, start:end], Context(position, mask=mask), cache))
    assert cache.length == 7
    torch.testing.assert_close(torch.cat(pieces, 1), module(x, Context(position)))


def test_a_full_cache_says_so():
    cache = Cache(4)
    cache.append(*torch.zeros(2, 1, 1, 3, 2))
    with pytest.raises(UsageError, match=r"model\.context_length.* not 5"):
        cache.append(*torch.zeros(2, 1, 1, 2, 2))


@pytest.mark.parametrize(("width", "heads"), [(30, 4), (8, 0), (8, 16)])
def test_heads_that_do_not_divide_the_width_name_both(width, heads):
    with pytest.raises(UsageError, match=rf"d_model={width} .*n_heads={heads}"):
        MultiHeadAttention(width, heads)
