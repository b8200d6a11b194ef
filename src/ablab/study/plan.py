"""The plan of a study: its cells in order, and study.json, which declares it before the first step."""

from __future__ import annotations

import hashlib
import json
import time
from collections.abc import Mapping, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from filelock import FileLock
from omegaconf import DictConfig, OmegaConf

from .. import runfolder
from ..catalog import GROUPS
from . import pool
from .identity import NAMED

#: settings of a study that its first command declares for good
KEPT = (
    "question", "design", "nuisance", "selection_seeds", "unstable", "looks", "screen", "match", "margin", "alpha", "target",
    "slope",
)  # fmt: skip


@dataclass
class Cell:
    """One run that a study asks for.

    Attributes:
        index: its place in the plan; also `hydra.job.num` of the process that trains it.
        label: its variant in words, `norm=rms,ffn=relu`; the seeds of a variant share it.
        factors: key -> value of everything that the study varies, but the seed.
        id, folder: identity of the run and name of its folder in the pool.
        base: hash of what determines the run apart from data and source code.
        source: hash of that source code.
        costs: parameters, FLOPs and widths, as measured on the model.
        hydra: Hydra's own config of this job, as plain data.
    """

    index: int
    overrides: tuple[str, ...]
    cfg: DictConfig
    seed: int
    label: str = ""
    factors: dict[str, Any] = field(default_factory=dict)
    id: str = ""
    folder: str = ""
    base: str = ""
    source: str = ""
    costs: dict[str, Any] = field(default_factory=dict)
    hydra: dict[str, Any] = field(default_factory=dict)

    def record(self) -> dict[str, Any]:
        """The cell as study.json holds it."""
        return {
            "index": self.index, "run": self.id, "folder": self.folder, "label": self.label, "factors": self.factors,
            "seed": self.seed, "overrides": list(self.overrides), "base": self.base, **self.costs,
        }  # fmt: skip


@dataclass
class Plan:
    """A study and the cells that this command asks for."""

    study: str
    runs_dir: Path
    cells: list[Cell]
    factors: dict[str, list[Any]]
    baseline: dict[str, Any]
    settings: DictConfig
    command: str
    code: dict[str, Any]
    warnings: list[str] = field(default_factory=list)
    treatments: list[dict[str, Any]] = field(default_factory=list)
    seconds_per_step: dict[str, float] = field(default_factory=dict)
    noise: dict[str, Any] | None = None

    @property
    def folder(self) -> Path:
        return self.runs_dir / runfolder.STUDIES / self.study

    def run_dir(self, cell: Cell) -> Path:
        return self.runs_dir / cell.folder

    @property
    def tracker_ids(self) -> dict[str, str]:
        """Run id -> its id at the tracker."""
        return {cell.id: pool.tracker_id(self.run_dir(cell), cell.id) for cell in self.cells}

    @property
    def seeds(self) -> list[int]:
        return list(dict.fromkeys(cell.seed for cell in self.cells))


def factor_value(cfg: DictConfig, key: str) -> Any:
    """The value a config has for a factor: an option's name for a group, else the value of the key."""
    if key in GROUPS:
        return cfg.choices.get(key)
    value = OmegaConf.select(cfg, key)
    return OmegaConf.to_container(value) if OmegaConf.is_config(value) else value


def show(value: Any) -> str:
    """A factor's value in a label: short, with numbers as people write them."""
    return f"{value:g}" if isinstance(value, float) else str(value)


def describe(cells: Sequence[Cell], keys: Sequence[str]) -> None:
    """Give every cell its factors and label; a study without factors is labelled by its choices."""
    for cell in cells:
        cell.factors = {key: factor_value(cell.cfg, key) for key in keys}
        named = cell.factors or {slot: cell.cfg.choices[slot] for slot in NAMED}
        cell.label = ",".join(f"{key}={show(value)}" for key, value in named.items())


def study_name(swept: Sequence[str], fixed: Sequence[str]) -> str:
    """`ffn+norm-1a2b3c`: the swept keys and a short hash of everything else that was set."""
    words = "+".join(sorted(key.rpartition(".")[2] for key in swept)) or "run"
    digest = hashlib.sha256(json.dumps([sorted(swept), sorted(fixed)]).encode()).hexdigest()[:6]
    return f"{words[:80]}-{digest}"


def declare(plan: Plan, *, write: bool = True) -> dict[str, Any]:
    """Write study.json before the first step: a new study, or an old one with this command's cells added.

    What was declared stays: cells keep their index, a cell whose source or data changed points to its new run and
    lists the old one, cells that are new are recorded as an addition with its time. Without `write` the cells only get
    the index that they have or would have there.
    """
    path = plan.folder / runfolder.STUDY
    locks = pool.cache_dir(plan.runs_dir) / "locks"
    if write:
        locks.mkdir(parents=True, exist_ok=True)
    with FileLock(locks / f"study-{plan.study}.lock") if write else nullcontext():
        old = runfolder.read_json(path)
        new = _merged(old, plan) if old else _first(plan)
        if write and new != old:
            runfolder.write_json_atomic(path, new)
    numbers = {record["run"]: record["index"] for record in new["cells"]}
    for cell in plan.cells:
        cell.index = numbers[cell.id]
    return new


def _now() -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%S%z")


def _first(plan: Plan) -> dict[str, Any]:
    settings: dict[str, Any] = OmegaConf.to_container(plan.settings)  # type: ignore[assignment]
    return {
        "study": plan.study,
        "command": plan.command,
        "declared": _now(),
        "code": plan.code,
        **{key: settings[key] for key in KEPT},
        "factors": plan.factors,
        "seeds": plan.seeds,
        "baseline": plan.baseline,
        "cells": [cell.record() for cell in plan.cells],
        "treatments": plan.treatments,
        "warnings": plan.warnings,
        "additions": [],
        "wandb": {
            "project": plan.cells[0].cfg.tracker.get("project"),
            "runs": plan.tracker_ids,
        },
        "noise": plan.noise,
        "seconds_per_step": plan.seconds_per_step,
    }


def _kept(old: Mapping[str, Any], plan: Plan) -> list[str]:
    """What this command sets and the study declared otherwise: the declaration stays."""
    found = []
    for key in KEPT:
        wanted = plan.settings[key]
        wanted = OmegaConf.to_container(wanted) if OmegaConf.is_config(wanted) else wanted
        if f"study.{key}=" in plan.command and key in old and old[key] != wanted:
            found.append(f"study.{key}={wanted} was asked for later; the study declared {old[key]}, which stays")
    return found


def _merged(old: Mapping[str, Any], plan: Plan) -> dict[str, Any]:
    new = json.loads(json.dumps(old))
    runs = {record["run"] for record in new["cells"]}
    added: list[int] = []
    for cell in plan.cells:
        if cell.id in runs:
            continue
        twin = next((r for r in new["cells"] if r["base"] == cell.base and r["label"] == cell.label), None)
        if twin is not None:  # same config and seed, other source or data
            twin["superseded"] = [*twin.get("superseded", []), twin["run"]]
            twin |= {key: value for key, value in cell.record().items() if key != "index"}
        else:
            new["cells"].append(cell.record() | {"index": len(new["cells"])})
            added.append(len(new["cells"]) - 1)
    new["wandb"]["runs"] |= plan.tracker_ids
    for key, values in plan.factors.items():
        known = new["factors"].setdefault(key, [])
        known += [value for value in values if value not in known]
    new["seconds_per_step"] = {**plan.seconds_per_step, **new.get("seconds_per_step", {})}
    new["noise"] = plan.noise or new.get("noise")
    new["seeds"] += [seed for seed in plan.seeds if seed not in new["seeds"]]
    new["baseline"] = {**plan.baseline, **new["baseline"]}
    new["warnings"] += [w for w in plan.warnings if w not in new["warnings"]]
    known = {t["label"] for t in plan.treatments}
    new["treatments"] = [t for t in new.get("treatments", []) if t["label"] not in known] + plan.treatments
    own = {cell.id: cell.cfg for cell in plan.cells}
    for record in new["cells"]:  # a command that did not sweep a factor of the study still set it
        if record["run"] in own:
            record["factors"] = {key: factor_value(own[record["run"]], key) for key in new["factors"]}
    new["warnings"] += [w for w in _kept(old, plan) if w not in new["warnings"]]
    if added:
        new["additions"].append({"when": _now(), "command": plan.command, "cells": added})
    return new
