"""Differences as tokens, in the report: the slope's source, the worth, tokens to a declared target, epochs."""

from __future__ import annotations

import math
from pathlib import Path

import pytest

from ablab.analysis.pages.build import document
from ablab.analysis.render_text import markdown
from ablab.analysis.report import read_facts

SEEDS = (0, 1, 2)


def rows(final: float, steps: int = 40) -> list[dict]:
    """A straight fall from 4 nats, evaluated every ten steps of 64 tokens."""
    return [
        {"step": s, "tokens": 64 * s, "val/loss": final + (4.0 - final) * (1 - s / steps)}
        for s in range(0, steps + 1, 10)
    ]


def study(pool, finals: dict[str, float], **declared) -> Path:
    """One factor, three seeds whose losses differ a little."""
    cells = []
    for norm, final in finals.items():
        for seed in SEEDS:
            folder = pool.run({"norm": norm}, seed, rows=rows(final + 0.001 * seed * (1 + (norm == "layer"))), steps=40,
                              status={"train_tokens": 5120})  # fmt: skip
            cells.append({"factors": {"norm": norm}, "seed": seed, "folder": folder.name})
    return pool.study("s", cells, {"norm": list(finals)}, **declared)


def test_without_slope_or_target_nothing_is_said(pool) -> None:
    facts = read_facts([study(pool, {"rms": 1.5, "layer": 1.6})])
    assert facts.report["tokens"] == {"slope": None, "target": None, "worth": {}, "reached": {}, "ratios": {}}
    assert "Sizes in tokens" not in markdown(document(facts, ()))


def test_a_declared_slope_turns_differences_into_tokens(pool) -> None:
    facts = read_facts([study(pool, {"rms": 1.5, "layer": 1.4}, slope=-0.2, noise={"slope": -9.0})])
    (item,) = facts.report["comparisons"]
    worth = facts.report["tokens"]["worth"]["norm=layer"]
    expected = [100 * (math.exp(-x / 0.2) - 1) for x in (item["difference"], item["ci"][1], item["ci"][0])]
    assert worth == pytest.approx(expected, rel=1e-12) and worth[1] < worth[0] < worth[2]
    page = markdown(document(facts, ()))
    assert "declared as study.slope" in page and "0.1386 nats" in page and f"+{worth[0]:.1f} %" in page


def test_the_slope_comes_from_lengths_swept_in_the_study(pool) -> None:
    cells = []
    for steps in (20, 40, 80):
        for norm, gain in (("rms", 0.0), ("layer", -0.05)):
            loss = 3.0 - 0.3 * math.log(steps * 64) + gain
            folder = pool.run({"norm": norm}, 0, rows=rows(loss, steps), steps=steps, name=f"{norm}{steps}",
                              config={"train": {"steps": steps}})  # fmt: skip
            cells.append({"factors": {"norm": norm, "train.steps": steps}, "seed": 0, "folder": folder.name})
    path = pool.study("s", cells, {"norm": ["rms", "layer"], "train.steps": [20, 40, 80]}, noise={"slope": -9.0})
    found = read_facts([path]).report["tokens"]
    assert found["slope"]["value"] == pytest.approx(-0.3, rel=1e-9) and "3 lengths" in found["slope"]["source"]
    assert list(found["worth"]) == ["norm=layer,train.steps=20"]  # another length has no worth in tokens
    assert found["worth"]["norm=layer,train.steps=20"] == pytest.approx([100 * (math.exp(0.05 / 0.3) - 1)])


def test_a_slope_measured_before_is_the_last_resort(pool) -> None:
    found = read_facts([study(pool, {"rms": 1.5, "layer": 1.4}, noise={"sd": 0.01, "slope": -0.4})]).report["tokens"]
    assert found["slope"] == {"value": -0.4, "source": "measured before at this scale"}


def test_tokens_to_the_target_and_misses(pool) -> None:
    finals = {"rms": 1.5, "layer": 1.0, "identity": 3.0}
    facts = read_facts([study(pool, finals, target=2.2)])
    found = facts.report["tokens"]
    # rms: 4, 3.375, 2.75, 2.125 at 30 steps; layer: 4, 3.25, 2.5, 1.75 at 30; identity never
    assert found["reached"]["norm=rms"] == {"tokens": pytest.approx(1920), "reached": 3, "of": 3}
    assert found["reached"]["norm=identity"] == {"tokens": None, "reached": 0, "of": 3}
    assert found["ratios"]["norm=layer"]["ratio"] == pytest.approx(1.0)
    assert (found["ratios"]["norm=identity"]["bound"], found["ratios"]["norm=identity"]["missed_variant"]) == (">=", 3)
    assert found["ratios"]["norm=identity"]["ratio"] == pytest.approx(2560 / 1920)
    page = markdown(document(facts, ()))
    assert "≥ 1.333" in page and "0 of 3" in page and "Target loss, timed in tokens: 2.2 nats per token" in page


def test_a_diverged_run_counts_as_a_miss(pool) -> None:
    path = study(pool, {"rms": 1.5}, target=2.2)
    broken = pool.run({"norm": "layer"}, 0, rows=rows(1.5)[:2], steps=40, state="diverged", name="broken")
    path = pool.study("t", [
        *({"factors": {"norm": "rms"}, "seed": s, "folder": f"rms-seed{s}"} for s in SEEDS),
        {"factors": {"norm": "layer"}, "seed": 0, "folder": broken.name},
    ], {"norm": ["rms", "layer"]}, target=2.2)  # fmt: skip
    found = read_facts([path]).report["tokens"]
    assert found["reached"]["norm=layer"] == {"tokens": None, "reached": 0, "of": 1}
    assert found["ratios"]["norm=layer"]["bound"] == ">="


def test_epochs_stand_beside_the_costs(pool) -> None:
    page = markdown(document(read_facts([study(pool, {"rms": 1.5, "layer": 1.4})]), ()))
    assert "epochs" in page and "| 0.50 |" in page
