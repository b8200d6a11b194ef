"""The first screen: verdicts in words, the forest plot, warnings; and the plan that was declared."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ablab.analysis import words
from ablab.analysis.cells import Row
from ablab.analysis.document import Items, Section, Text, listed, percent
from ablab.analysis.facts import Facts
from ablab.analysis.levels import label, spans, text
from ablab.analysis.pages.common import figure
from ablab.analysis.pages.oneseed import one_seed

WARNINGS = 8


def section(facts: Facts, pictures: Collection[str]) -> Section:
    """Question, verdicts in words and forest plot on one screen."""
    made = Section("", "verdicts")
    most = max((len(row.values) for row in facts.rows), default=0)
    if not facts.comparable:
        made.add(Text("The losses of these variants do not compare: they read different tokens.", "lead"))
    elif most == 1 and len(facts.rows) > 1:
        made.add(*one_seed(facts))
    elif most > 1:
        made.add(Items(sentences(facts), "lead"))
    elif most == 0:
        made.add(Text("No planned run has finished yet: there is nothing to judge.", "lead"))
    else:
        made.add(Text(f"One variant with one run: final loss {words.plain(facts.report['cells'][0]['mean'])}.", "lead"))
    made.add(forest(facts, pictures))
    warnings = facts.report["warnings"]
    if warnings:
        rest = (
            [f"and {len(warnings) - WARNINGS} more under “Failures and what was left out”"]
            if len(warnings) > WARNINGS
            else []
        )
        made.add(Items([*warnings[:WARNINGS], *rest], "warning"))
    return made


def sentences(facts: Facts) -> list[str]:
    """What was found, most important first."""
    found: list[str] = []
    rows = {row.label: row for row in facts.table.rows}
    primary = [item for item in facts.report["comparisons"] if item["primary"]]
    if facts.base is not None:
        level = facts.inference.level if facts.inference.level < facts.plan.alpha else None
        for item in primary:
            found.append(words.verdict(item, rows[item["label"]], facts.base, facts.plan.margin, level, facts.unit))
    found += divergence(facts)
    if len(facts.plan.factors) > 1:
        found += interaction_sentences(facts)
    found += lowest(facts)
    return found


def divergence(facts: Facts) -> list[str]:
    """How often each variant diverged, where any did."""
    lines = []
    for item in facts.report["divergence"]:
        if item["diverged"]:
            low, high = item["ci"]
            p = (
                f"; against the baseline McNemar {words.p_text(item['mcnemar_p'])}"
                if item["mcnemar_p"] is not None
                else ""
            )
            lines.append(
                f"{item['label']} diverged in {item['diverged']} of {item['outcomes']} runs "
                f"({percent(1 - facts.plan.alpha)} interval of the share: {low:.2f} to {high:.2f}{p})"
            )
    return lines


def interaction_sentences(facts: Facts) -> list[str]:
    """Which interactions were found, and that the others were not."""
    tested = [item for item in facts.report["interactions"] if item["p"] is not None]
    strong = [item for item in tested if item["p"] < facts.inference.level]
    lines = [
        f"{' × '.join(item['factors'])} interact ({words.p_text(item['p'])}): the effect of one depends on the other; "
        "see the simple effects"
        for item in strong
    ]
    weak = [" × ".join(item["factors"]) for item in tested if item not in strong]
    if weak:
        named = f" ({', '.join(weak)})" if len(weak) <= 3 else ""
        other = "other " if strong else ""
        lines.append(f"No {other}interaction was found{named}; that is not proof of none")
    return lines


def lowest(facts: Facts) -> list[str]:
    """The variant with the lowest mean, with its lost runs beside it."""
    rows = [row for row in facts.rows if row.values]
    if len(rows) < 2:
        return []

    def mean(row: Row) -> float:
        return sum(row.values.values()) / len(row.values)

    best = min(rows, key=mean)
    lost = len(best.entries) - len(best.values)
    note = f"; but {lost} of its {len(best.entries)} planned runs did not finish" if lost else ""
    return [f"Lowest mean final loss: {best.label} ({words.plain(mean(best))}, {words.seeds(len(best.values))}{note})"]


def forest(facts: Facts, pictures: Collection[str]) -> Any:
    """The forest plot with its caption."""
    judged = any(item["ci"] for item in facts.report["comparisons"])
    interval = f"bars are simultaneous {percent(1 - facts.inference.level)} intervals, " if judged else ""
    return figure(
        pictures, "forest",
        f"Difference of each variant to the baseline {label(facts.plan.baseline)}. Markers are means over paired seeds, "
        f"{interval}ticks single seeds. The band is ±{facts.plan.margin:g} nats: inside it a difference is too small to matter.",
    )  # fmt: skip


def declared(facts: Facts) -> Section:
    """What was declared before the first step."""
    plan = facts.plan
    factors = "; ".join(f"{key}: {', '.join(map(text, levels))}" for key, levels in plan.factors.items())
    lines = [f"Factors: {factors or 'none, nothing differs between the runs'}"]
    if plan.baseline:
        lines.append(f"Baseline: `{label(plan.baseline)}`")
    kind = {"factorial": "full factorial", "one_at_a_time": "one factor at a time"}.get(plan.design, plan.design)
    lines.append(
        f"Design: {kind}, {len(facts.table.rows)} variants, {'seeds' if len(plan.seeds) > 1 else 'seed'} {spans(plan.seeds)}"
    )
    if plan.nuisance:
        where = (
            f"chosen on {'seeds' if len(plan.selection_seeds) > 1 else 'seed'} {spans(plan.selection_seeds)}, reported on the others"
            if plan.selection_seeds
            else "chosen on the reported seeds"
        )
        lines.append(f"Tuned per variant: {listed(plan.nuisance)}, {where}")
    lines.append(f"Margin ±{plan.margin:g} {facts.unit}; family-wise α = {plan.alpha:g}")
    if plan.target is not None:
        lines.append(f"Target loss, timed in tokens: {plan.target:g} {facts.unit}")
    if plan.looks and facts.inference.level < plan.alpha:
        lines.append(
            f"Looks declared at {listed([str(n) for n in plan.looks])} seeds: each is tested at {facts.inference.level:.4g}, "
            f"so that all together keep α = {plan.alpha:g}"
        )
    elif plan.looks:
        lines.append(f"Looks declared at {listed([str(n) for n in plan.looks])} seeds")
    if plan.unstable:
        lines.append(f"Declared unstable, judged by their own spread: {', '.join(plan.unstable)}")
    if plan.declared:
        lines.append(f"Declared {plan.declared}, before the first step{_code(plan.code)}")
    elif not plan.is_study:
        lines.append("No study file: planned is what was found, the baseline follows from the defaults")
    for addition in plan.additions:
        cells = addition.get("cells") or []
        lines.append(
            f"Added later, {addition.get('when', 'at an unknown time')}: {len(cells)} cell{'s' * (len(cells) != 1)}"
        )
    return Section("Declared plan", "plan").add(Items(lines))


def _code(code: Any) -> str:
    if not isinstance(code, dict):
        return f", with code {code}" if code else ""
    commit = code.get("commit") or code.get("git_commit")
    version = f", with version {code['version']}" if code.get("version") else ""
    if commit:
        version += f" at commit {str(commit)[:10]}" + (", locally changed" if code.get("dirty") else "")
    return version
