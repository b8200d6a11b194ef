"""What a plan says that its seeds can find: the family and the level that the report will use."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
from omegaconf import OmegaConf

from ablab.analysis import stats
from ablab.study.forecast import family, power
from ablab.study.plan import Cell, Plan

SETTINGS = {"alpha": 0.05, "margin": 0.005, "looks": [], "nuisance": [], "selection_seeds": []}


def plan(factors: dict[str, list[Any]], seeds: int = 3, noise: dict | None = None, **settings: Any) -> Plan:
    """A full factorial over these factors, without configs."""
    points: list[dict[str, Any]] = [{}]
    for key, levels in factors.items():
        points = [point | {key: level} for point in points for level in levels]
    cells = [Cell(0, (), OmegaConf.create(), seed, factors=point) for seed in range(seeds) for point in points]
    base = {key: levels[0] for key, levels in factors.items()}
    return Plan("s", Path(), cells, factors, base, OmegaConf.create(SETTINGS | settings), "", {}, noise=noise)


def factor(lines: list[str], n: int) -> float:
    """The factor printed for n seeds."""
    (line,) = [line for line in lines if line.startswith(f"  n = {n}:")]
    return float(re.findall(r"n = \d+: ([\d.]+) s", line)[0])


def test_only_one_factor_changes_are_the_family() -> None:
    assert family(plan({"norm": ["rms", "layer"], "ffn": ["swiglu", "relu"]})) == 2
    assert family(plan({"norm": ["rms", "layer", "identity"]})) == 2
    assert family(plan({"norm": ["rms", "layer"], "optimizer.lr": [1, 2, 3]}, nuisance=["optimizer.lr"])) == 1
    assert family(plan({"norm": ["rms"]})) == 0 and power(plan({"norm": ["rms"]})) == []


@pytest.mark.parametrize(("looks", "seeds", "lower"), [([], 3, False), ([3, 5, 8], 3, True), ([3, 5], 8, False)])
def test_declared_looks_lower_the_level(looks: list[int], seeds: int, lower: bool) -> None:
    lines = power(plan({"norm": ["rms", "layer"]}, seeds, looks=looks))
    level = stats.look_level(looks) if lower else 0.05
    assert factor(lines, 3) == pytest.approx(stats.mde_factor(3, level), abs=0.006)
    assert (f"looks {looks}" in lines[0]) is lower and factor(lines, 8) > 0


def test_selection_seeds_find_nothing() -> None:
    made = plan({"norm": ["rms", "layer"]}, seeds=7, selection_seeds=[0])
    assert [line for line in power(made) if line.startswith("  n = 6:")]
    assert not [line for line in power(made) if line.startswith("  n = 7:")]


def test_known_noise_gives_nats_and_equivalence_its_limit() -> None:
    lines = power(plan({"norm": ["rms", "layer"]}, noise={"sd": 0.02, "n": 5}))
    assert f"= {stats.mde_factor(3) * 0.02:.4f} nats (noise 0.0200, n = 5)" in lines[1]
    assert f"equivalence within ±0.005 needs s ≤ {stats.equivalence_limit(3, 0.005):.4f}" in lines[1]
    assert "is not known" in power(plan({"norm": ["rms", "layer"]}))[-1]
