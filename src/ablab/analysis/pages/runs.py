"""Curves, failures and what was left out, every run, and how to make it all again."""

from __future__ import annotations

from collections.abc import Collection

from ablab.analysis import timing
from ablab.analysis.document import Code, Column, Grid, Items, Section, Text, count, duration, fixed, word
from ablab.analysis.facts import Facts
from ablab.analysis.pages.common import FOLD_AT, figure, shown
from ablab.analysis.pages.first import WARNINGS


def curves(facts: Facts, pictures: Collection[str]) -> Section:
    """Loss along training."""
    several = any(len(row.finished) > 1 for row in facts.rows)
    lost = any(len(row.finished) < len(row.runs) for row in facts.rows)
    note = (
        " Thick lines are means over the finished seeds, up to the end of the shortest run; thin ones single seeds."
        if several
        else ""
    )
    note += " Dotted: runs that did not finish; a cross marks where one diverged." if lost else ""
    return Section("Curves", "curves").add(
        figure(pictures, "curves_tokens", f"Loss against training tokens.{note}"),
        figure(pictures, "curves_flops", "Validation loss against training FLOPs."),
        figure(pictures, "curves_time", "Loss against training time, without evaluation."),
        figure(pictures, "difference", "Difference of the validation loss to the baseline along training, paired by seed. "
               f"The band is the margin.{' Thick lines are means over seeds.' if several else ''}"),
    )  # fmt: skip


def left_out(facts: Facts) -> Section:
    """Failures and everything that was left out."""
    made = Section("Failures and what was left out", "left-out")
    warnings, excluded = facts.report["warnings"], facts.report["excluded"]
    if len(warnings) > WARNINGS:
        made.add(Items(warnings))
    if not excluded:
        return made.add(Text("Every planned run finished and counts; nothing was left out."))
    rows = [[item["run"], item["reason"]] for item in excluded]
    return made.add(Grid("left_out", [Column("run"), Column("reason")], rows, folded=len(rows) > FOLD_AT))


def every_run(facts: Facts) -> Section:
    """Every run with its state and final loss."""
    columns = [
        Column("run"), Column("variant", shown), Column("seed", str, True), Column("state"), Column("final loss", fixed(4), True),
        Column("steps", count, True), Column("time", duration, True), Column("note", word),
    ]  # fmt: skip
    rows = []
    for row in facts.table.rows:
        for entry in row.entries:
            run = entry.run
            steps = run.status.get("step", run.steps()) if run else None
            rows.append([entry.name, row.label, entry.cell.seed, run.state if run else "missing", entry.value, steps,
                         timing.seconds(run) if run else None, run.notes if run else None])  # fmt: skip
    if all(values[-1] is None for values in rows):
        columns, rows = columns[:-1], [values[:-1] for values in rows]
    return Section("Every run", "runs").add(Grid("runs", columns, rows, folded=len(rows) > FOLD_AT))


def reproduce(facts: Facts) -> Section:
    """The one command that makes the study and this report again."""
    made = Section("How to reproduce it", "reproduce")
    if facts.plan.command:
        made.add(Text("This command trains what is missing and makes the report again:"), Code(facts.plan.command))
    return made
