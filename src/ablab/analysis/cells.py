"""Runs gathered into the cells of a plan: duplicates, tuned values, what is missing, what must stay apart."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from ablab.analysis.differ import parting, traits
from ablab.analysis.levels import label, natural, text
from ablab.analysis.metric import LOSS, data_factors
from ablab.analysis.plan import Cell, Plan
from ablab.analysis.read import Run
from ablab.errors import UsageError, unknown

STATES = ("finished", "diverged", "failed", "interrupted", "missing")
_RANK = {state: rank for rank, state in enumerate(("finished", "diverged", "failed", "interrupted", "running"))}


@dataclass
class Entry:
    """One planned run with what was found of it. `value` is its final loss, only where it counts."""

    cell: Cell
    run: Run | None
    group: tuple[tuple[str, str], ...] = ()
    metric: str = LOSS

    @property
    def name(self) -> str:
        """Name of the run folder, or of the missing run."""
        return self.run.name if self.run else self.cell.folder or f"{label(self.cell.factors)},seed={self.cell.seed}"

    @property
    def state(self) -> str:
        """Its state as counted; a run that is still going is missing so far."""
        found = self.run.state if self.run else "missing"
        return found if found in STATES else "missing"

    @property
    def value(self) -> float | None:
        """Final validation loss of a finished run."""
        if self.run is None or self.run.state != "finished" or self.metric in self.run.lost:
            return None
        return self.run.last(self.metric)


@dataclass
class Row:
    """One cell of the table: a variant, in one group of comparable runs."""

    label: str
    factors: dict[str, Any]
    group: dict[str, str]
    entries: list[Entry]
    nuisance: dict[str, Any] = field(default_factory=dict)

    def count(self, state: str) -> int:
        """Number of planned runs in a state."""
        return sum(entry.state == state for entry in self.entries)

    @property
    def metric(self) -> str:
        """What its values measure."""
        return self.entries[0].metric if self.entries else LOSS

    @property
    def values(self) -> dict[int, float]:
        """Final loss by seed, of the finished runs."""
        return {entry.cell.seed: value for entry in self.entries if (value := entry.value) is not None}

    @property
    def runs(self) -> list[Run]:
        """The runs found, whatever their state, in order of seed."""
        return [entry.run for entry in self.entries if entry.run]

    @property
    def finished(self) -> list[Run]:
        """The runs behind `values`."""
        return [entry.run for entry in self.entries if entry.run and entry.value is not None]


@dataclass
class Table:
    """All cells of a study; `trials` holds every entry, tuning runs included, by label of its cell."""

    rows: list[Row]
    trials: dict[str, list[Entry]]
    excluded: list[dict[str, str]]
    warnings: list[str]
    main: tuple[tuple[str, str], ...] = ()

    @property
    def compared(self) -> list[Row]:
        """Cells of the group that is judged."""
        return [row for row in self.rows if tuple(row.group.items()) == self.main]


def assemble(plan: Plan, runs: Sequence[Run], metric: str = LOSS) -> Table:
    """Gather runs into the cells of the plan.

    Of several runs for one cell and seed the newest finished one counts. Runs that differ in something that no
    factor names are kept in groups of their own. Tuned values are chosen on the selection seeds.
    """
    by_name = {run.name: run for run in runs}
    entries = [Entry(cell, by_name.get(cell.folder or ""), metric=metric) for cell in plan.cells]
    warnings = _part(entries, apart_by_data=not data_factors(plan))
    excluded: list[dict[str, str]] = []
    entries = _newest(entries, excluded)
    trials: dict[str, list[Entry]] = defaultdict(list)
    gathered: dict[tuple[str, tuple[tuple[str, str], ...]], list[Entry]] = defaultdict(list)
    for entry in entries:
        trials[label(entry.cell.factors)].append(entry)
        gathered[label(entry.cell.factors), entry.group].append(entry)
    main = _main_group(entries)
    for entry in [entry for entry in entries if not entry.run and entry.group != main]:
        gathered[label(entry.cell.factors), entry.group].remove(entry)
        gathered[label(entry.cell.factors), main].append(entry)
    rows = []
    for (name, group), found in gathered.items():
        if not found:
            continue
        chosen, kept = choose(plan, found, excluded)
        suffix = "".join(f" [{key}={value}]" for key, value in group)
        rows.append(Row(name + suffix, found[0].cell.factors, dict(group), kept, chosen))
    rows.sort(key=lambda row: (tuple(row.group.items()) != main, tuple(row.group.items()), _place(plan, row)))
    for row in rows:
        row.entries.sort(key=lambda entry: entry.cell.seed)
        excluded += [left for entry in row.entries if (left := _left_out(entry))]
    ordered = {name: trials[name] for name in dict.fromkeys(label(row.factors) for row in rows)}
    return Table(rows, ordered, excluded, warnings, main)


def _place(plan: Plan, row: Row) -> tuple[int, ...]:
    return tuple(
        [text(known) for known in levels].index(text(row.factors[key])) for key, levels in plan.factors.items()
    )


def _part(entries: Sequence[Entry], apart_by_data: bool) -> list[str]:
    """Give entries whose runs differ beyond the plan their group; returns the warnings that name the keys.

    `apart_by_data`: no factor explains other data, so that even runs of two variants must share it.
    """
    cells: dict[Any, list[Run]] = defaultdict(list)
    for entry in entries:
        if entry.run and entry.run.state in ("finished", "diverged"):
            cells[label(entry.cell.factors), label(entry.cell.nuisance)].append(entry.run)
    found_keys = parting(cells)
    if apart_by_data and "data_hash" not in found_keys and _several(entries, "data_hash"):
        found_keys.append("data_hash")
    keys = [key for key in found_keys if not any(key in entry.cell.nuisance for entry in entries)]
    if not keys:
        return []
    levels: dict[str, set[str]] = {key: set() for key in keys}
    for entry in entries:
        if entry.run:
            found = traits(entry.run)
            entry.group = tuple((key, _short(found.get(key))) for key in keys)
            for key, value in entry.group:
                levels[key].add(value)
    named = "; ".join(f"{key} ({', '.join(sorted(levels[key], key=natural))})" for key in keys)
    return [f"runs differ in {named} and no factor says so: they are kept in groups of their own and never averaged"]


def _several(entries: Sequence[Entry], key: str) -> bool:
    """Whether the runs' status holds several values of a key."""
    return len({entry.run.status[key] for entry in entries if entry.run and entry.run.status.get(key)}) > 1


def _short(value: Any) -> str:
    written = text(value)
    return written[:8] if len(written) >= 32 else written


def _newest(entries: Sequence[Entry], excluded: list[dict[str, str]]) -> list[Entry]:
    """One entry per cell, tuned values, seed and group; the others are listed."""
    found: dict[Any, list[Entry]] = defaultdict(list)
    for entry in entries:
        key = (label(entry.cell.factors), label(entry.cell.nuisance), entry.cell.seed, entry.group)
        found[key].append(entry)
    kept = []
    for same in found.values():
        same.sort(key=_age)
        kept.append(same[0])
        names = {same[0].name}
        for other in same[1:]:
            if other.run and other.name not in names:
                names.add(other.name)
                excluded.append(
                    {
                        "run": other.name,
                        "reason": f"duplicate of {same[0].name}, which is the one that counts",
                    }
                )
    return kept


def _age(entry: Entry) -> tuple[Any, ...]:
    if not entry.run:
        return (len(_RANK), 0.0, ())
    rank = _RANK.get(entry.run.state, len(_RANK))
    return (
        rank + (entry.run.state == "finished" and entry.value is None),
        -entry.run.newest,
        natural(entry.name),
    )


def _main_group(entries: Sequence[Entry]) -> tuple[tuple[str, str], ...]:
    sizes: dict[tuple[tuple[str, str], ...], int] = defaultdict(int)
    for entry in entries:
        if entry.run:
            sizes[entry.group] += 1
    return min(sizes, key=lambda group: (-sizes[group], group)) if sizes else ()


def _left_out(entry: Entry) -> dict[str, str] | None:
    if entry.value is not None:
        return None
    run = entry.run
    if run is None:
        overrides = " ".join(entry.cell.overrides) or label({**entry.cell.factors, "seed": entry.cell.seed}).replace(
            ",", " "
        )
        return {"run": entry.name, "reason": f"missing: {overrides}"}
    if run.problem:
        return {"run": run.name, "reason": f"{run.state}; {run.problem}"}
    if run.state == "finished":
        lost = f"its last {entry.metric} is not finite"
        what = lost if entry.metric in run.lost else f"its metrics hold no finite {entry.metric}"
        return {"run": run.name, "reason": f"finished, but {what}"}
    where = f" at step {run.status['step']}" if run.status.get("step") is not None else ""
    cause = f": {run.status['reason']}" if run.status.get("reason") else ""
    note = "; counted as an outcome, not averaged" if run.state == "diverged" else ""
    return {"run": run.name, "reason": f"{run.state}{where}{cause}{note}"}


def choose(plan: Plan, entries: list[Entry], excluded: list[dict[str, str]]) -> tuple[dict[str, Any], list[Entry]]:
    """Tuned values of one variant and the entries to report.

    The values with the lowest mean loss over the selection seeds are taken, those with a diverged or unfinished
    selection run last; reported are the other seeds at these values.
    """
    if not plan.nuisance:
        return {}, entries
    trials: dict[str, list[Entry]] = defaultdict(list)
    for entry in entries:
        trials[label(entry.cell.nuisance)].append(entry)

    def score(name: str) -> tuple[int, float, tuple[Any, ...]]:
        used = [entry for entry in trials[name] if not plan.selection_seeds or entry.cell.seed in plan.selection_seeds]
        values = [entry.value for entry in used if entry.value is not None]
        mean = sum(values) / len(values) if values else float("inf")
        return (len(used) - len(values) if used else 1, mean, natural(name))

    best = min(trials, key=score)
    kept = [entry for entry in trials[best] if entry.cell.seed not in plan.selection_seeds]
    for name, others in trials.items():
        for entry in others:
            if entry.run and entry not in kept:
                excluded.append({"run": entry.name, "reason": f"tuning: {name} (chosen: {best})"})
    return trials[best][0].cell.nuisance, kept


def baseline_row(plan: Plan, rows: Sequence[Row]) -> Row | None:
    """The cell the others are compared with, or None where no run and no plan has it."""
    wanted = label(plan.baseline)
    return next((row for row in rows if label(row.factors) == wanted), None)


def override_baseline(plan: Plan, written: str) -> None:
    """Set the baseline from `norm=rms,ffn=swiglu`; groups not named keep theirs (in place).

    Raises:
        UsageError: a group or level that the study does not have.
    """
    for part in written.split(","):
        group, equals, level = part.partition("=")
        if group not in plan.factors:
            raise unknown("factor in baseline", group, plan.factors)
        known = {text(value): value for value in plan.factors[group]}
        if not equals or level not in known:
            raise UsageError(f"baseline: {group}={level} is no level of the study; choices: {', '.join(known)}")
        plan.baseline[group] = known[level]
