"""The plan of a study: read from `study.json`, or inferred from the runs that were found."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from ablab.analysis.differ import value_of
from ablab.analysis.levels import by_size, default_level, finite, text
from ablab.analysis.read import Run, is_run, read_run
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
    target: float | None = None
    slope: float | None = None
    looks: list[int] = field(default_factory=list)
    unstable: list[str] = field(default_factory=list)
    screen: bool = False
    additions: list[dict[str, Any]] = field(default_factory=list)
    noise: dict[str, Any] | None = None
    warnings: list[str] = field(default_factory=list)
    folder: Path | None = None
    treatments: dict[str, dict[str, Any]] = field(default_factory=dict)
    older: list[tuple[str, str]] = field(default_factory=list)

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
    written = {key: list(levels) for key, levels in (content.get("factors") or {}).items() if key not in nuisance}
    factors = {key: by_size(levels) for key, levels in written.items()}
    added = {index for addition in content.get("additions") or [] for index in addition.get("cells") or []}
    cells, runs = [], {}
    beside = sorted(child.name for child in pool.iterdir()) if pool.is_dir() else []
    for number, entry in enumerate(content["cells"]):
        name = str(entry.get("folder") or "")
        if name and name not in runs and is_run(pool / name):
            runs[name] = read_run(pool / name)
        overrides = [str(item) for item in entry.get("overrides") or []]
        levels = _levels(entry.get("factors") or {}, factors, runs.get(name), overrides)
        values = {}
        for key in nuisance:
            known = (entry.get("factors") or {}).get(key, value_of(runs[name], key) if name in runs else None)
            values[key] = known if known is not None else _from_overrides(overrides, key)
        cells.append(
            Cell(
                factors=levels,
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
        baseline={key: baseline.get(key, levels[0] if levels else None) for key, levels in written.items()},
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
        target=finite(content.get("target")),
        slope=finite(content.get("slope")),
        looks=[int(look) for look in content.get("looks") or []],
        unstable=[str(name) for name in content.get("unstable") or []],
        screen=bool(content.get("screen")),
        additions=list(content.get("additions") or []),
        noise=content.get("noise"),
        warnings=[str(line) for line in content.get("warnings") or []],
        folder=folder,
        treatments={str(item.get("label")): item for item in content.get("treatments") or []},
        older=_older(content["cells"], set(runs), beside),
    )
    return plan, runs


def _levels(
    written: dict[str, Any], factors: dict[str, list[Any]], run: Run | None, overrides: Sequence[str]
) -> dict[str, Any]:
    """Level of a cell in every factor of its study. A cell of a command that did not sweep a factor says nothing of it:
    its run knows, else what the command set, else it is the default. New levels are added to `factors`."""
    found = {}
    for key, known in factors.items():
        level = written.get(key)
        if key not in written:
            level = value_of(run, key) if run is not None else _from_overrides(overrides, key)
            level = default_level(key, known) if level is None and known else level
        if text(level) not in map(text, known):
            known.append(level)
        found[key] = level
    return found


def _older(cells: Sequence[dict[str, Any]], counted: set[str], beside: Sequence[str]) -> list[tuple[str, str]]:
    """Folders of the pool that belong to the study but do not count any more, each with the reason."""
    found = []
    gone = {str(run) for cell in cells for run in cell.get("superseded") or []}
    for name in beside:
        first, _, number = name.rpartition(".")
        if first in counted and number.isdigit():
            found.append((name, "superseded: kept aside by fresh=true"))
        elif name not in counted and name.rpartition("-")[2] in gone:
            found.append((name, "superseded: its code or data changed since"))
    return found


def _number(content: dict[str, Any], key: str, default: float) -> float:
    value = finite(content.get(key))
    return default if value is None else value
