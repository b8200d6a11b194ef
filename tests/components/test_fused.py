from __future__ import annotations

import pytest
import torch
import torch.nn.functional as F
from components.cells import config

from ablab import build_model
from ablab.components import fused, norm, position
from ablab.components.fused import RMS, Turn

EPS = 1e-5


def table(*shape: int) -> torch.Tensor:
    angles = torch.rand(*shape, dtype=torch.float64)
    return torch.polar(torch.ones_like(angles), angles)


PLAIN = {
    "rms": lambda x, w: F.rms_norm(x, w.shape, w, EPS),
    "turn": lambda x, t: torch.view_as_real(torch.view_as_complex(x.unflatten(-1, (-1, 2))) * t).flatten(-2),
}
HAND = {"rms": lambda x, w: RMS.apply(x, w, EPS), "turn": Turn.apply}


def inputs(name: str) -> list[torch.Tensor]:
    x = torch.randn(3, 5, 2, 8, dtype=torch.float64, requires_grad=True)
    if name == "turn":
        return [x, table(5, 1, 4)]
    other = torch.randn(8, dtype=torch.float64, requires_grad=True)
    return [x, other]


@pytest.mark.parametrize("name", list(PLAIN))
def test_values_and_derivatives_are_those_of_the_plain_function(name: str) -> None:
    args = inputs(name)
    torch.testing.assert_close(HAND[name](*args), PLAIN[name](*args))
    assert torch.autograd.gradcheck(HAND[name], args)
    # gradients also come in other layouts than the results have
    weights = torch.randn(8, 2, 5, 3, dtype=torch.float64).permute(3, 2, 1, 0)
    wanted = [a for a in args if a.requires_grad]
    got, want = (torch.autograd.grad(f(*args), wanted, weights) for f in (HAND[name], PLAIN[name]))
    for g, w in zip(got, want, strict=True):
        torch.testing.assert_close(g, w)


def test_inputs_and_gradients_are_left_as_they_were() -> None:
    for name in PLAIN:
        args = inputs(name)
        y = HAND[name](*args)
        weights = torch.randn_like(y)
        before = [a.detach().clone() for a in (*args, weights)]
        torch.autograd.grad(y, [a for a in args if a.requires_grad], weights)
        assert all(torch.equal(a, b) for a, b in zip(before, (*args, weights), strict=True))


def test_a_frozen_gain_gets_no_gradient() -> None:
    x, weight = torch.randn(4, 8, requires_grad=True), torch.ones(8)
    RMS.apply(x, weight, EPS).sum().backward()
    assert weight.grad is None and x.grad is not None


def test_the_whole_model_is_the_same_by_hand_and_plain(monkeypatch: pytest.MonkeyPatch) -> None:
    model = build_model(config(), 23)
    ids = torch.randint(23, (2, 16))

    def gradients() -> list[torch.Tensor]:
        model.zero_grad()
        loss, _ = model.loss(ids, ids.roll(-1, 1))
        loss.backward()
        return [loss.detach(), *(p.grad.clone() for p in model.parameters() if p.grad is not None)]

    by_hand = gradients()
    for module in (norm, position):
        monkeypatch.setattr(module, "by_hand", lambda x: False)
    for a, b in zip(by_hand, gradients(), strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-5)


def test_plain_operations_where_others_must_see_them() -> None:
    x = torch.randn(4, 8)
    seen: list[bool] = []
    assert fused.by_hand(x)
    assert not fused.by_hand(x.bfloat16()) and not fused.by_hand(x.to("meta"))
    with torch.autocast("cpu", dtype=torch.bfloat16):
        assert not fused.by_hand(x)
    torch.func.vmap(lambda row: (seen.append(fused.by_hand(row)), row)[1])(x)
    assert seen == [False]
    model = build_model(config(), 23).eval()
    parameters = {k: p.detach() for k, p in model.named_parameters()}
    stacked = {k: torch.stack([p, p]) for k, p in parameters.items()}
    ids = torch.randint(23, (2, 16))
    out = torch.func.vmap(lambda p: torch.func.functional_call(model, p, (ids,)))(stacked)
    torch.testing.assert_close(out[1], model(ids), rtol=1e-4, atol=1e-5)
