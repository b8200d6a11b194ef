"""Every budget becomes a number of steps."""

from __future__ import annotations

import pytest

import ablab
from ablab import UsageError
from ablab.study import budget
from ablab.study.budget import steps, tokens_per_step

COSTS = {"non_embedding": 1000, "flops_per_token": 6000}
SHAPE = ["model.context_length=10", "train.batch_size=4", "train.grad_accum=2"]  # 80 tokens a step


def bought(word: str, seconds: float | None = None) -> int:
    return steps(ablab.compose([*SHAPE, word]), COSTS, seconds)


def test_tokens_per_step() -> None:
    assert tokens_per_step(ablab.compose(SHAPE)) == 80


@pytest.mark.parametrize(
    ("word", "count"),
    [
        ("train.steps=7", 7),
        ("train.tokens=800", 10),
        ("train.tokens=879", 10),  # whole steps, never more than was asked for
        ("train.tokens=80", 1),
        ("train.tokens_per_parameter=20", 250),
        ("train.flops=4.8e6", 10),
        ("train.flops=1.44e12", 3_000_000),
    ],
)
def test_steps(word: str, count: int) -> None:
    assert bought(word) == count


def test_many_epochs_are_warned_of() -> None:
    assert budget.repeats(4.0) == []
    (line,) = budget.repeats(7.25)
    assert "seen 7.2 times" in line and "memorises" in line


def test_a_span_is_one_number_where_all_look_alike() -> None:
    assert budget.span([1.501, 1.499]) == "1.50" and budget.span([2, 1.5]) == "1.50 to 2.00"


def test_minutes_need_a_speed() -> None:
    assert bought("train.minutes=2", 0.5) == 240
    with pytest.raises(UsageError, match=r"train\.minutes"):
        bought("train.minutes=2")


@pytest.mark.parametrize("word", ["train.tokens=79", "train.tokens_per_parameter=0.05", "train.flops=1000"])
def test_less_than_a_step(word: str) -> None:
    with pytest.raises(UsageError, match=f"{word.partition('=')[0]}=.* is less than one step of 80 tokens"):
        bought(word)
