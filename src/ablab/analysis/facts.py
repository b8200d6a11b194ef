"""`report.json`: everything the report states, as plain data. Text, tables and figures are made from it."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ablab.analysis import checks, tuning
from ablab.analysis.cells import STATES, Row, Table, assemble, baseline_row
from ablab.analysis.curves import best_point
from ablab.analysis.inference import Inference, infer
from ablab.analysis.levels import label
from ablab.analysis.metric import UNITS, compared_metric
from ablab.analysis.plan import Plan
from ablab.analysis.read import Run
from ablab.analysis.sizes import Sizes, sizes


@dataclass
class Facts:
    """A study with everything computed of it. `report` is what `report.json` holds."""

    plan: Plan
    table: Table
    base: Row | None
    inference: Inference
    pairing: list[checks.Pairing]
    report: dict[str, Any]
    sizes: Sizes = field(default_factory=Sizes)
    comparable: bool = True

    @property
    def rows(self) -> list[Row]:
        """Cells of the group that is judged."""
        return self.table.compared

    @property
    def metric(self) -> str:
        """What is compared, by its name in metrics.jsonl."""
        return str(self.report["metric"])

    @property
    def unit(self) -> str:
        """Its unit."""
        return UNITS[self.metric]

    @property
    def seeds(self) -> list[int]:
        """Seeds with a finished run in the group that is judged."""
        return sorted({seed for row in self.rows for seed in row.values})


def gather(plan: Plan, runs: Sequence[Run]) -> Facts:
    """All facts of a study, in the order in which the report tells them."""
    metric, remark, comparable = compared_metric(plan, runs)
    table = assemble(plan, runs, metric)
    base = baseline_row(plan, table.compared) if comparable else None
    inference = infer(plan, table, base) if comparable else Inference(level=plan.alpha)
    pairs = checks.pairing(table.compared) if remark is None else []
    warnings = [*([remark] if remark else []), *plan.warnings, *table.warnings]
    if base is None and plan.factors and comparable:
        warnings.append(f"no run of the baseline {label(plan.baseline)}: nothing can be compared with it")
    for row in table.rows:
        lost = [f"{row.count(state)} {state}" for state in STATES[1:] if row.count(state)]
        if lost:
            warnings.append(
                f"{row.label}: {len(row.values)} of {len(row.entries)} planned runs count ({', '.join(lost)})"
            )
    warnings += checks.pairing_warnings(pairs)
    warnings += checks.same_losses(table.compared)
    warnings += checks.lengths(table.compared, base, budget=plan.is_study)
    warnings += checks.collapsed(table.rows)
    warnings += checks.residuals(table.rows)
    warnings += checks.code_versions(table.rows)
    warnings += tuning.warnings(plan, tuning.ledger(plan, table))
    warnings += inference.warnings
    found = sizes(plan, table.compared, base, inference.comparisons)
    excluded = table.excluded + [{"run": name, "reason": reason} for name, reason in plan.older]
    report = {
        "metric": metric,
        "study": plan.name or None,
        "question": plan.question,
        "baseline": plan.baseline,
        "factors": plan.factors,
        "margin": plan.margin,
        "alpha": plan.alpha,
        "level": inference.level,
        "seeds": plan.seeds,
        "cells": [cell(row, plan.alpha) for row in table.rows],
        "comparisons": inference.comparisons,
        "main_effects": inference.main_effects,
        "interactions": inference.interactions,
        "simple_effects": inference.simple_effects,
        "divergence": inference.divergence,
        "tokens": asdict(found),
        "excluded": excluded,
        "warnings": list(dict.fromkeys(warnings)),
    }
    return Facts(plan, table, base, inference, pairs, clean(report), found, comparable)


def cell(row: Row, level: float) -> dict[str, Any]:
    """One entry of `cells`: counts, final losses and the best point, of one variant."""
    values = list(row.values.values())
    n = len(values)
    mean = math.fsum(values) / n if n else None
    std, ci = None, None
    if n >= 2 and mean is not None:
        std = math.sqrt(math.fsum((value - mean) ** 2 for value in values) / (n - 1))
    if n >= 3:
        from ablab.analysis.stats.noise import mean_interval

        ci = mean_interval(values, level)
    found = {
        "label": row.label,
        "factors": row.factors,
        "planned": len(row.entries),
        **{state: row.count(state) for state in STATES},
        "n": n,
        "mean": mean,
        "std": std,
        "ci": ci,
        "values": {str(seed): value for seed, value in row.values.items()},
        "best": best_point(row.finished or row.runs, row.metric),
    }
    if row.group:
        found["group"] = row.group
    if row.nuisance:
        found["chosen"] = row.nuisance
    return found


def clean(value: Any) -> Any:
    """The value with every number that is not finite as None, tuples as lists, keys as text."""
    if isinstance(value, Mapping):
        return {str(key): clean(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [clean(item) for item in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
