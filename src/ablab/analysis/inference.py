"""The judgement of a study: comparisons, factorial effects and divergence, by the tests of `ablab.analysis.stats`."""

from __future__ import annotations

import math
from dataclasses import dataclass, field
from typing import Any

from ablab.analysis.cells import Row, Table
from ablab.analysis.levels import text
from ablab.analysis.plan import Plan


@dataclass
class Inference:
    """What was inferred, in the form of `report.json`, and what the report needs beside it."""

    comparisons: list[dict[str, Any]] = field(default_factory=list)
    main_effects: list[dict[str, Any]] = field(default_factory=list)
    interactions: list[dict[str, Any]] = field(default_factory=list)
    simple_effects: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    level: float = 0.05


def infer(plan: Plan, table: Table, base: Row | None) -> Inference:
    """Judge every cell of the compared group against the baseline."""
    found = Inference(level=plan.alpha)
    if base is None:
        return found
    for row in table.compared:
        if row is not base:
            found.comparisons.append(_comparison(row, base))
    return found


def changed(row: Row, base: Row) -> list[str]:
    """Factors in which a cell differs from the baseline."""
    return [key for key, level in row.factors.items() if text(level) != text(base.factors[key])]


def _comparison(row: Row, base: Row) -> dict[str, Any]:
    seeds = sorted(set(row.values) & set(base.values))
    differences = [row.values[seed] - base.values[seed] for seed in seeds]
    return {
        "label": row.label,
        "baseline": base.label,
        "primary": len(changed(row, base)) == 1,
        "n_pairs": len(seeds),
        "difference": math.fsum(differences) / len(seeds) if seeds else None,
        "ci": None,
        "p": None,
        "p_adjusted": None,
        "method": None,
        "verdict": "inconclusive",
        "practical": "unclear",
        "mde": None,
        "n_needed": None,
    }
