"""Main effects, interactions and simple effects of a factorial."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ablab.analysis.document import Column, Grid, Section, Text, count, fixed, interval, p_value
from ablab.analysis.facts import Facts
from ablab.analysis.pages.common import FOLD_AT, figure


def section(facts: Facts, pictures: Collection[str]) -> Section:
    """Effects over the whole grid; empty for one factor."""
    made = Section("Main effects and interactions", "effects")
    report = facts.report
    if len(facts.plan.factors) < 2 or not report["main_effects"]:
        return made
    made.add(
        Text(
            "Main effects weigh the cells of the other factors equally; seed is a block. Under an interaction read the simple effects."
        )
    )
    columns = [Column("effect"), Column("df", count, True), Column("sum of squares", _small, True), Column("F", fixed(2), True),
               Column("p", p_value, True), Column("means")]  # fmt: skip
    rows: list[list[Any]] = [
        [item["factor"], item["df"], item["sum_sq"], item["F"], item["p"], _means(item["levels"])]
        for item in report["main_effects"]
    ]
    rows += [
        [" × ".join(item["factors"]), item["df"], item["sum_sq"], item["F"], item["p"], ""]
        for item in report["interactions"]
    ]
    made.add(Grid("effects", columns, rows))
    simple = [
        [f"{item['factor']}: {item['level']} − {item['reference']}", _at(item["at"]), item["n"], item["difference"], item["ci"], item["p"],
         item["p_adjusted"]]
        for item in report["simple_effects"]
    ]  # fmt: skip
    if simple:
        columns = [Column("simple effect"), Column("at"), Column("n", count, True), Column("difference", fixed(4, True), True),
                   Column("interval", interval(), True), Column("p", p_value, True), Column("p, Holm", p_value, True)]  # fmt: skip
        made.add(Grid("simple_effects", columns, simple, folded=len(simple) > FOLD_AT // 2))
    return made.add(figure(
        pictures, "interactions",
        "Mean final loss over the levels of two factors at a time. Lines that are not parallel mean that the factors interact.",
    ))  # fmt: skip


def _small(value: float) -> str:
    return f"{value:.3g}"


def _means(levels: dict[str, float]) -> str:
    return ", ".join(f"{level} {mean:.4f}" for level, mean in levels.items())


def _at(levels: dict[str, Any]) -> str:
    return ", ".join(f"{key}={level}" for key, level in levels.items()) or "mean over the others"
