"""Rates chosen on selection seeds and reported on others; sensitivity; noise and single seeds."""

from __future__ import annotations

import math

import numpy as np
import pandas as pd
import pytest

from ablab.analysis import stats
from ablab.errors import UsageError

GRID = {1e-4: 3.3, 3e-4: 3.1, 1e-3: 3.0, 3e-3: 3.2}


def sweep(label: str, grid: dict[float, float], seeds: range = range(3), luck: float = 0.0) -> list[dict[str, object]]:
    """One run per rate and seed; seed 0 is luckier by `luck`."""
    return [
        {"label": label, "optimizer.lr": r, "seed": s, "loss": loss - luck * (s == 0), "state": "finished"}
        for r, loss in grid.items()
        for s in seeds
    ]


def test_chosen_on_one_seed_reported_on_the_others() -> None:
    (tuned,) = stats.tune(pd.DataFrame(sweep("a", GRID, luck=0.5)))
    assert (tuned.rate, tuned.edge, tuned.trials) == (1e-3, None, 4)
    assert tuned.selection_loss == pytest.approx(2.5)
    assert set(tuned.reported) == {1, 2} and tuned.reported_mean == pytest.approx(3.0)  # no winner's curse


def test_edges_and_divergence() -> None:
    low = dict(zip(GRID, [1.0, 2.0, 3.0, 4.0], strict=True))
    rows = sweep("low", low) + sweep("high", dict(zip(GRID, [4.0, 3.0, 2.0, 1.0], strict=True)))
    runs = pd.DataFrame(rows + sweep("lost", low))
    dead = (runs["label"] == "lost") & (runs["optimizer.lr"] == 1e-4) & (runs["seed"] == 0)
    runs.loc[dead, ["state", "loss"]] = ["diverged", math.nan]
    found = {t.label: t for t in stats.tune(runs)}
    assert (found["low"].edge, found["high"].edge) == ("low", "high")
    assert (found["lost"].rate, found["lost"].edge) == (3e-4, None)
    assert found["lost"].diverged == (1e-4,) and found["lost"].curve[1e-4] is None


def test_everything_diverged() -> None:
    runs = pd.DataFrame(sweep("a", GRID)).assign(state="diverged", loss=math.nan)
    (tuned,) = stats.tune(runs)
    assert tuned.rate is None and tuned.edge is None and tuned.reported == {} and tuned.reported_mean is None
    assert stats.common_rate([tuned]) is None


def test_common_rate_and_unequal_grids() -> None:
    other = {1e-4: 3.0, 3e-4: 3.0, 1e-3: 3.5, 3e-3: 4.0}
    tuned = stats.tune(pd.DataFrame(sweep("a", GRID) + sweep("b", other)))
    assert stats.common_rate(tuned) == 3e-4 and stats.unequal_grids(tuned) is None
    short = stats.tune(pd.DataFrame(sweep("a", GRID) + sweep("b", {1e-3: 3.0})))
    sentence = stats.unequal_grids(short)
    assert sentence is not None and "b: 1 trials over 1 rates" in sentence


def test_tuning_refuses_what_it_cannot_do() -> None:
    runs = pd.DataFrame(sweep("a", GRID))
    with pytest.raises(UsageError, match=r"optimizer\.lr"):
        stats.tune(runs.drop(columns="optimizer.lr"))
    with pytest.raises(UsageError, match="selection_seeds"):
        stats.tune(runs, selection_seeds=())


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


def test_one_seed_says_what_was_seen_and_no_verdict() -> None:
    found = stats.one_seed(demo(), {"norm": "layer", "ffn": "swiglu"}, ["norm", "ffn"], noise=0.004)
    norm, ffn = found
    assert (norm.factor, norm.level, norm.reference) == ("norm", "rms", "layer")
    assert norm.differences == (("swiglu", pytest.approx(0.012)), ("relu", pytest.approx(0.009)))
    assert norm.sentence.startswith("norm: rms − layer: +0.0120 under swiglu, +0.0090 under relu")
    assert norm.ratio == pytest.approx(3.0) and "3.0 times" in norm.sentence
    assert ffn.level == "relu" and len(ffn.differences) == 2
    for word in ("better", "worse", "significant"):
        assert word not in norm.sentence + ffn.sentence


def test_one_seed_skips_absent_cells_and_unknown_noise() -> None:
    runs = demo()
    runs.loc[runs["label"] == "rms,relu", ["state", "loss"]] = ["failed", math.nan]
    norm = stats.one_seed(runs, {"norm": "layer", "ffn": "swiglu"}, ["norm", "ffn"])[0]
    assert [where for where, _ in norm.differences] == ["swiglu"] and norm.ratio is None
    assert "noise" not in norm.sentence


def test_what_more_seeds_could_find() -> None:
    found = stats.could_find(0.004)
    assert found == pytest.approx({3: 0.004 * 3.264, 5: 0.004 * 1.682}, rel=1e-3)
    assert np.all(np.diff(list(found.values())) < 0)
