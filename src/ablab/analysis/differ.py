"""What differs between runs: which keys are factors, which come along with one, which must keep runs apart."""

from __future__ import annotations

from collections.abc import Hashable, Iterable, Mapping, Sequence
from typing import Any

from ablab.analysis.levels import GROUPS, group_key, natural, text
from ablab.analysis.read import Run

#: keys without influence on the result of a run, or that name its place: never a factor, never a reason to part runs
IGNORED = {
    "seed", "note", "runs_dir", "data.path", "train.log_every", "train.eval_every", "train.checkpoint_every",
    "train.eval_batch_size", "train.device", "train.threads", "train.resume_from", "seeds.init", "seeds.data",
    "jobs", "fresh", "plan", "status", "cell", "fail_fast", "tracker",
}  # fmt: skip
IGNORED_NODES = ("tracker.", "study.", "hydra.")
#: options that set keys of other groups than their own
NODES_OF = {"scale": ("model.", "train.", "data.", "optimizer.", "schedule."), "data": ("data.", "train.")}


def counts(key: str) -> bool:
    """Whether a key can change the result of a run."""
    return key not in IGNORED and not key.startswith(IGNORED_NODES)


def value_of(run: Run, key: str) -> Any:
    """Level of a factor in a run: the option of a group, else the value of a configuration key (None if absent)."""
    return run.choices[key] if key in run.choices else run.config.get(key)


def traits(run: Run) -> dict[str, Any]:
    """Everything about a run that determines its result: options, keys, data, length, sources."""
    found: dict[str, Any] = {group: option for group, option in run.choices.items() if counts(group)}
    found.update({key: value for key, value in run.config.items() if counts(key)})
    found.pop("train.steps", None)
    if (steps := run.steps()) is not None:
        found["train.steps"] = steps
    for key in ("data_hash", "source_hash", "code_hash"):
        if run.status.get(key):
            found[key] = run.status[key]
    if "data_hash" not in found and "data.path" in run.config:
        found["data.path"] = run.config["data.path"]
    return found


def differing(tables: Sequence[Mapping[str, Any]]) -> list[str]:
    """Keys that take more than one value over the tables (absent counts as a value), groups first."""
    names = dict.fromkeys(key for table in tables for key in table)
    found = []
    for name in names:
        seen: set[Hashable] = set()
        for table in tables:
            seen.add(text(table[name]) if name in table else None)
            if len(seen) > 1:
                found.append(name)
                break
    return sorted(found, key=lambda name: (group_key(name), natural(name)))


def follows(key: str, factors: Iterable[str], tables: Sequence[Mapping[str, Any]]) -> bool:
    """Whether a key has one value for each combination of the factors' levels."""
    names = list(factors)
    seen: dict[tuple[str, ...], str] = {}
    for table in tables:
        combination = tuple(text(table.get(name)) for name in names)
        if seen.setdefault(combination, text(table.get(key))) != text(table.get(key)):
            return False
    return True


def belongs(key: str, factors: Iterable[str]) -> bool:
    """Whether a key is set by an option of one of the factors, so that it comes along with it by right."""
    return any(key.startswith((f"{factor}.", *NODES_OF.get(factor, ()))) for factor in factors)


def infer_factors(runs: Sequence[Run]) -> tuple[list[str], list[str]]:
    """Factors of runs that no study declares, and warnings about keys that cannot be told apart.

    Options that differ are factors; so is every other differing key, unless it follows from factors already there.
    Lengths, data and sources are none: runs that differ in them without a plan are kept apart.
    """
    tables = [traits(run) for run in runs]
    keys = [key for key in differing(tables) if not key.endswith("_hash") and key not in ("data.path", "train.steps")]
    factors = [key for key in keys if key in GROUPS or any(key in run.choices for run in runs)]
    warnings = []
    for key in keys:
        if key in factors:
            continue
        if not follows(key, factors, tables):
            levels = sorted({text(table.get(key)) for table in tables}, key=natural)
            factors.append(key)
            warnings.append(
                f"{key} differs between the runs ({', '.join(levels)}) and no study declares it: "
                "it is treated as a factor, no mean is taken over it"
            )
        elif not belongs(key, factors):
            values = {text(table.get(key)): None for table in tables}
            warnings.append(
                f"{key} ({', '.join(sorted(values, key=natural))}) changes together with "
                f"{', '.join(factors) or 'the runs'}: their effects cannot be told apart"
            )
    return factors, warnings


def parting(cells: Mapping[Hashable, Sequence[Run]]) -> list[str]:
    """Keys in which runs of one cell differ although they should not: such runs are never averaged."""
    found: dict[str, None] = {}
    for runs in cells.values():
        if len(runs) > 1:
            found.update(dict.fromkeys(differing([traits(run) for run in runs])))
    return list(found)
