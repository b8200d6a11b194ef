"""Which figures a study gets, drawn and turned into bytes."""

from __future__ import annotations

import itertools
import math
from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from ablab.analysis import figures, tuning
from ablab.analysis.cells import Row
from ablab.analysis.curves import with_axes
from ablab.analysis.facts import Facts
from ablab.analysis.levels import label, text
from ablab.analysis.style import RC, Look, looks, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure

MAX_PAIRS = 6


def draw(facts: Facts, formats: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Every figure that the study has data for, by name and format (SVG always among them)."""
    from matplotlib import rc_context

    wanted = list(dict.fromkeys(["svg", *formats]))
    with rc_context(RC):
        return {name: render(figure, wanted) for name, figure in _figures(facts).items() if figure is not None}


def _figures(facts: Facts) -> dict[str, Figure | None]:
    rows, base, plan = facts.rows, facts.base, facts.plan
    look = looks(_by_importance(facts), base.label if base else None)
    for row in rows:
        for run in row.runs:
            with_axes(run)
    costs = {run.status.get("flops_per_token") for row in rows for run in row.runs}
    key = tuning.rate_key(plan)
    return {
        "forest": figures.forest(_compared(facts), _singles(rows, base), look, plan.margin, facts.unit),
        "curves_tokens": figures.curves(rows, look, "tokens"),
        "curves_flops": figures.curves(rows, look, "flops") if len(costs) > 1 else None,
        "curves_time": figures.curves(rows, look, "minutes"),
        "difference": figures.difference_curves(rows, base, look, plan.margin) if base else None,
        "seeds": figures.slopes(rows, look),
        "rates": _rates(facts, key, look) if key else None,
        "interactions": figures.interactions(_pairs(facts, look)),
    }


def _by_importance(facts: Facts) -> list[str]:
    """Labels with the primary variants first, so that these get the colours that no other variant shares."""
    primary = [item["label"] for item in facts.report["comparisons"] if item["primary"]]
    return list(dict.fromkeys([*primary, *(row.label for row in facts.table.rows)]))


def _compared(facts: Facts) -> list[dict[str, Any]]:
    """Primary comparisons; where there is none, all of the judged group."""
    judged = {row.label for row in facts.rows}
    items = [item for item in facts.report["comparisons"] if item["label"] in judged]
    return [item for item in items if item["primary"]] or items


def _singles(rows: Sequence[Row], base: Row | None) -> dict[str, dict[int, float]]:
    """Paired differences to the baseline by label and seed."""
    if base is None:
        return {}
    known = base.values
    return {
        row.label: {seed: value - known[seed] for seed, value in row.values.items() if seed in known} for row in rows
    }


def _rates(facts: Facts, key: str, look: dict[str, Look]) -> Figure | None:
    curves = tuning.rate_curves(facts.plan, facts.table, key)
    by_name = {
        label({k: v for k, v in row.factors.items() if k != key}): look[row.label] for row in reversed(facts.rows)
    }
    if (
        key in facts.plan.factors
    ):  # the rate is a factor: a line runs through several variants and gets a colour of its own
        base = label({k: v for k, v in facts.plan.baseline.items() if k != key})
        by_name = looks(list(curves), base)
    lines = [
        (name, [(point.rate, point.loss, point.diverged > 0) for point in points]) for name, points in curves.items()
    ]
    return figures.rates(lines, key, by_name, facts.unit)


def _pairs(facts: Facts, look: dict[str, Look]) -> list[dict[str, Any]]:
    """Means over every two factors, for the interaction plots; the strongest interactions first when there are many."""
    factors = {key: levels for key, levels in facts.plan.factors.items() if len(levels) > 1}
    if len(factors) < 2 or facts.plan.design != "factorial":
        return []
    p = {tuple(item["factors"]): item["p"] for item in facts.report["interactions"]}
    pairs = list(itertools.combinations(factors, 2))
    if len(pairs) > MAX_PAIRS:
        pairs = sorted(pairs, key=lambda pair: 1.0 if p.get(pair) is None else p[pair])[:MAX_PAIRS]
    found = []
    for line, x in pairs:
        if len(factors[line]) > len(factors[x]):
            line, x = x, line
        cells = [[_cell(facts, {line: one, x: other}) for other in factors[x]] for one in factors[line]]
        found.append({
            "x": x, "line": line, "x_levels": [text(level) for level in factors[x]],
            "line_levels": [text(level) for level in factors[line]],
            "means": [[_mean(rows) for rows in group] for group in cells],
            "looks": [[look[rows[0].label] if rows else None for rows in group] for group in cells] if len(factors) == 2 else None,
        })  # fmt: skip
    return found


def _cell(facts: Facts, levels: dict[str, Any]) -> list[Row]:
    wanted = {key: text(level) for key, level in levels.items()}
    return [row for row in facts.rows if all(text(row.factors[key]) == level for key, level in wanted.items())]


def _mean(rows: Sequence[Row]) -> float | None:
    """Mean of cell means; None where a cell is empty, since the mean of the rest would not compare."""
    means = [math.fsum(row.values.values()) / len(row.values) for row in rows if row.values]
    return math.fsum(means) / len(means) if means and len(means) == len(rows) else None
