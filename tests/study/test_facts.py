"""What planning asks of torch about this machine."""

from __future__ import annotations

import time

import pytest
import torch

from ablab.study import facts


@pytest.mark.parametrize(("slow", "expected"), [(torch.bfloat16, True), (torch.float32, False), (None, False)])
def test_bf16_is_judged_by_what_a_product_takes(
    monkeypatch: pytest.MonkeyPatch, slow: torch.dtype | None, expected: bool
) -> None:
    """A clock that runs faster while the slow kind is multiplied."""
    now, last = [0.0], [None]
    ones = torch.ones

    def made(*shape: int, dtype: torch.dtype) -> torch.Tensor:
        last[0] = dtype
        return ones(*shape, dtype=dtype)

    def clock() -> float:
        now[0] += 10.0 if last[0] is slow and slow is not None else 1.0
        return now[0]

    monkeypatch.setattr(torch, "ones", made)
    monkeypatch.setattr(time, "perf_counter", clock)
    assert facts.bf16_is_slower(width=8) is expected


def test_the_machine_is_known() -> None:
    assert facts.machine("cpu") == {"device": "cpu", "count": 1}
