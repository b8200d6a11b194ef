"""Which figures a study gets, drawn and turned into bytes."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from ablab.analysis import figures
from ablab.analysis.curves import with_time
from ablab.analysis.facts import Facts
from ablab.analysis.style import RC, looks, render

if TYPE_CHECKING:
    from matplotlib.figure import Figure


def draw(facts: Facts, formats: Sequence[str]) -> dict[str, dict[str, bytes]]:
    """Every figure that the study has data for, by name and format (SVG always among them)."""
    from matplotlib import rc_context

    wanted = list(dict.fromkeys(["svg", *formats]))
    with rc_context(RC):
        return {
            name: render(figure, wanted) for name, figure in _figures(facts).items() if figure is not None
        }


def _figures(facts: Facts) -> dict[str, Figure | None]:
    rows, base, plan = facts.rows, facts.base, facts.plan
    look = looks([row.label for row in facts.table.rows], base.label if base else None)
    comparisons = [item for item in facts.report["comparisons"] if item["primary"]]
    singles = {}
    for row in rows if base else []:
        shared = sorted(set(row.values) & set(base.values)) if base else []
        singles[row.label] = {seed: row.values[seed] - base.values[seed] for seed in shared} if base else {}
    for row in rows:
        for run in row.runs:
            with_time(run)
    return {
        "forest": figures.forest(comparisons, singles, look, plan.margin, facts.inference.level),
        "curves_tokens": figures.curves(rows, look, "tokens"),
        "curves_time": figures.curves(rows, look, "minutes"),
        "difference": figures.difference_curves(rows, base, look, plan.margin) if base else None,
        "seeds": figures.slopes(rows, look),
    }
