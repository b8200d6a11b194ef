"""The verdict table, costs and stability beside it, and the table of cells."""

from __future__ import annotations

import math
from collections.abc import Sequence
from typing import Any

import numpy as np

from ablab.analysis import timing
from ablab.analysis.cells import Row
from ablab.analysis.document import (
    MISSING,
    Column,
    Items,
    Section,
    Text,
    compact,
    count,
    fixed,
    interval,
    p_value,
    percent,
    short_count,
    word,
)  # fmt: skip
from ablab.analysis.facts import Facts
from ablab.analysis.levels import text
from ablab.analysis.metric import LOSS
from ablab.analysis.pages.common import FOLD_AT, cost, shown
from ablab.analysis.read import Run
from ablab.analysis.sizes import tokens
from ablab.analysis.spikes import score, training_rows


def section(facts: Facts) -> Section:
    """Every comparison with its interval and verdict."""
    made = Section("Verdicts", "table")
    items = facts.report["comparisons"]
    if not items or all(item["n_pairs"] < 1 for item in items):
        return made
    columns = [
        Column("variant", shown), Column("n", count, True), Column("difference", fixed(4, True), True),
        Column("interval", interval(), True), Column("p", p_value, True), Column("p, family", p_value, True), Column("verdict"),
        Column("practical"), Column("finds", fixed(4), True), Column("seeds needed", count, True), Column("test", word),
    ]  # fmt: skip

    def rows(kind: bool) -> list[list[Any]]:
        return [
            [item["label"], item["n_pairs"], item["difference"], item["ci"], item["p"], item["p_adjusted"], item["verdict"],
             item["practical"], item["mde"], item["n_needed"], item["method"]]
            for item in items if item["primary"] is kind
        ]  # fmt: skip

    caption = "Difference: variant − baseline, mean over the seeds that both finished; n counts them."
    if any(item["ci"] for item in items):
        caption += (
            f" Interval: simultaneous, {percent(1 - facts.inference.level)}. Practical: whether the interval lies outside "
            f"±{facts.plan.margin:g} (yes), inside (no) or neither (unclear). Finds: the smallest difference that these seeds "
            "find with 80 % power, in nats, at family level."
        )
    if rows(True):
        made.add(compact("verdicts", columns, rows(True), caption, folded=len(rows(True)) > FOLD_AT))
    if rows(False):
        judge = "; in a full factorial judge by the effects below" if facts.report["interactions"] else ""
        made.add(Text(f"Other cells against the baseline, a family of their own{judge}."))
        made.add(compact("other_cells", columns, rows(False), folded=len(rows(False)) > 12))
    return made.add(Items(facts.inference.notes) if facts.inference.notes else None)


def stability(facts: Facts) -> Section:
    """Costs, speed, spikes and divergence of every variant."""
    made = Section("Costs and stability", "costs")
    divergence = {item["label"]: item for item in facts.inference.divergence}
    columns = [
        Column("variant", shown), Column("parameters", count, True), Column("FLOPs/token", short_count, True),
        Column("tokens/parameter", fixed(2), True), Column("epochs", fixed(2), True), Column("tokens/s", count, True), Column("memory", _bytes, True),
        Column("loss spikes %", fixed(2), True), Column("gradient spikes %", fixed(2), True), Column("diverged"),
        Column("P(diverged)", _share, True), Column("McNemar p", p_value, True), Column("worst-rank p", p_value, True),
    ]  # fmt: skip
    rows = []
    for row in facts.rows:
        item = divergence.get(row.label, {})
        outcomes = row.count("finished") + row.count("diverged")
        rows.append([
            row.label, cost(row, "parameters"), cost(row, "flops_per_token"), per_parameter(row), epochs(row), timing.speed(row.finished),
            timing.memory(row.finished), spikes(row.runs, "train/loss"), spikes(row.runs, "train/grad_norm"),
            f"{row.count('diverged')} of {outcomes}", item.get("ci"), item.get("mcnemar_p"), item.get("worst_rank_p"),
        ])  # fmt: skip
    if facts.plan.nuisance:
        columns.append(Column("chosen", _chosen))
        rows = [[*values, row.nuisance] for values, row in zip(rows, facts.rows, strict=True)]
    caption = (
        "Spikes: values at least 7 standard deviations from the mean of those before them, in per cent, of the logged "
        "training loss and of the gradient norm before clipping."
    )
    if divergence:
        caption += f" P(diverged): {percent(1 - facts.plan.alpha)} Wilson interval; McNemar and the worst-rank sign test compare with the baseline on the same seeds."
    return made.add(compact("costs", columns, rows, caption, folded=len(rows) > FOLD_AT)) if rows else made


def _bytes(value: float | None) -> str:
    return MISSING if value is None else f"{value / 2**20:,.0f} MiB" if value < 2**34 else f"{value / 2**30:,.1f} GiB"


def _share(interval: Sequence[float] | None) -> str:
    return MISSING if not interval else f"{interval[0]:.2f} to {interval[1]:.2f}"


def _chosen(levels: dict[str, Any]) -> str:
    return ", ".join(f"{key}={text(level)}" for key, level in levels.items())


def per_parameter(row: Row) -> float | None:
    """Training tokens per parameter of a variant."""
    return _tokens_per(row, "parameters")


def epochs(row: Row) -> float | None:
    """How often a variant saw the training text."""
    return _tokens_per(row, "train_tokens")


def _tokens_per(row: Row, key: str) -> float | None:
    size = cost(row, key)
    seen = [value for run in row.finished if (value := tokens(run)) is not None]
    return sum(seen) / len(seen) / size if seen and size else None


def spikes(runs: Sequence[Run], metric: str) -> float | None:
    """Mean spike score over runs, in per cent."""
    scores = [score(training_rows(run, metric)) for run in runs if metric in run.history]
    known = [value for value in scores if value is not None]
    return float(np.mean(known)) if known else None


def cells(facts: Facts) -> Section:
    """The table of cells: planned, finished, final and best loss."""
    columns = [
        Column("variant", shown), Column("n", count, True), Column("planned", count, True), Column("final loss", fixed(4), True),
        Column("sd", fixed(4), True), Column("interval", _plain_interval, True), Column("best loss", fixed(4), True),
        Column("at step", count, True), Column("perplexity", fixed(2), True), Column("bits/byte", fixed(4), True),
    ]  # fmt: skip
    rows = []
    for row, entry in zip(facts.table.rows, facts.report["cells"], strict=True):
        bits = [value for run in row.finished if (value := run.last("val/bits_per_byte")) is not None]
        rows.append([
            row.label, entry["n"], entry["planned"], entry["mean"], entry["std"], entry["ci"], entry["best"]["loss"],
            entry["best"]["step"], perplexity(entry["mean"]) if facts.metric == LOSS else None, sum(bits) / len(bits) if bits else None,
        ])  # fmt: skip
    interval_text = f" Interval: {percent(1 - facts.plan.alpha)}, of the mean." if any(row[5] for row in rows) else ""
    caption = (
        f"Final: {facts.metric} at the last step, mean over seeds, the headline. Best: the lowest evaluation of any seed, "
        f"for orientation only.{interval_text} n: distinct seeds that finished. {MISSING}: no value."
    )
    return Section("Cells", "cells").add(compact("cells", columns, rows, caption, folded=len(rows) > FOLD_AT))


def _plain_interval(value: Sequence[float] | None) -> str:
    return MISSING if not value else f"[{value[0]:.4f}, {value[1]:.4f}]"


def perplexity(loss: float | None) -> float | None:
    """exp(loss), infinite where that is too large for a float."""
    if loss is None:
        return None
    return math.exp(loss) if loss < 700 else math.inf
