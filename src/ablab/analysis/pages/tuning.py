"""Tuned values: the ledger of trials, the curves over the rate, both views, and sensitivity."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ablab.analysis import tuning
from ablab.analysis.document import Column, Grid, Section, Text, count, fixed, word
from ablab.analysis.facts import Facts
from ablab.analysis.levels import label, text
from ablab.analysis.pages.common import FOLD_AT, figure, shown


def section(facts: Facts, pictures: Collection[str]) -> Section:
    """Everything about swept rates; empty where none was swept."""
    made = Section("Tuning", "tuning")
    plan, table = facts.plan, facts.table
    key = tuning.rate_key(plan)
    if key is None:
        return made
    curves = tuning.rate_curves(plan, table, key)
    start = tuning.start_loss(table)
    if plan.nuisance:
        made.add(*_ledger(facts))
    made.add(figure(
        pictures, "rates",
        f"Final loss over {key}. A cross marks a rate at which a run diverged. Means over the seeds that finished.",
    ))  # fmt: skip
    rows: list[list[Any]] = []
    for name, points in curves.items():
        known = [point for point in points if point.loss is not None]
        best = min(known, key=lambda point: point.loss or 0.0) if known else None
        rows.append([name, len(points), best.rate if best else None, best.loss if best else None,
                     tuning.sensitivity(points, start) if start is not None else None, sum(point.diverged for point in points)])  # fmt: skip
    columns = [Column("variant", shown), Column("values", count, True), Column(f"best {key}", word, True),
               Column("loss there", fixed(4), True), Column("sensitivity", fixed(4), True), Column("diverged runs", count, True)]  # fmt: skip
    caption = "Sensitivity: mean over the grid of min(loss, first loss) − lowest loss; 0 is a variant that does not care. A diverged rate counts as the first loss."
    return made.add(Grid("rates", columns, rows, caption, folded=len(rows) > FOLD_AT))


def _ledger(facts: Facts) -> list[Grid | Text]:
    trials = tuning.ledger(facts.plan, facts.table)
    common = tuning.common_rate(facts.plan, facts.table)
    cells = {item["label"]: item for item in facts.report["cells"]}
    columns = [Column("variant", shown), Column("trials", count, True), Column("on seeds"), Column("chosen"),
               Column("edge of the grid", word), Column("loss, tuned", fixed(4), True), Column("loss, common setting", fixed(4), True)]  # fmt: skip
    rows = [
        [item.label, item.trials, ", ".join(map(str, item.seeds)), _levels(item.chosen), ", ".join(item.edges) or None,
         cells[item.label]["mean"], common[1].get(item.label) if common else None]
        for item in trials
    ]  # fmt: skip
    where = f" The common setting is the baseline's: {label(common[0])}." if common else ""
    return [
        Text(f"Both views: every variant at its own tuned values, and all at one common setting.{where}"),
        Grid("tuning", columns, rows),
    ]


def _levels(levels: dict[str, Any]) -> str:
    return ", ".join(f"{key}={text(level)}" for key, level in levels.items())
