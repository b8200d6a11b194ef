"""The plan of a study: read from `study.json`, or inferred from the runs that were found."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablab.analysis.differ import infer_factors, value_of
from ablab.analysis.levels import default_level, finite, label, ordered, text
from ablab.analysis.read import Run, find_runs, is_run, is_study, read_run
from ablab.errors import UsageError
from ablab.runfolder import STUDY, read_json

MARGIN, ALPHA = 0.005, 0.05


@dataclass
class Cell:
    """One planned run: its levels, its seed and the folder it lives in (None: no plan names one)."""

    factors: dict[str, Any]
    seed: int
    folder: str | None = None
    nuisance: dict[str, Any] = field(default_factory=dict)
    overrides: list[str] = field(default_factory=list)
    costs: dict[str, Any] = field(default_factory=dict)
    added: bool = False
    declared: str = ""


@dataclass
class Plan:
    """What was declared. `declared` is None where no study file says when."""

    name: str
    factors: dict[str, list[Any]]
    baseline: dict[str, Any]
    cells: list[Cell]
    seeds: list[int]
    question: str | None = None
    command: str | None = None
    declared: str | None = None
    code: Any = None
    nuisance: list[str] = field(default_factory=list)
    selection_seeds: list[int] = field(default_factory=list)
    design: str = "factorial"
    margin: float = MARGIN
    alpha: float = ALPHA
    looks: list[int] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    screen: bool = False
    additions: list[dict[str, Any]] = field(default_factory=list)
    noise: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    folder: Path | None = None
    treatments: dict[str, dict[str, Any]] = field(default_factory=dict)
    older: list[str] = field(default_factory=list)

    @property
    def is_study(self) -> bool:
        """Whether a study file declared this plan."""
        return self.folder is not None


def _cost_keys(cell: dict[str, Any]) -> dict[str, Any]:
    return {
        key: cell[key]
        for key in ("parameters", "flops_per_token", "d_ff", "ffn_residual", "gains", "biases")
        if key in cell
    }


def _from_overrides(overrides: Sequence[str], key: str) -> Any:
    for override in overrides:
        name, _, value = override.lstrip("+").partition("=")
        if name == key:
            try:
                return float(value) if "." in value or "e" in value.lower() else int(value)
            except ValueError:
                return value
    return None


def read_study(folder: Path) -> tuple[Plan, dict[str, Run]]:
    """The plan in a study folder and its runs by folder name; the runs are read from the pool two levels up.

    Raises:
        UsageError: `study.json` is unreadable or names no cells.
    """
    content = read_json(folder / STUDY)
    if content is None or not isinstance(content.get("cells"), list):
        raise UsageError(f"{folder / STUDY} is no readable study file")
    pool = folder.resolve().parent.parent
    nuisance = [str(key) for key in content.get("nuisance") or []]
    factors = {key: list(levels) for key, levels in (content.get("factors") or {}).items() if key not in nuisance}
    added = {index for addition in content.get("additions") or [] for index in addition.get("cells") or []}
    cells, runs = [], {}
    beside = sorted(child.name for child in pool.iterdir()) if pool.is_dir() else []
    for number, entry in enumerate(content["cells"]):
        name = str(entry.get("folder") or "")
        if name and name not in runs and is_run(pool / name):
            runs[name] = read_run(pool / name)
        levels, overrides = entry.get("factors") or {}, [str(item) for item in entry.get("overrides") or []]
        values = {}
        for key in nuisance:
            known = levels.get(key, value_of(runs[name], key) if name in runs else None)
            values[key] = known if known is not None else _from_overrides(overrides, key)
        cells.append(
            Cell(
                factors={key: levels.get(key) for key in factors},
                seed=int(entry.get("seed", 0)),
                folder=name or None,
                nuisance=values,
                overrides=overrides,
                costs=_cost_keys(entry),
                added=entry.get("index", number) in added,
                declared=str(entry.get("label") or ""),
            )
        )
    baseline = content.get("baseline") or {}
    plan = Plan(
        name=str(content.get("study") or content.get("name") or folder.name),
        factors=factors,
        baseline={key: baseline.get(key, levels[0] if levels else None) for key, levels in factors.items()},
        cells=cells,
        seeds=sorted({cell.seed for cell in cells}),
        question=content.get("question"),
        command=content.get("command"),
        declared=content.get("declared") or content.get("created"),
        code=content.get("code"),
        nuisance=nuisance,
        selection_seeds=[int(seed) for seed in content.get("selection_seeds") or []],
        design=str(content.get("design") or "factorial"),
        margin=_number(content, "margin", MARGIN),
        alpha=_number(content, "alpha", ALPHA),
        looks=[int(look) for look in content.get("looks") or []],
        unstable=[str(name) for name in content.get("unstable") or []],
        screen=bool(content.get("screen")),
        additions=list(content.get("additions") or []),
        noise=content.get("noise"),
        warnings=[str(line) for line in content.get("warnings") or []],
        folder=folder,
        treatments={str(item.get("label")): item for item in content.get("treatments") or []},
        older=[name for name in beside if name.rpartition(".")[0] in runs and name.rpartition(".")[2].isdigit()],
    )
    return plan, runs


def _number(content: dict[str, Any], key: str, default: float) -> float:
    value = finite(content.get(key))
    return default if value is None else value


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
        design="factorial" if len(_present(cells)) == len(_combinations(levels)) else "one_at_a_time",
    )
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
        for run in (run for run in runs if id(run) not in known):
            plan.cells.append(_addition(plan, run))
        return plan, runs
    if not runs:
        names = ", ".join(str(path) for path in paths)
        raise UsageError(f"no runs in {names}: a run folder holds config.yaml, metrics.jsonl and status.json")
    plan = infer_plan(runs)
    if studies:
        plan.warnings.append(
            f"{len(studies)} studies are read together: their declared plans do not hold for the whole"
        )
        plan.margin = max(study.margin for study, _ in studies)
    return plan, runs


def _addition(plan: Plan, run: Run) -> Cell:
    levels = {key: value_of(run, key) for key in plan.factors}
    for key, level in levels.items():
        if text(level) not in map(text, plan.factors[key]):
            plan.factors[key].append(level)
    plan.seeds = sorted({*plan.seeds, run.seed})
    return Cell(levels, run.seed, run.name, {key: value_of(run, key) for key in plan.nuisance}, added=True)
