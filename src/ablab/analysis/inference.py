"""The judgement of a study: comparisons, factorial effects and divergence, by the tests of `ablab.analysis.stats`."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

import numpy as np
import pandas as pd

from ablab.analysis.cells import Row, Table, baseline_row
from ablab.analysis.levels import text
from ablab.analysis.plan import Plan
from ablab.analysis.tuning import ledger
from ablab.errors import UsageError

MIN_SEEDS = 3
#: keys of a comparison in report.json, in order
KEYS = ("label", "baseline", "primary", "n_pairs", "difference", "ci", "p", "p_adjusted", "method", "verdict",
        "practical", "mde", "n_needed")  # fmt: skip


@dataclass
class Inference:
    """What was inferred, in the form of `report.json`, and what the report needs beside it.

    `level` is the family-wise level at this look; `spread` the sd of the paired differences by label.
    """

    comparisons: list[dict[str, Any]] = field(default_factory=list)
    main_effects: list[dict[str, Any]] = field(default_factory=list)
    interactions: list[dict[str, Any]] = field(default_factory=list)
    simple_effects: list[dict[str, Any]] = field(default_factory=list)
    divergence: list[dict[str, Any]] = field(default_factory=list)
    warnings: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)
    level: float = 0.05
    spread: dict[str, float | None] = field(default_factory=dict)
    correlation: dict[str, float | None] = field(default_factory=dict)


def runs_frame(rows: Sequence[Row]) -> pd.DataFrame:
    """Cells as the table that the statistics take: a row per planned run, a column per factor (levels as text)."""
    records = []
    for row in rows:
        for entry in row.entries:
            value = entry.value
            records.append(
                {
                    "label": row.label,
                    "seed": entry.cell.seed,
                    "loss": np.nan if value is None else value,
                    "state": entry.state,
                    **{key: text(level) for key, level in row.factors.items()},
                }
            )
    factors = list(rows[0].factors) if rows else []
    return pd.DataFrame(records, columns=["label", "seed", "loss", "state", *factors])


def infer(plan: Plan, table: Table, base: Row | None) -> Inference:
    """Judge every cell against the baseline of its group, the primary ones as one family, and the factors together."""
    found = Inference(level=plan.alpha)
    groups = dict.fromkeys(tuple(row.group.items()) for row in table.rows)
    for group in groups:
        rows = [row for row in table.rows if tuple(row.group.items()) == group]
        reference = base if group == table.main else baseline_row(plan, rows)
        if reference is not None:
            _compare(found, plan, table, rows, reference, main=group == table.main)
    if base is not None and any(row.count("diverged") for row in table.compared):
        from ablab.analysis.stats.failures import divergence

        found.divergence = [asdict(item) for item in divergence(runs_frame(table.compared), base.label, plan.alpha)]
    seeds = max((len(row.values) for row in table.compared), default=0)
    if plan.factors and plan.design == "factorial" and seeds >= 2:
        _factorial(found, plan, table)
    return found


def changed(row: Row, base: Row) -> list[str]:
    """Factors in which a cell differs from the baseline."""
    return [key for key, level in row.factors.items() if text(level) != text(base.factors[key])]


def _order(row: Row, base: Row) -> tuple[int, list[int]]:
    """One-factor changes first, in the order of the factors; the sort keeps the order of the cells beyond that."""
    keys = list(row.factors)
    found = [keys.index(key) for key in changed(row, base)]
    return (len(found), found)


def is_unstable(row: Row, names: Sequence[str]) -> bool:
    """Whether a cell was declared unstable: by its label, by one `key=option` of it, or by an option."""
    words = {row.label, *row.label.split(","), *(text(level) for level in row.factors.values())}
    return bool(words & set(names))


def _compare(found: Inference, plan: Plan, table: Table, rows: Sequence[Row], base: Row, main: bool) -> None:
    others = sorted((row for row in rows if row is not base), key=lambda row: _order(row, base))
    primary = {row.label for row in others if len(changed(row, base)) == 1 or not row.factors} if main else set()
    pairs = {row.label: sorted(set(row.values) & set(base.values)) for row in others}
    most = max((len(seeds) for seeds in pairs.values()), default=0)
    edges = {item.label for item in ledger(plan, table) if item.edges} if main else set()
    results: dict[str, dict[str, Any]] = {}
    if most >= MIN_SEEDS:
        level = _level(found, plan, most, main)
        runs = runs_frame([*rows])
        for labels in ([row.label for row in others if (row.label in primary) == kind] for kind in (True, False)):
            if labels:
                results |= _family(found, plan, rows, runs, base, labels, level)
    for row in others:
        values = [row.values[seed] - base.values[seed] for seed in pairs[row.label]]
        plain = {
            "label": row.label,
            "baseline": base.label,
            "n_pairs": len(values),
            "difference": math.fsum(values) / len(values) if values else None,
            "verdict": "inconclusive",
            "practical": "unclear",
        }
        known = {**plain, **results.get(row.label, {}), "primary": row.label in primary}
        item = {key: known.get(key) for key in KEYS}
        if (reason := _refusal(str(item["verdict"]), row.label in edges, base.label in edges)) and item["ci"]:
            item |= {"verdict": "inconclusive", "practical": "unclear", "refused": reason}
        found.comparisons.append(item)


def _refusal(verdict: str, variant_at_edge: bool, baseline_at_edge: bool) -> str | None:
    """Why a verdict is not given: an arm whose tuned value ends its grid may be better than it looks."""
    if variant_at_edge and verdict in ("worse", "equivalent"):
        return "since its best tuned value lies on the edge of the grid"
    if baseline_at_edge and verdict in ("better", "equivalent"):
        return "since the baseline's best tuned value lies on the edge of the grid"
    return None


def _level(found: Inference, plan: Plan, n: int, main: bool) -> float:
    """The level at this look: lower than alpha where more looks were declared. That of the main group is kept."""
    from ablab.analysis.stats.looks import level_at, planned_level

    declared = len({cell.seed for cell in plan.cells if not cell.added} - set(plan.selection_seeds))
    if not plan.looks or (not plan.additions and planned_level(declared, plan.looks, plan.alpha) == plan.alpha):
        return plan.alpha
    look = level_at(n, plan.looks, plan.alpha)
    if main:
        found.level = look.level
        found.warnings += [look.note] if look.note else []
    return look.level


def _family(
    found: Inference, plan: Plan, rows: Sequence[Row], runs: pd.DataFrame, base: Row, labels: list[str], level: float
) -> dict[str, dict[str, Any]]:
    from ablab.analysis.stats.family import compare

    unstable = [row.label for row in rows if is_unstable(row, plan.unstable)]
    family = compare(runs, base.label, labels, margin=plan.margin, alpha=level, unstable=unstable, screen=plan.screen)
    found.notes += family.reasons
    results = {}
    for item in family.comparisons:
        found.spread[item.label], found.correlation[item.label] = item.std_difference, item.correlation
        values = asdict(item)
        results[item.label] = {key: values[key] for key in KEYS if key in values}
    return results


def _factorial(found: Inference, plan: Plan, table: Table) -> None:
    from ablab.analysis.stats.factorial import factorial

    factors = [key for key, levels in plan.factors.items() if len(levels) > 1]
    baseline = {key: text(level) for key, level in plan.baseline.items()}
    try:
        result = factorial(runs_frame(table.compared), factors, baseline=baseline, alpha=found.level)
    except UsageError as error:
        found.notes.append(str(error))
        return
    for effect in result.main_effects:
        found.main_effects.append({"factor": effect.factors[0], **_test(effect), "levels": dict(effect.levels)})
    found.interactions = [{"factors": list(effect.factors), **_test(effect)} for effect in result.interactions]
    found.simple_effects = [asdict(contrast) for contrast in (*result.simple_effects, *result.level_contrasts)]
    found.notes += result.aliases


def _test(effect: Any) -> dict[str, Any]:
    return {"df": effect.df, "sum_sq": effect.sum_sq, "F": effect.F, "p": effect.p}
