"""The whole report as a document."""

from __future__ import annotations

from collections.abc import Collection

from ablab.analysis.document import Code, Document, Items, Text, listed
from ablab.analysis.facts import Facts
from ablab.analysis.levels import spans, text
from ablab.analysis.pages import effects, first, noise, runs, sizes, swaps, verdicts
from ablab.analysis.pages import tuning as tuned


def document(facts: Facts, pictures: Collection[str]) -> Document:
    """The report in order; `pictures` are the names of the figures that were drawn."""
    sections = [
        first.section(facts, pictures),
        first.declared(facts),
        verdicts.section(facts),
        verdicts.cells(facts),
        verdicts.stability(facts),
        sizes.section(facts),
        swaps.section(facts),
        swaps.paired(facts),
        noise.section(facts, pictures),
        tuned.section(facts, pictures),
        effects.section(facts, pictures),
        runs.curves(facts, pictures),
        runs.left_out(facts),
        runs.every_run(facts),
        runs.reproduce(facts),
    ]
    return Document(title(facts), subtitle(facts), [section for section in sections if section.blocks])


def title(facts: Facts) -> str:
    """The declared question, or one made of the factors."""
    plan = facts.plan
    if plan.question:
        return " ".join(plan.question.split())
    asked = [f"{key} ({' or '.join(map(text, levels))})" for key, levels in plan.factors.items()]
    if not asked:
        return f"Study {plan.name}" if plan.name else "Ablation report"
    if sum(map(len, asked)) > 90:
        asked = list(plan.factors)
    return f"{'What do' if len(asked) > 1 else 'What does'} {listed(asked)} do to the final validation loss?"


def subtitle(facts: Facts) -> str:
    """One line: name, size and seeds of the study."""
    rows, plan = facts.table.rows, facts.plan
    planned = sum(len(row.entries) for row in rows)
    finished = sum(len(row.values) for row in rows)
    seeds = ("seeds " if len(plan.seeds) != 1 else "seed ") + spans(plan.seeds)
    parts = [f"Study {plan.name}"] if plan.name else []
    parts.append(f"{len(rows)} variant{'s' * (len(rows) != 1)}")
    parts.append(f"{finished} of {planned} planned runs count")
    parts += [seeds, f"{facts.metric} in {facts.unit}, lower is better"]
    return " · ".join(parts)


def spoken(document: Document) -> list[str]:
    """The sentences of the first screen, without warnings: what a terminal shows."""
    lines: list[str] = []
    for block in document.sections[0].blocks:
        if isinstance(block, Items) and block.tone == "lead":
            lines += block.items
        elif isinstance(block, Text):
            lines.append(block.text)
        elif isinstance(block, Code):
            lines.append(f"    {block.text}")
    return lines
