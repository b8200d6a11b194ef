"""The sections of the report, in order, made from the facts."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ablab.analysis import timing, words
from ablab.analysis.cells import METRIC, STATES, Row
from ablab.analysis.document import (
    MISSING, Code, Column, Document, Grid, Items, Picture, Section, Text, count, duration, fixed, interval, listed,
    p_value, short_count, word,
)  # fmt: skip
from ablab.analysis.facts import Facts
from ablab.analysis.levels import label, text

FOLD_AT = 40
NUMBER = {"number": True}


def document(facts: Facts, pictures: Collection[str]) -> Document:
    """The whole report; `pictures` are the names of the figures that were drawn."""
    plan = facts.plan
    title = plan.question or (f"Study {plan.name}" if plan.name else "Ablation report")
    made = [first(facts, pictures), declared(facts), cells(facts), paired(facts), curves(facts, pictures),
            left_out(facts), every_run(facts), reproduce(facts)]  # fmt: skip
    return Document(title, subtitle(facts), [section for section in made if section.blocks])


def subtitle(facts: Facts) -> str:
    """One line: name, size and seeds of the study."""
    rows, plan = facts.table.rows, facts.plan
    runs = sum(len(row.entries) for row in rows)
    finished = sum(len(row.values) for row in rows)
    name = f"Study {plan.name} · " if plan.name and plan.question else ""
    seeds = f"seeds {', '.join(map(str, plan.seeds))}" if len(plan.seeds) != 1 else f"seed {plan.seeds[0]}"
    return f"{name}{len(rows)} variant{'s' * (len(rows) != 1)} · {finished} of {runs} runs count · {seeds} · metric {METRIC}, nats per token, lower is better"


def first(facts: Facts, pictures: Collection[str]) -> Section:
    """The first screen: verdicts in words and the forest plot."""
    section = Section("", "verdicts")
    rows = {row.label: row for row in facts.rows}
    primary = [item for item in facts.report["comparisons"] if item["primary"]]
    most = max((len(row.values) for row in facts.rows), default=0)
    if most == 1:
        section.add(Text(
            "One seed shows that everything runs and what each switch did once. It is no verdict: "
            "a difference of this size may be the seed alone.", "lead",
        ))  # fmt: skip
        section.add(Items(words.seen(facts), "lead") if facts.plan.factors else None)
    elif facts.base is not None and primary:
        base = facts.base
        section.add(
            Items(
                [words.verdict(item, rows[item["label"]], base, facts.plan.margin) for item in primary],
                "lead",
            )
        )
    section.add(picture(
        pictures, "forest",
        f"Difference of each variant to the baseline ({label(facts.plan.baseline)}): mean and interval over paired seeds, "
        f"ticks are single seeds. The band is ±{facts.plan.margin:g} nats, the margin below which a difference is too "
        "small to matter.",
    ))  # fmt: skip
    if facts.report["warnings"]:
        section.add(Items(facts.report["warnings"], "warning"))
    return section


def picture(pictures: Collection[str], name: str, caption: str) -> Picture | None:
    """A figure, if it was drawn."""
    return Picture(name, caption, caption.split(":")[0]) if name in pictures else None


def declared(facts: Facts) -> Section:
    """What was declared before the first step."""
    plan = facts.plan
    section = Section("Declared plan", "plan")
    lines = [
        f"Factors: {'; '.join(f'{key} ({listed([text(level) for level in levels])})' for key, levels in plan.factors.items()) or 'none'}"
    ]
    lines.append(f"Baseline: `{label(plan.baseline)}`" if plan.baseline else "No baseline: nothing differs")
    lines.append(f"Margin ±{plan.margin:g} nats per token, α = {plan.alpha:g}")
    lines.append(
        f"Declared {plan.declared}, before the first step" if plan.declared
        else "No study file: the plan is what was found, the baseline follows from the defaults"
    )  # fmt: skip
    return section.add(Items(lines))


def cells(facts: Facts) -> Section:
    """The table of cells."""
    columns = [Column("variant"), Column("n", count, True), Column("planned", count, True), Column("final loss", fixed(4), True),
               Column("sd", fixed(4), True), Column("best loss", fixed(4), True), Column("at step", count, True),
               Column("parameters", count, True), Column("FLOPs/token", short_count, True), Column("tokens/s", count, True)]  # fmt: skip
    rows = []
    for row, entry in zip(facts.table.rows, facts.report["cells"], strict=True):
        status: dict[str, Any] = next((run.status for run in row.runs), {})
        costs = row.entries[0].cell.costs
        rows.append([row.label or "all runs", entry["n"], entry["planned"], entry["mean"], entry["std"], entry["best"]["loss"],
                     entry["best"]["step"], costs.get("parameters", status.get("parameters")),
                     costs.get("flops_per_token", status.get("flops_per_token")), timing.speed(row.finished)])  # fmt: skip
    caption = (
        f"Final is {METRIC} at the last step, the headline; best is the lowest evaluation of any seed, shown beside it. "
        f"{MISSING} means that there is no such value; n counts distinct seeds that finished."
    )
    return Section("Cells", "cells").add(Grid("cells", columns, rows, caption))


def paired(facts: Facts) -> Section:
    """Proof of pairing."""
    columns = [Column("seed", count, True), Column("runs", count, True), Column("same data", _same), Column("at step", count, True),
               Column("batch_hash", lambda hashes: ", ".join(value[:12] for value in hashes) or MISSING)]  # fmt: skip
    rows = [[item.seed, item.runs, item.same, item.step, item.hashes] for item in facts.pairing]
    section = Section("Pairing", "pairing")
    if rows:
        section.add(
            Text(
                "A running hash over the token ids trained on: equal hashes prove that the variants of a seed saw the same batches."
            )
        )
        section.add(Grid("pairing", columns, rows, folded=len(rows) > FOLD_AT))
    return section


def _same(value: Any) -> str:
    return "not recorded" if value is None else word(value)


def curves(facts: Facts, pictures: Collection[str]) -> Section:
    """Loss along training."""
    note = "Thick: mean over finished seeds, up to the end of the shortest; thin: single seeds; dotted: runs that did not finish."
    return Section("Curves", "curves").add(
        picture(pictures, "curves_tokens", f"Loss against tokens. {note}"),
        picture(pictures, "curves_time", f"Loss against training time. {note}"),
        picture(
            pictures,
            "difference",
            "Paired difference of the validation loss to the baseline along training: thin single seeds, thick their mean; the band is the margin.",
        ),
    )


def left_out(facts: Facts) -> Section:
    """Failures and everything that was left out."""
    section = Section("Failures and what was left out", "left-out")
    excluded = facts.report["excluded"]
    if not excluded:
        return section.add(Text("Nothing: every planned run finished and counts."))
    rows = [[item["run"], item["reason"]] for item in excluded]
    return section.add(Grid("excluded", [Column("run"), Column("reason")], rows, folded=len(rows) > FOLD_AT))


def every_run(facts: Facts) -> Section:
    """Every run with its state and final loss."""
    columns = [Column("run"), Column("variant"), Column("seed", count, True), Column("state"), Column("final loss", fixed(4), True),
               Column("steps", count, True), Column("time", duration, True), Column("note", word)]  # fmt: skip
    rows = []
    for row in facts.table.rows:
        for entry in row.entries:
            run = entry.run
            rows.append([entry.name, row.label, entry.cell.seed, entry.state, entry.value, run.status.get("step", run.steps()) if run else None,
                         timing.seconds(run) if run else None, run.notes if run else None])  # fmt: skip
    return Section("Every run", "runs").add(Grid("runs", columns, rows, folded=len(rows) > FOLD_AT))


def reproduce(facts: Facts) -> Section:
    """The one command."""
    section = Section("Reproduce", "reproduce")
    if facts.plan.command:
        section.add(
            Text("This command trains what is missing and makes this report again:"), Code(facts.plan.command)
        )
    return section
