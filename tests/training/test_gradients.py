"""Several threads of one run, each with a part of the micro-batch: the same gradients, as reproducible as one thread."""

from __future__ import annotations

import threading

import pytest
import torch
from support.tiny_cell import Cell, Killed, after, kill, same
from torch import nn

from ablab.errors import UsageError
from ablab.model import build_model
from ablab.training import gradients
from ablab.training import run as run_module
from ablab.training.device import Runtime, runtime
from ablab.training.gradients import Gradients, independent
from ablab.training.run import Run
from ablab.training.status import Status


@pytest.fixture(autouse=True)
def worth_it(monkeypatch: pytest.MonkeyPatch) -> None:
    """However small the model, threads may share it."""
    monkeypatch.setattr(run_module, "WORTH", 0)


@pytest.fixture
def two_threads():
    """The process computes with two threads."""
    with runtime("cpu", 2, "fp32") as where:
        yield where


def grads(model: nn.Module, x: torch.Tensor, where: Runtime, parts: int, times: int = 1) -> tuple[float, list]:
    """Loss and gradients of `x` taken `times` times in so many parts."""
    parameters = list(model.parameters())
    made = Gradients(model, parameters, where, parts)
    try:
        loss = sum(float(made.add(x, x.roll(-1, 1), x.numel())) for _ in range(times))
    finally:
        made.close()
    found = [None if p.grad is None else p.grad.clone() for p in parameters]
    model.zero_grad()
    return loss, found


@pytest.mark.parametrize("embedding", ["tied", "untied"])
@pytest.mark.parametrize("batch", [2, 5])
def test_parts_give_the_gradients_of_the_whole(cell: Cell, two_threads: Runtime, batch: int, embedding: str) -> None:
    model = build_model(cell.cfg(choices__embedding=embedding), 30)
    x = torch.randint(30, (batch, 16), generator=torch.Generator().manual_seed(0))
    whole, parts = grads(model, x, two_threads, 1, times=2), grads(model, x, two_threads, 2, times=2)
    assert parts[0] == pytest.approx(whole[0], rel=1e-6)
    for a, b in zip(whole[1], parts[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)
    again = grads(model, x, two_threads, 2, times=2)
    assert same(parts[1], again[1])  # no race decides the order of a sum


def test_a_parameter_without_a_part_keeps_no_gradient(cell: Cell, two_threads: Runtime) -> None:
    model = build_model(cell.cfg(), 30)
    model.register_parameter("idle", nn.Parameter(torch.ones(3)))
    _, found = grads(model, torch.arange(32).view(2, 16) % 30, two_threads, 2)
    assert [p is None for p in found] == [name == "idle" for name, _ in model.named_parameters()]


def test_an_error_in_a_part_is_the_run_s_error(cell: Cell, two_threads: Runtime) -> None:
    model = build_model(cell.cfg(), 30)
    with pytest.raises(UsageError, match="outside the vocabulary"):
        grads(model, torch.full((2, 16), 99), two_threads, 2)


def test_two_threads_are_reproducible_and_close_to_one(cell: Cell) -> None:
    cfg = cell.cfg(train__threads=2, train__batch_size=4, train__grad_accum=2)
    for name in ("a", "b"):
        cell.train(name, cfg)
    cell.train("one", cell.cfg(train__batch_size=4, train__grad_accum=2))
    assert cell.rows("a") == cell.rows("b") and same(cell.state("a"), cell.state("b"))
    for two, one in zip(cell.rows("a"), cell.rows("one"), strict=True):
        assert two.get("val/loss", 0) == pytest.approx(one.get("val/loss", 0), rel=1e-4)
    assert not [t for t in threading.enumerate() if t.name.startswith("part")]


def test_a_killed_run_of_two_threads_goes_on_bit_for_bit(cell: Cell) -> None:
    cfg = cell.cfg(train__threads=2)
    cell.train("whole", cfg)
    with pytest.raises(Killed), after(5, kill):
        cell.train("cut", cfg)
    cell.train("cut", cfg)
    assert cell.rows("cut") == cell.rows("whole") and same(cell.state("cut"), cell.state("whole"))


class SharedShift(nn.Module):
    """x + (a + b) + sum(c): autograd hands a and b the same memory, and c an expanded one."""

    def __init__(self) -> None:
        super().__init__()
        self.a, self.b, self.c = (nn.Parameter(torch.full((32,), 0.1)) for _ in range(3))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + (self.a + self.b) + self.c.sum()


def test_parameters_whose_gradients_share_memory_get_their_own(cell: Cell, two_threads: Runtime) -> None:
    model = build_model(cell.cfg(), 30)
    model.layers[0].ffn = nn.Sequential(model.layers[0].ffn, SharedShift())
    x = torch.randint(30, (4, 16), generator=torch.Generator().manual_seed(0))
    whole, parts = grads(model, x, two_threads, 1, times=2), grads(model, x, two_threads, 2, times=2)
    for a, b in zip(whole[1], parts[1], strict=True):
        torch.testing.assert_close(a, b, rtol=1e-4, atol=1e-7)


class OverBatch(nn.Module):
    """Takes the mean over the batch away: sequences depend on each other."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x - x.mean(0, keepdim=True)


class Counting(nn.Module):
    """Counts its calls in a buffer, that nothing reads."""

    def __init__(self) -> None:
        super().__init__()
        self.register_buffer("calls", torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls += 1
        return x


class Replacing(Counting):
    """Puts another tensor in the place of its buffer at every call."""

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.calls = self.calls + 1
        return x


class BehindAGate(nn.Module):
    """Statistics over the batch that nobody sees while the gate is at its first value."""

    def __init__(self) -> None:
        super().__init__()
        self.gate = nn.Parameter(torch.zeros(()))

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        return x + self.gate * (x - x.mean(0, keepdim=True))


class Remembers(nn.Module):
    """State in a plain attribute."""

    seen: torch.Tensor | float = 0.0

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        self.seen = 0.9 * self.seen + 0.1 * x.detach().mean()
        return x - self.seen


EXTRAS = [None, nn.Dropout(0.1), OverBatch(), Counting(), Replacing(), nn.BatchNorm1d(16), BehindAGate(), Remembers()]


@pytest.mark.parametrize("extra", EXTRAS, ids=lambda extra: type(extra).__name__)
def test_only_models_that_allow_it_are_taken_apart(cell: Cell, extra: nn.Module | None) -> None:
    model = build_model(cell.cfg(), 30)
    if extra is not None:
        model.layers[0].ffn = nn.Sequential(model.layers[0].ffn, extra)
    weights = {name: tensor.clone() for name, tensor in model.state_dict().items()}
    random = torch.get_rng_state()
    assert independent(model, 30) is (extra is None)
    assert torch.equal(random, torch.get_rng_state())
    assert all(torch.equal(tensor, weights[name]) for name, tensor in model.state_dict().items())


def test_threads_are_shared_out_evenly() -> None:
    assert [gradients.shared_out(threads) for threads in (1, 2, 3, 4, 5, 6, 8, 14)] == [1, 2, 3, 4, 1, 3, 4, 2]


@pytest.mark.parametrize(
    ("changes", "bounds", "spare", "parts", "crew"),
    [
        ({"train__threads": 1}, (0, 10**12), 1, 1, (1, 1)),
        ({"train__threads": 1}, (0, 10**12), 3, 1, (3, 1)),
        ({"train__threads": 2}, (0, 10**12), 1, 2, (2, 1)),
        ({"train__threads": 2}, (0, 10**12), 2, 2, (4, 1)),
        ({"train__threads": 2}, (10**12, 10**13), 2, 1, (1, 2)),  # too little to do
        ({"train__threads": 2}, (0, 1), 1, 1, (1, 2)),  # large operations
        ({"train__threads": 2}, (0, 1), 3, 1, (3, 2)),
        ({"train__threads": 2, "train__batch_size": 1}, (0, 10**12), 1, 1, (2, 1)),
        ({"train__threads": 2, "train__compile": True}, (0, 10**12), 2, 1, (1, 2)),
        ({"train__threads": 2, "model__dropout": 0.1}, (0, 10**12), 1, 1, (2, 1)),  # evaluation draws nothing
    ],
)
def test_who_works_on_what(
    cell: Cell,
    monkeypatch: pytest.MonkeyPatch,
    changes: dict,
    bounds: tuple[int, int],
    spare: int,
    parts: int,
    crew: tuple,
) -> None:
    for name, bound in zip(("WORTH", "LARGE"), bounds, strict=True):
        monkeypatch.setattr(run_module, name, bound)
    cfg = cell.cfg(**changes)
    with runtime("cpu", cfg.train.threads, "fp32") as where:
        run = Run(cfg, cell.folder, cell.data, where, Status(cell.folder), [], print, spare=spare)
        run.gradients.close()
    assert run.gradients.parts == parts and (run.evaluate._crew, run.evaluate._threads) == crew
    assert run.model.training


@pytest.mark.parametrize("dropout", [0.0, 0.3])
def test_spare_cores_change_no_number(cell: Cell, dropout: float) -> None:
    cfg = cell.cfg(train__eval_batch_size=2, model__dropout=dropout)
    cell.train("one", cfg)
    cell.train("three", cfg, spare=3)
    assert cell.rows("three") == cell.rows("one") and same(cell.state("three"), cell.state("one"))
    assert not [t for t in threading.enumerate() if t.name.startswith("evaluation")]
