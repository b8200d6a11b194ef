from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F

from ablab.components.embedding import Tied, Untied
from ablab.components.loss import summed_loss

VOCAB, WIDTH, TOKENS = 37, 12, 50


def inputs(dtype: torch.dtype = torch.float32) -> tuple[torch.Tensor, torch.Tensor]:
    hidden = torch.randn(TOKENS, WIDTH).to(dtype).requires_grad_()
    targets = torch.randint(VOCAB, (TOKENS,))
    targets[::7] = -100
    return hidden, targets


@pytest.mark.parametrize("cls", [Untied, Tied])
@pytest.mark.parametrize("chunk", [VOCAB, 3 * VOCAB + 5, 7 * VOCAB, 2**24])
def test_pieces_give_the_loss_and_gradients_of_the_whole(cls, chunk):
    head = cls(VOCAB, WIDTH).head
    hidden, targets = inputs()
    want = F.cross_entropy(hidden.double() @ head.weight.double().T, targets, reduction="sum")
    got = summed_loss(hidden, head, targets, chunk)
    assert got.dtype == torch.float32
    torch.testing.assert_close(got.double(), want, rtol=1e-6, atol=0)
    with torch.no_grad():
        torch.testing.assert_close(summed_loss(hidden, head, targets, chunk).double(), want, rtol=1e-6, atol=0)
    for g, w in zip(
        torch.autograd.grad(got / 10, [hidden, head.weight]),
        torch.autograd.grad(want / 10, [hidden, head.weight]),
        strict=True,
    ):
        torch.testing.assert_close(g, w, rtol=1e-4, atol=1e-6)


@pytest.mark.parametrize("chunk", [5 * VOCAB, 2**24])
def test_sums_are_float32_from_half_precision_and_stay_float64(chunk):
    for dtype, wide in ((torch.bfloat16, torch.float32), (torch.float64, torch.float64)):
        head = Untied(VOCAB, WIDTH).head.to(dtype)
        hidden, targets = inputs(dtype)
        loss = summed_loss(hidden, head, targets, chunk)
        assert loss.dtype == wide
        gradients = torch.autograd.grad(loss, [hidden, head.weight])
        assert all(g.dtype == dtype and g.isfinite().all() for g in gradients)


def test_autocast_gives_the_same_in_pieces():
    head = Untied(VOCAB, WIDTH).head
    hidden, targets = inputs()
    with torch.autocast("cpu", dtype=torch.bfloat16):
        whole, pieces = (summed_loss(hidden, head, targets, chunk) for chunk in (2**24, 9 * VOCAB))
    torch.testing.assert_close(whole, pieces, rtol=1e-3, atol=0)
    for a, b in zip(*(torch.autograd.grad(x, [hidden, head.weight]) for x in (whole, pieces)), strict=True):
        assert a.dtype == b.dtype == torch.float32
        torch.testing.assert_close(a, b, rtol=5e-2, atol=2e-2)


def test_targets_that_do_not_count_add_nothing():
    head = Untied(VOCAB, WIDTH).head
    hidden, targets = inputs()
    for chunk in (4 * VOCAB, 2**24):
        loss = summed_loss(hidden, head, torch.full_like(targets, -100), chunk)
        assert loss.item() == 0
        assert torch.autograd.grad(loss, hidden)[0].abs().max() == 0


def test_a_frozen_head_gets_no_gradient():
    head = Untied(VOCAB, WIDTH).head.requires_grad_(False)
    hidden, targets = inputs()
    summed_loss(hidden, head, targets, 4 * VOCAB).backward()
    assert head.weight.grad is None and hidden.grad.abs().max() > 0


def test_a_large_vocabulary_is_worked_through_in_pieces_without_being_asked():
    head = Untied(70_000, 4).head
    hidden, targets = torch.randn(150, 4, requires_grad=True), torch.randint(70_000, (150,))
    most = []
    whole = torch.nn.functional.linear

    def spy(x, weight):
        most.append(len(x))
        return whole(x, weight)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(F, "linear", spy)
        loss = summed_loss(hidden, head, targets)
    assert sum(most) == 150 and max(most) * 70_000 <= 2**22
    want = F.cross_entropy(hidden @ head.weight.T, targets, reduction="sum")
    torch.testing.assert_close(loss, want, rtol=1e-5, atol=0)
