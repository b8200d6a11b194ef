"""Differences as tokens: what they are worth, and who reached the declared loss first."""

from __future__ import annotations

import math
from typing import Any

from ablab.analysis.document import MISSING, Column, Items, Section, compact, fixed, short_count
from ablab.analysis.facts import Facts
from ablab.analysis.pages.common import FOLD_AT, shown
from ablab.analysis.sizes import LENGTHS, Slope


def section(facts: Facts) -> Section:
    """Empty where the study has neither a slope nor a target."""
    made, found = Section("Sizes in tokens", "tokens"), facts.sizes
    swept = found.slope and any(key in LENGTHS for key in facts.plan.factors)
    if not (found.worth or found.reached or swept):
        return made
    columns = [
        Column("variant", shown), Column("difference", fixed(4, True), True), Column("worth", worth, True),
        Column("interval of the worth", _interval, True), Column("tokens to the target", short_count, True),
        Column("reached by"), Column("ratio to the baseline", str, True),
    ]  # fmt: skip
    differences = {item["label"]: item["difference"] for item in facts.report["comparisons"]}
    rows = []
    for row in facts.rows:
        value, reached, ratio = found.worth.get(row.label), found.reached.get(row.label), found.ratios.get(row.label)
        rows.append([
            row.label, differences.get(row.label), value[0] if value else None, value[1:] if value else None,
            reached["tokens"] if reached else None, f"{reached['reached']} of {reached['of']}" if reached else "",
            _ratio(ratio) if ratio else "",
        ])  # fmt: skip
    made.add(Items(sentences(found.slope, found.target)))
    return made.add(compact("sizes", columns, rows, folded=len(rows) > FOLD_AT))


def sentences(slope: Slope | None, target: float | None) -> list[str]:
    """Where the numbers come from and how to read them."""
    lines = []
    if slope is not None:
        twice = abs(slope.value) * math.log(2)
        lines.append(
            f"Twice the tokens lower the loss of the baseline by {twice:.4f} nats here (dL / d ln D = {fixed(4)(slope.value)}, "
            f"{slope.source}). Worth: by how many per cent more tokens the baseline would gain the same, exp(−difference / "
            f"{abs(slope.value):.4f}) − 1; the slope's own error is not in the interval"
        )
    if target is not None:
        lines.append(
            f"Tokens to the target: up to the first evaluation at or under the declared loss of {target:g} (geometric mean of "
            "the runs that reached it; the ratio is a mean of logs over paired seeds, and runs that missed make it a bound)"
        )
    return lines


def worth(percent: float | None) -> str:
    """`+12.3 %`, and a factor where per cent would be hard to read."""
    if percent is None:
        return MISSING
    return f"×{1 + percent / 100:.3g}" if percent >= 900 else f"{fixed(1, True)(percent)} %"


def _interval(ends: list[float] | None) -> str:
    return f"[{worth(ends[0])}, {worth(ends[1])}]" if ends else MISSING


def _ratio(ratio: dict[str, Any]) -> str:
    if ratio["ratio"] is None:
        return f"none: {ratio['missed_variant']} and {ratio['missed_baseline']} of {ratio['n']} missed"
    sign = {"=": "", ">=": "≥ ", "<=": "≤ "}[ratio["bound"]]
    return f"{sign}{ratio['ratio']:.3f}"
