"""Paths on a command line turned into a plan and its runs."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablab.analysis.differ import infer_factors, value_of
from ablab.analysis.fold import fold
from ablab.analysis.levels import default_level, label, ordered, text
from ablab.analysis.plan import Cell, Plan, read_study
from ablab.analysis.read import Run, find_runs, is_study, read_run
from ablab.errors import UsageError


def infer_plan(runs: Sequence[Run]) -> Plan:
    """The plan behind runs that no study declares: planned is what was found."""
    factors, warnings = infer_factors(runs)
    levels = {key: ordered(key, (value_of(run, key) for run in runs)) for key in factors}
    baseline = {key: default_level(key, found) for key, found in levels.items()}
    for key, first in baseline.items():  # the baseline leads every table
        levels[key].sort(key=lambda level, first=first: text(level) != text(first))  # type: ignore[misc]
        if all(isinstance(level, (int, float)) for level in levels[key]):
            levels[key] = ordered(key, levels[key])
    cells = [Cell({key: value_of(run, key) for key in factors}, run.seed, run.name) for run in runs]
    plan = Plan(
        name="",
        factors=levels,
        baseline=baseline,
        cells=cells,
        seeds=sorted({run.seed for run in runs}),
        warnings=warnings,
    )
    fold(plan)
    whole = len(_present(plan.cells)) == len(_combinations(plan.factors))
    plan.design = "factorial" if whole else "one_at_a_time"
    plan.warnings += absent(plan)
    return plan


def _present(cells: Sequence[Cell]) -> set[str]:
    return {label(cell.factors) for cell in cells}


def _combinations(levels: dict[str, list[Any]]) -> list[dict[str, Any]]:
    return [dict(zip(levels, point, strict=True)) for point in itertools.product(*levels.values())]


def absent(plan: Plan) -> list[str]:
    """Warnings about combinations of levels that no run has, with the overrides that would make them."""
    present = _present(plan.cells)
    missing = [label(point) for point in _combinations(plan.factors) if label(point) not in present]
    shown = "; ".join(name.replace(",", " ") for name in missing[:8])
    more = f" and {len(missing) - 8} more" if len(missing) > 8 else ""
    return [f"no run for: {shown}{more}"] if missing else []


def load(paths: Sequence[Path | str]) -> tuple[Plan, list[Run]]:
    """Plan and runs of the given study folders, run folders and folders of run folders.

    With exactly one study among the paths its declaration is the plan, and runs found elsewhere are additions to it;
    otherwise the plan is inferred from all runs.

    Raises:
        UsageError: a path is no folder, or no run was found.
    """
    studies: list[tuple[Plan, dict[str, Run]]] = []
    pool: dict[Path, Run] = {}
    for path in dict.fromkeys(Path(path) for path in paths):
        if is_study(path):
            studies.append(read_study(path))
            for run in studies[-1][1].values():
                pool.setdefault((run.folder or path).resolve(), run)
        else:
            for folder in find_runs(path):
                if folder.resolve() not in pool:
                    pool[folder.resolve()] = read_run(folder)
    runs = list(pool.values())
    if len(studies) == 1:
        plan, own = studies[0]
        if not runs:
            raise UsageError(f"no runs in {plan.folder}: none of its {len(plan.cells)} planned runs has a folder")
        known = {id(run) for run in own.values()}
        plan.cells += [_addition(plan, run) for run in runs if id(run) not in known]
        fold(plan)
        return plan, runs
    if not runs:
        names = ", ".join(str(path) for path in paths)
        raise UsageError(f"no runs in {names}: a run folder holds config.yaml, metrics.jsonl and status.json")
    plan = infer_plan(runs)
    if studies:
        plan.warnings.append(
            f"{len(studies)} studies are read together: their declared plans do not hold for the whole"
        )
        _join(plan, [study for study, _ in studies])
    return plan, runs


def _join(plan: Plan, studies: Sequence[Plan]) -> None:
    """Give a plan over several studies what they declared: the strictest level and margin, every look and every arm
    declared unstable, and what all of them say alike (in place)."""
    plan.alpha, plan.margin = min(study.alpha for study in studies), max(study.margin for study in studies)
    plan.looks = sorted({look for study in studies for look in study.looks})
    plan.unstable = list(dict.fromkeys(name for study in studies for name in study.unstable))
    for name in ("nuisance", "selection_seeds", "target", "slope", "noise", "screen"):
        values = [getattr(study, name) for study in studies]
        if all(value == values[0] for value in values):
            setattr(plan, name, values[0])
        else:
            plan.warnings.append(f"the studies declare different study.{name}: none is used")
    for key in plan.nuisance:
        plan.factors.pop(key, None)
        plan.baseline.pop(key, None)
    for cell in plan.cells:
        cell.nuisance |= {key: cell.factors.pop(key) for key in plan.nuisance if key in cell.factors}


def _addition(plan: Plan, run: Run) -> Cell:
    levels = {key: value_of(run, key) for key in plan.factors}
    for key, level in levels.items():
        if text(level) not in map(text, plan.factors[key]):
            plan.factors[key].append(level)
    plan.seeds = sorted({*plan.seeds, run.seed})
    return Cell(levels, run.seed, run.name, {key: value_of(run, key) for key in plan.nuisance}, added=True)
