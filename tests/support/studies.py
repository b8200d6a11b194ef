"""Plans made by hand, without training."""

from __future__ import annotations

from pathlib import Path

import ablab
from ablab.study.identity import run_id
from ablab.study.plan import Cell, Plan, describe

COSTS = {"parameters": 100, "non_embedding": 80, "flops_per_token": 600, "d_ff": 8, "ffn_residual": 0.0}


def small_plan(runs_dir: Path, *variants: str, seeds: tuple[int, ...] = (0,), source: str = "s") -> Plan:
    """A study `small` of these variants (each one override of one key), seed by seed."""
    cells = []
    for seed in seeds:
        for variant in variants:
            cfg = ablab.compose([variant, f"seed={seed}", "train.steps=6", "tracker=none"])
            cell = Cell(len(cells), (variant, f"seed={seed}"), cfg, seed, costs=dict(COSTS))
            cell.base = run_id({"variant": variant, "seed": seed})
            cell.id = run_id({"base": cell.base, "source": source})
            cell.folder = f"run-{cell.id}"
            cells.append(cell)
    key = variants[0].partition("=")[0]
    describe(cells, [key])
    factors = {key: list(dict.fromkeys(cell.factors[key] for cell in cells))}
    baseline = {key: factors[key][0]}
    return Plan("small", runs_dir, cells, factors, baseline, cells[0].cfg.study, "python run.py", {"version": "0"})
