from __future__ import annotations

import json
import math
from collections.abc import Callable
from typing import Any

import pytest
import torch
from hypothesis import given
from hypothesis import strategies as st
from support.tiny_cell import Cell, poison

from ablab.training.divergence import diverged


@given(loss=st.floats(), first=st.none() | st.floats(0, 20), vocab=st.integers(2, 10**6), warm=st.booleans())
def test_the_rule(loss: float, first: float | None, vocab: int, warm: bool) -> None:
    reason = diverged(loss, first, vocab, warm)
    high = warm and first is not None and loss > max(first, math.log(vocab)) + 0.5
    assert (reason is not None) == (high or not math.isfinite(loss))


@pytest.mark.parametrize(("at", "value"), [*((at, math.nan) for at in range(1, 7)), (3, math.inf)])
def test_non_finite_weights_end_the_run_as_diverged_and_are_never_saved(
    cell: Cell, after_step: Callable[..., None], at: int, value: float
) -> None:
    """Whatever is due after the bad step: a line, an evaluation, a checkpoint, nothing, or the end."""
    for log, evaluate, save in ((1, 3, 2), (100, 100, 2), (100, 4, 100)):
        name = f"{log}-{evaluate}-{save}"
        after_step(at, poison(value))
        cfg = cell.cfg(train__log_every=log, train__eval_every=evaluate, train__checkpoint_every=save)
        outcome = cell.train(name, cfg)
        assert outcome.state == "diverged" and outcome.reason and "finite" in outcome.reason
        assert outcome.step in (at, at + 1)
        assert cell.files(name) == {"last.pt", "best.pt"}
        for file in ("last.pt", "best.pt"):
            content = cell.last(name, file)
            assert all(w.isfinite().all() for w in content["model"].values())
            assert content["step"] < at
        assert math.isfinite(cell.last(name, "best.pt")["loss"])
        status = cell.status(name)
        assert (status["state"], status["step"], status["reason"]) == ("diverged", outcome.step, outcome.reason)
        assert 0 < status["lr"] <= cfg.optimizer.lr
        text = (cell.folder / name / "metrics.jsonl").read_text()
        assert [json.loads(line, parse_constant=pytest.fail) for line in text.splitlines()]


def test_a_bad_gradient_is_found_though_the_loss_is_fine(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    from ablab.model import DecoderLM

    plain = DecoderLM.loss
    calls = 0

    def loss(self: DecoderLM, ids: torch.Tensor, targets: torch.Tensor) -> Any:
        nonlocal calls
        total, count = plain(self, ids, targets)
        calls += self.training
        if calls == 2 and self.training:
            total.register_hook(lambda gradient: gradient * math.inf)
        return total, count

    monkeypatch.setattr(DecoderLM, "loss", loss)
    outcome = cell.train("run", cell.cfg(train__log_every=1))
    assert (outcome.state, outcome.step) == ("diverged", 2)
    row = cell.rows("run")[-1]
    assert row["step"] == 2 and row["train/loss"] is not None and row["train/grad_norm"] is None


def test_the_first_bad_step_is_named_and_not_the_step_of_the_look(cell: Cell, after_step: Callable[..., None]) -> None:
    after_step(2, poison(math.nan))
    cfg = cell.cfg(train__log_every=6, train__eval_every=6, train__checkpoint_every=6)
    outcome = cell.train("run", cfg)
    assert outcome.step == 3
    rows = cell.rows("run")
    assert rows[-1]["step"] == 6 and rows[-1]["train/loss"] is None and "val/loss" not in rows[-1]


def test_a_finite_loss_far_above_chance_is_divergence_only_after_the_warm_up(
    cell: Cell, after_step: Callable[..., None]
) -> None:
    def break_it(optimizer: torch.optim.Optimizer) -> None:
        for group in optimizer.param_groups:
            for p in group["params"]:
                p.data.mul_(30)

    after_step(3, break_it)
    outcome = cell.train("after", cell.cfg(schedule__warmup_steps=2))
    assert (outcome.state, outcome.step) == ("diverged", 3)
    assert outcome.reason and outcome.reason.startswith("validation loss ")
    assert cell.last("after")["step"] == 0  # the checkpoint due at step 3 would have been a bad one
    assert cell.rows("after")[-1]["val/loss"] > 4
    assert 0 < cell.status("after")["lr"] < 1e-3
    after_step(3, break_it)
    cell.train("within", cell.cfg(schedule__warmup_steps=4))
    assert [r["step"] for r in cell.rows("within") if "val/loss" in r] == [0, 3, 6]


def test_a_stop_does_not_hide_a_divergence(
    cell: Cell, after_step: Callable[..., None], stop_after: Callable[[int], Callable[[], str | None]]
) -> None:
    cfg = cell.cfg(train__log_every=100, train__eval_every=100, train__checkpoint_every=100)
    for steps in (2, 3):  # right after the bad step, and one step later
        after_step(2, poison(math.nan))
        assert cell.train(str(steps), cfg, stop=stop_after(steps)).state == "diverged"
        assert all(w.isfinite().all() for w in cell.last(str(steps))["model"].values())


def test_a_run_that_starts_broken_has_an_outcome(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    from ablab.training import run

    def broken(cfg: Any, vocab_size: int) -> torch.nn.Module:
        model = build(cfg, vocab_size)
        torch.nn.init.constant_(model.layers[0].attn.q_proj.weight, math.nan)
        return model

    build = run.build_model
    monkeypatch.setattr(run, "build_model", broken)
    outcome = cell.train("run")
    assert (outcome.state, outcome.step) == ("diverged", 0)
    assert not (cell.folder / "run" / "checkpoints").exists()
    assert cell.rows("run") == [
        {"step": 0, "tokens": 0, "val/loss": None, "val/bits_per_byte": None, "val/perplexity": None}
    ]
