from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from ablab import UsageError
from ablab.components.sampling import Sampling, keep_top_k, keep_top_p, pick, probabilities

FLOATS = (torch.float64, torch.float32, torch.bfloat16, torch.float16)


def drawn(logits: torch.Tensor, sampling: Sampling, times: int = 200) -> set[int]:
    rows = logits[None].expand(times, -1)
    return set(pick(rows, sampling, torch.Generator().manual_seed(0)).tolist())


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("logits", [[1, 3, 2], [1, 1e4, 2], [-1e4, 0, -3]])
@pytest.mark.parametrize(
    "options",
    [
        {"temperature": 0},
        {"temperature": 1e-4},
        {"temperature": 1e-300},
        {"top_p": 0.0},
        {"top_p": 1e-9},
        {"top_k": 1},
        {"temperature": 0, "top_p": 0.0, "top_k": 1},
    ],
)
def test_narrow_settings_take_the_most_likely_token(dtype, logits, options):
    assert drawn(torch.tensor(logits, dtype=dtype), Sampling(**options)) == {1}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{"temperature": 0}, {"top_k": 1}, {"top_p": 0.0}])
def test_of_equals_the_first_is_taken(dtype, options):
    assert drawn(torch.full((5,), 2.5, dtype=dtype), Sampling(**options)) == {0}


@pytest.mark.parametrize("dtype", FLOATS)
@pytest.mark.parametrize("options", [{"top_p": 1.0}, {"top_k": 3}, {"top_k": 10**6}, {"temperature": 1.0}])
def test_wide_settings_are_no_filter(dtype, options):
    logits = torch.tensor([[1.0, 3.0, 2.0]], dtype=dtype)
    torch.testing.assert_close(probabilities(logits, Sampling(**options)), logits.double().softmax(-1))


@pytest.mark.parametrize(
    "options",
    [
        {"top_k": 0},
        {"top_k": -3},
        {"temperature": -1},
        {"temperature": math.nan},
        {"temperature": math.inf},
        {"top_p": 1.1},
        {"top_p": -0.1},
        {"top_p": math.nan},
    ],
)
def test_values_out_of_range_are_refused_by_name(options):
    with pytest.raises(UsageError, match=next(iter(options))):
        Sampling(**options)


@pytest.mark.parametrize("dtype", [torch.float32, torch.float64])
@pytest.mark.parametrize(
    ("p", "count"), [(0.5, 1), (0.5001, 2), (0.75, 2), (0.8, 3), (0.875, 3), (0.99, 4), (1.0, 4), (0.0, 1), (0.3, 1)]
)
def test_the_set_is_the_smallest_whose_sum_reaches_p(dtype, p, count):
    logits = torch.tensor([[0.125, 0.5, 0.125, 0.25]], dtype=dtype).log()
    found = probabilities(logits, Sampling(top_p=p))[0]
    assert int((found > 0).sum()) == count
    assert found.sum().item() == pytest.approx(1)
    kept = [1, 3, 0, 2][:count]
    assert (found[kept] > 0).all()
    share = torch.tensor([0.125, 0.5, 0.125, 0.25], dtype=torch.float64)[kept]
    torch.testing.assert_close(found[kept], share / share.sum(), rtol=1e-6, atol=0)


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(-8, 8), min_size=1, max_size=12), st.floats(0, 1), st.integers(1, 15))
def test_no_smaller_set_would_do_and_every_kept_token_is_at_least_as_likely(values, top_p, top_k):
    p = torch.tensor([values], dtype=torch.float64).softmax(-1)
    kept = keep_top_p(p, top_p)[0] > 0
    inside, outside = p[0][kept], p[0][~kept]
    assert inside.sum() >= min(top_p, 1) - 1e-6
    if len(inside) > 1 and top_p < 1:
        assert inside.sum() - inside.min() < top_p
    if len(outside):
        assert inside.min() >= outside.max()
    few = keep_top_k(p.log(), top_k).isfinite()[0]
    assert int(few.sum()) == min(top_k, len(values))


def test_temperature_comes_before_the_filters():
    logits = torch.tensor([[math.log(0.4), math.log(0.35), math.log(0.25)]])
    assert drawn(logits[0], Sampling(top_p=0.5)) == {0, 1}
    assert drawn(logits[0], Sampling(temperature=0.1, top_p=0.5)) == {0}


def test_draws_follow_the_probabilities_and_the_seed():
    logits = torch.tensor([0.5, 0.3, 0.2]).log().expand(20_000, -1)
    first, again, other = (pick(logits, Sampling(), torch.Generator().manual_seed(s)) for s in (1, 1, 2))
    assert torch.equal(first, again) and not torch.equal(first, other)
    torch.testing.assert_close(first.bincount() / 20_000, torch.tensor([0.5, 0.3, 0.2]), rtol=0, atol=0.015)
    cold = pick(logits, Sampling(temperature=0.5), torch.Generator().manual_seed(1))
    want = torch.tensor([0.25, 0.09, 0.04]) / 0.38
    torch.testing.assert_close(cold.bincount() / 20_000, want, rtol=0, atol=0.015)


@pytest.mark.parametrize("temperature", [0.0, 1.0])
@pytest.mark.parametrize("bad", [math.nan, math.inf])
def test_logits_that_are_not_finite_are_an_error(bad, temperature):
    with pytest.raises(UsageError, match="not finite"):
        pick(torch.tensor([[0.0, bad, 1.0]]), Sampling(temperature=temperature))
