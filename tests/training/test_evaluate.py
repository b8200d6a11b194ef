from __future__ import annotations

import math

import pytest
import torch
import torch.nn.functional as F
from support.tiny_cell import Cell, same

from ablab.data import eval_windows
from ablab.model import build_model
from ablab.training.device import Runtime, runtime
from ablab.training.evaluate import Evaluation, Evaluator

CPU = Runtime(torch.device("cpu"), "fp32")


def evaluator(cell: Cell, batch_size: int, crew: int = 1) -> Evaluator:
    windows = eval_windows(cell.data.val, 16)
    return Evaluator(windows, batch_size, len(cell.data.val) / cell.data.val_bytes, CPU, crew)


@pytest.mark.parametrize("crew", [2, 5])
def test_batches_at_a_time_give_the_same_bits_and_stop_when_asked(cell: Cell, crew: int) -> None:
    model = build_model(cell.cfg(), cell.data.vocab_size)
    with runtime("cpu", 1, "fp32"):
        assert evaluator(cell, 2, crew)(model) == evaluator(cell, 2)(model)
        asked: list[int] = []
        assert evaluator(cell, 2, crew)(model, lambda: "enough" if asked.append(1) or len(asked) > 1 else None) is None
    assert model.training and len(asked) == 2


def test_is_the_mean_over_every_token_after_the_first_whatever_the_batch_size(cell: Cell) -> None:
    model = build_model(cell.cfg(), cell.data.vocab_size)
    losses = []
    for x, y in eval_windows(cell.data.val, 16):
        logits = model(torch.from_numpy(x)[None])[0]
        losses += F.cross_entropy(logits, torch.from_numpy(y), reduction="none")[torch.from_numpy(y) != -100].tolist()
    assert len(losses) == len(cell.data.val) - 1
    windows = len(eval_windows(cell.data.val, 16))
    for batch_size in (1, 2, 3, 5, windows - 1, windows, windows + 1, 1000):
        result = evaluator(cell, batch_size)(model)
        assert result is not None and result.loss == pytest.approx(sum(losses) / len(losses), abs=1e-5)


def test_bits_per_byte_counts_bytes_and_not_tokens(cell: Cell) -> None:
    model = build_model(cell.cfg(), cell.data.vocab_size)
    half = Evaluator(eval_windows(cell.data.val, 16), 8, 0.25, CPU)(model)
    assert half is not None and half.bits_per_byte == pytest.approx(half.loss / math.log(2) / 4)


def test_dropout_is_off_and_neither_mode_nor_random_numbers_change(cell: Cell) -> None:
    model = build_model(cell.cfg(model__dropout=0.5), cell.data.vocab_size)
    for training in (True, False):
        model.train(training)
        random = torch.get_rng_state()
        first, second = evaluator(cell, 4)(model), evaluator(cell, 4)(model)
        assert first == second
        assert torch.equal(random, torch.get_rng_state())
        assert model.training is training and all(m.training is training for m in model.modules())


def test_how_often_is_evaluated_has_no_effect_on_training(cell: Cell) -> None:
    seldom = cell.cfg(model__dropout=0.3, train__eval_every=6)
    cell.train("seldom", seldom)
    cell.train("often", cell.cfg(model__dropout=0.3, train__eval_every=1, train__eval_batch_size=3))
    a, b = cell.last("seldom"), cell.last("often")
    assert same(a["model"], b["model"]) and same(a["random"], b["random"]) and a["batch_hash"] == b["batch_hash"]
    trained = [[row for row in cell.rows(name) if "train/loss" in row] for name in ("seldom", "often")]
    for one, other in zip(*trained, strict=True):
        assert {k: v for k, v in one.items() if not k.startswith("val/")} == {
            k: v for k, v in other.items() if not k.startswith("val/")
        }


def test_a_stop_in_between_ends_it_without_a_result_and_restores_the_mode(cell: Cell) -> None:
    model = build_model(cell.cfg(), cell.data.vocab_size)
    model.train()
    answers = iter([None, None, "SIGTERM"])
    assert evaluator(cell, 1)(model, lambda: next(answers)) is None
    assert model.training


def test_a_loss_beyond_the_range_of_exp_is_an_infinite_perplexity() -> None:
    assert Evaluation(800.0, 1.0).perplexity == math.inf
    assert math.isnan(Evaluation(math.nan, 1.0).perplexity)
    assert Evaluation(math.log(30), 1.0).perplexity == pytest.approx(30)
