"""Tuned values: trials per variant, what was chosen on which seeds, edges of the grid, sensitivity to the rate."""

from __future__ import annotations

import math
from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from ablab.analysis.cells import Entry, Table
from ablab.analysis.document import listed
from ablab.analysis.levels import finite, label, text
from ablab.analysis.plan import Plan


@dataclass(frozen=True)
class Point:
    """One value of a rate for one variant: mean final loss of the runs that finished, and how many did not live."""

    rate: float
    loss: float | None
    runs: int
    diverged: int


@dataclass(frozen=True)
class Trials:
    """The ledger of one variant: trials made, values chosen and whether the choice lies on the edge of its grid."""

    label: str
    trials: int
    seeds: tuple[int, ...]
    chosen: dict[str, Any]
    edges: tuple[str, ...]


def ledger(plan: Plan, table: Table) -> list[Trials]:
    """Trials per variant of a study with nuisance values, in the order of the table."""
    found = []
    for row in table.compared if plan.nuisance else ():
        entries = [entry for entry in table.trials[label(row.factors)] if entry.run]
        selection = [entry for entry in entries if not plan.selection_seeds or entry.cell.seed in plan.selection_seeds]
        edges = []
        for key in plan.nuisance:
            grid = sorted({value for entry in selection if (value := finite(entry.cell.nuisance.get(key))) is not None})
            chosen = finite(row.nuisance.get(key))
            if chosen is not None and len(grid) > 1 and chosen in (grid[0], grid[-1]):
                edges.append(f"{key}={text(chosen)}")
        seeds = tuple(sorted({entry.cell.seed for entry in selection}))
        found.append(Trials(row.label, len(selection), seeds, row.nuisance, tuple(edges)))
    return found


def warnings(plan: Plan, trials: Sequence[Trials]) -> list[str]:
    """What makes tuning unfair or its result doubtful."""
    found = [
        f"{item.label}: the best {listed(item.edges)} lies on the edge of its grid: extend the grid before judging"
        for item in trials
        if item.edges
    ]
    if len({item.trials for item in trials}) > 1:
        counts = ", ".join(f"{item.label}: {item.trials}" for item in trials)
        found.append(f"the variants had different numbers of tuning trials ({counts})")
    if trials and not plan.selection_seeds:
        found.append(
            f"{listed(plan.nuisance)} was chosen and reported on the same seeds: the tuned losses are too good; "
            "declare study.selection_seeds"
        )
    return found


def rate_key(plan: Plan) -> str | None:
    """The swept number whose curve is drawn: a tuned value first, else a numeric factor such as `optimizer.lr`."""
    numeric = [
        key for key, levels in plan.factors.items() if len(levels) > 1 and all(finite(v) is not None for v in levels)
    ]
    for key in [*plan.nuisance, *numeric]:
        if key.rpartition(".")[2] in ("lr", "learning_rate"):
            return key
    candidates = [key for key in plan.nuisance if _numeric(plan, key)] + [key for key in numeric if key != "seeds.salt"]
    return candidates[0] if candidates else None


def _numeric(plan: Plan, key: str) -> bool:
    values = {text(cell.nuisance.get(key)) for cell in plan.cells}
    return len(values) > 1 and all(finite(cell.nuisance.get(key)) is not None for cell in plan.cells)


def rate_curves(plan: Plan, table: Table, key: str) -> dict[str, list[Point]]:
    """Final loss over the values of a rate, a line per setting of everything else (the label without the rate)."""
    points: dict[str, dict[float, list[Entry]]] = defaultdict(lambda: defaultdict(list))
    for entries in table.trials.values():
        for entry in entries:
            if entry.group != table.main:
                continue
            levels = {**entry.cell.factors, **{k: v for k, v in entry.cell.nuisance.items() if k == key}}
            rate = finite(levels.pop(key, None))
            if rate is not None:
                points[label(levels)][rate].append(entry)
    return {name: [_point(rate, found) for rate, found in sorted(rates.items())] for name, rates in points.items()}


def _point(rate: float, entries: Sequence[Entry]) -> Point:
    values = [entry.value for entry in entries if entry.value is not None]
    loss = math.fsum(values) / len(values) if values else None
    return Point(rate, loss, len(values), sum(entry.state == "diverged" for entry in entries))


def start_loss(table: Table) -> float | None:
    """One ℓ₀ for all variants: the lowest first validation loss of any run."""
    firsts = [
        run.points(row.metric)[1][0] for row in table.compared for run in row.runs if len(run.points(row.metric)[1])
    ]
    return float(min(firsts)) if firsts else None


def sensitivity(points: Sequence[Point], start: float) -> float | None:
    """Learning-rate sensitivity of a curve (`ablab.analysis.stats.sensitivity`); a rate at which a run diverged counts as
    ℓ₀. None where no rate lived, or there is but one.
    """
    from ablab.analysis.stats.tuning import sensitivity as over_rates

    if len(points) < 2 or all(point.loss is None for point in points):
        return None
    return over_rates({point.rate: None if point.diverged else point.loss for point in points}, start)


def common_rate(plan: Plan, table: Table) -> tuple[dict[str, Any], dict[str, float | None]] | None:
    """The view at one common setting: the values chosen for the baseline, and every variant's mean loss there."""
    if not plan.nuisance:
        return None
    base = next((row for row in table.compared if label(row.factors) == label(plan.baseline)), None)
    if base is None:
        return None
    wanted, means = label(base.nuisance), {}
    for row in table.compared:
        values = [
            entry.value
            for entry in table.trials[label(row.factors)]
            if entry.group == table.main and label(entry.cell.nuisance) == wanted
            and entry.cell.seed not in plan.selection_seeds and entry.value is not None
        ]  # fmt: skip
        means[row.label] = math.fsum(values) / len(values) if values else None
    return base.nuisance, means
