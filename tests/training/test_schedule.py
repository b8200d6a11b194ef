from __future__ import annotations

import logging
from itertools import pairwise

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablab.errors import UsageError
from ablab.training.schedule import Cosine


@settings(max_examples=200, deadline=None)
@given(steps=st.integers(1, 300), warmup=st.none() | st.integers(0, 400), ratio=st.floats(0, 1))
def test_rises_then_falls_then_ends_at_the_minimum(steps: int, warmup: int | None, ratio: float) -> None:
    schedule = Cosine(steps, warmup_steps=warmup, min_lr_ratio=ratio)
    scales = [schedule.scale(i) for i in range(steps)]
    peak = max(schedule.warmup_steps - 1, 0)
    assert scales[-1] == ratio
    assert all(0 <= s <= 1 for s in scales)
    assert all(a < b for a, b in pairwise(scales[: peak + 1]))
    assert all(a >= b for a, b in pairwise(scales[peak:]))
    assert steps == 1 or scales[peak] == 1.0
    assert schedule.scale(steps) == schedule.scale(10 * steps) == ratio


def test_known_values() -> None:
    schedule = Cosine(12, warmup_steps=2, min_lr_ratio=0.1)
    assert [schedule.scale(i) for i in (0, 1, 6, 11)] == pytest.approx([0.5, 1.0, 0.55, 0.1])
    assert Cosine(300).warmup_steps == 30


def test_a_warm_up_as_long_as_the_run_is_cut_and_says_so(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.WARNING):
        assert Cosine(6, warmup_steps=30).warmup_steps == 5
    assert "schedule.warmup_steps=30" in caplog.text and "5" in caplog.text


@pytest.mark.parametrize(
    ("key", "options"),
    [
        ("train.steps=0", {"steps": 0}),
        ("schedule.warmup_steps=-1", {"steps": 9, "warmup_steps": -1}),
        ("schedule.warmup_steps=1.5", {"steps": 9, "warmup_steps": 1.5}),
        ("schedule.min_lr_ratio=1.5", {"steps": 9, "min_lr_ratio": 1.5}),
        ("schedule.min_lr_ratio=nan", {"steps": 9, "min_lr_ratio": float("nan")}),
    ],
)
def test_values_out_of_range_are_named(key: str, options: dict) -> None:
    with pytest.raises(UsageError, match=key):
        Cosine(options.pop("steps"), **options)
