"""Rates chosen on selection seeds and reported on others; sensitivity; noise and single seeds."""

from __future__ import annotations

import math

import pandas as pd
import pytest

from ablab.analysis import stats

GRID = {1e-4: 3.3, 3e-4: 3.1, 1e-3: 3.0, 3e-3: 3.2}


def sweep(label: str, grid: dict[float, float], seeds: range = range(3), luck: float = 0.0) -> list[dict[str, object]]:
    """One run per rate and seed; seed 0 is luckier by `luck`."""
    return [
        {"label": label, "optimizer.lr": r, "seed": s, "loss": loss - luck * (s == 0), "state": "finished"}
        for r, loss in grid.items()
        for s in seeds
    ]


def test_sensitivity_by_hand() -> None:
    losses = {1e-4: 3.5, 1e-3: 3.0, 1e-2: None, 1e-1: 9.0}
    assert stats.sensitivity(losses, 4.0) == pytest.approx((3.5 + 3.0 + 4.0 + 4.0) / 4 - 3.0)
    assert stats.sensitivity({1e-3: 2.0}, 4.0) == 0.0
    assert stats.sensitivity({1e-3: math.nan, 1e-2: math.inf}, 4.0) == 0.0
    assert stats.sensitivity({}, 4.0) is None


def test_noise_floor() -> None:
    floor = stats.noise_floor([0.002, -0.002, 0.001, -0.001])
    assert floor is not None and floor.n == 4 and floor.mean == 0.0 and floor.largest == 0.002
    assert floor.std_difference == pytest.approx(math.sqrt(1e-5 / 3))
    assert floor.std_run == pytest.approx(floor.std_difference / math.sqrt(2))
    assert floor.ci is not None and floor.ci[0] < floor.std_difference < floor.ci[1]
    one = stats.noise_floor([0.002])
    assert one is not None and one.std_difference is None and one.ci is None
    assert stats.noise_floor([]) is None


def test_share_of_false_verdicts() -> None:
    fine = stats.false_verdict_share(["better"] + ["inconclusive"] * 19)
    assert fine is not None and (fine.count, fine.total, fine.ok) == (1, 20, True)
    bad = stats.false_verdict_share(["better", "worse"] * 5 + ["equivalent"] * 10)
    assert bad is not None and bad.share == 0.5 and not bad.ok
    assert stats.false_verdict_share([]) is None


def demo() -> pd.DataFrame:
    losses = {("rms", "swiglu"): 3.012, ("layer", "swiglu"): 3.0, ("rms", "relu"): 3.109, ("layer", "relu"): 3.1}
    return pd.DataFrame(
        [
            {"label": f"{a},{b}", "norm": a, "ffn": b, "seed": 0, "loss": x, "state": "finished"}
            for (a, b), x in losses.items()
        ]
    )
