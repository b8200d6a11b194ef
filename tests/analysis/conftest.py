"""Hand-made run folders and studies for the tests of the analysis."""

from __future__ import annotations

import json
import math
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest
import yaml


class Pool:
    """A folder of run folders, as training leaves them behind."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def run(
        self,
        choices: Mapping[str, str],
        seed: int = 0,
        final: float | None = 1.5,
        *,
        name: str | None = None,
        state: str = "finished",
        steps: int = 60,
        every: int = 20,
        config: Mapping[str, Any] | None = None,
        status: Mapping[str, Any] | None = None,
        rows: Sequence[Mapping[str, Any]] | None = None,
    ) -> Path:
        """One run that falls from about 4 to `final` nats, evaluated every `every` steps and at its end."""
        folder = self.root / (name or "-".join([*choices.values(), f"seed{seed}"]))
        folder.mkdir(parents=True)
        content = {"choices": dict(choices), "seed": seed, **(config or {})}
        (folder / "config.yaml").write_text(yaml.safe_dump(content, sort_keys=False, allow_unicode=True))
        lines = curve(final, steps, every) if rows is None and final is not None else rows or []
        (folder / "metrics.jsonl").write_text("".join(json.dumps(line) + "\n" for line in lines))
        known = {
            "state": state, "step": steps, "steps": steps, "reason": None, "heartbeat": 1.7e9, "seed": seed,
            "data_hash": "d" * 64, "batch_hash": f"{seed:064d}", "parameters": 1000, "flops_per_token": 6000,
        }  # fmt: skip
        (folder / "status.json").write_text(json.dumps({**known, **(status or {})}))
        return folder

    def grid(self, finals: Mapping[tuple[str, str], Sequence[float]]) -> None:
        """norm x ffn, one run per value, seeds counted from 0."""
        for (norm, ffn), values in finals.items():
            for seed, final in enumerate(values):
                self.run({"norm": norm, "ffn": ffn}, seed, final)

    def study(self, name: str, cells: Sequence[Mapping[str, Any]], factors: Mapping[str, Any], **rest: Any) -> Path:
        """A study over runs of this pool: `cells` hold factors, seed and folder."""
        folder = self.root / "studies" / name
        folder.mkdir(parents=True)
        numbered = [
            {
                "index": number,
                "run": str(cell["folder"])[-10:],
                "label": ",".join(f"{key}={value}" for key, value in cell["factors"].items()),
                "overrides": [f"{key}={value}" for key, value in cell["factors"].items()] + [f"seed={cell['seed']}"],
                **cell,
            }
            for number, cell in enumerate(cells)
        ]
        content = {
            "study": name,
            "question": None,
            "command": "python run.py -m norm=rms,layer seed=0",
            "declared": "2026-01-02T03:04:05+0000",
            "code": {"version": "0.1.0", "commit": "c" * 40, "dirty": False},
            "factors": factors,
            "baseline": {key: levels[0] for key, levels in factors.items()},
            "nuisance": [], "selection_seeds": [], "looks": [], "unstable": [], "additions": [], "warnings": [],
            "design": "factorial", "margin": 0.005, "alpha": 0.05, "noise": None, "cells": numbered,
        }  # fmt: skip
        (folder / "study.json").write_text(json.dumps({**content, **rest}))
        return folder


def curve(final: float, steps: int, every: int) -> list[dict[str, Any]]:
    """Rows of a run: training numbers every five steps, validation every `every` steps and at the end."""
    rows = []
    for step in sorted({*range(0, steps, 5), *range(0, steps, every), steps}):
        loss = final + (4.0 - final) * math.exp(-8 * step / steps) * (step < steps)
        row: dict[str, Any] = {"step": step, "tokens": step * 64}
        if step:
            row |= {"train/loss": loss - 0.01, "train/grad_norm": 1.0, "lr": 1e-3, "tokens_per_second": 640.0}
        if step % every == 0 or step == steps:
            row["val/loss"] = loss
        rows.append(row)
    return rows


@pytest.fixture
def pool(tmp_path: Path) -> Pool:
    """An empty pool of runs."""
    return Pool(tmp_path / "runs")


@pytest.fixture(scope="module")
def module_pool(tmp_path_factory: pytest.TempPathFactory) -> Pool:
    """An empty pool that the tests of one module share."""
    return Pool(tmp_path_factory.mktemp("pool") / "runs")
