"""Checks of a study that need no statistics: pairing, switches that did nothing, lengths, collapse, code versions."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Sequence
from dataclasses import dataclass

from ablab.analysis.cells import Row
from ablab.analysis.document import fixed, listed
from ablab.analysis.levels import finite
from ablab.analysis.metric import LOSS
from ablab.analysis.read import Run

RESIDUAL = 0.005


@dataclass(frozen=True)
class Pairing:
    """Whether all variants saw the same data under one seed. `same` is None where no hash tells."""

    seed: int
    runs: int
    same: bool | None
    hashes: tuple[str, ...]
    step: int | None


def pairing(rows: Sequence[Row]) -> list[Pairing]:
    """Compare the hashes of the training data over variants, seed by seed.

    Runs of one length are compared at their end, others at the last step for which all know a hash.
    """
    by_seed: dict[int, list[Run]] = defaultdict(list)
    for row in rows:
        for run in row.finished:
            by_seed[run.seed].append(run)
    found = []
    for seed, runs in sorted(by_seed.items()):
        tables = [_hashes(run) for run in runs]
        common = set.intersection(*(set(table) for table in tables))
        if common:
            step = max(common)
            hashes = tuple(sorted({table[step] for table in tables}))
            found.append(Pairing(seed, len(runs), len(hashes) == 1, hashes, step))
        else:
            found.append(Pairing(seed, len(runs), None, (), None))
    return found


def _hashes(run: Run) -> dict[int, str]:
    known = {int(step): str(value) for step, value in (run.status.get("batch_hash_at") or {}).items()}
    step = run.status.get("step", run.steps())
    if run.status.get("batch_hash") and step is not None:
        known[int(step)] = str(run.status["batch_hash"])
    return known


def pairing_warnings(found: Sequence[Pairing]) -> list[str]:
    """A warning for every seed under which variants saw different data."""
    return [
        f"seed {item.seed}: the variants did not see the same training data (batch_hash differs): not a paired comparison"
        for item in found
        if item.same is False
    ]


def same_losses(rows: Sequence[Row]) -> list[str]:
    """Warnings about variants whose final losses are the same to the last bit: the switch between them did nothing."""
    by_value: dict[tuple[int, float], list[str]] = defaultdict(list)
    for row in rows:
        for seed, value in row.values.items():
            by_value[seed, value].append(row.label)
    seeds: dict[tuple[str, ...], list[int]] = defaultdict(list)
    for (seed, _), labels in by_value.items():
        if len(labels) > 1:
            seeds[tuple(labels)].append(seed)
    return [
        f"{listed(labels)} have identical final losses ({_seeds(found)}): the switch between them did nothing"
        for labels, found in seeds.items()
    ]


def _seeds(seeds: Sequence[int]) -> str:
    return ("seed " if len(seeds) == 1 else "seeds ") + ", ".join(map(str, sorted(seeds)))


def lengths(rows: Sequence[Row], base: Row | None, budget: bool) -> list[str]:
    """Warnings about variants that ran for another number of steps than the baseline, with the loss where both were.

    `budget` says that a declared budget explains unequal steps; then nothing is flagged.
    """
    if base is None or budget or not base.finished:
        return []
    ends = {_end(run) for run in base.finished}
    warnings = []
    for row in rows:
        mine = {_end(run) for run in row.finished}
        if row is base or not mine or mine == ends:
            continue
        text = (
            f"{row.label} ended at step {listed(sorted(map(str, mine)))}, the baseline {base.label} at step "
            f"{listed(sorted(map(str, ends)))}: their final losses are not of the same step"
        )
        warnings.append(text + _at_common_step(row, base))
    return warnings


def _end(run: Run) -> int:
    steps = run.points(LOSS)[0]
    return int(steps[-1]) if len(steps) else 0


def _at_common_step(row: Row, base: Row) -> str:
    baseline = {run.seed: run for run in base.finished}
    pairs = [(run, baseline[run.seed]) for run in row.finished if run.seed in baseline]
    if not pairs:
        return ""
    tables = [(dict(zip(*mine.points(LOSS), strict=True)), dict(zip(*other.points(LOSS), strict=True)))
              for mine, other in pairs]  # fmt: skip
    common = set.intersection(*(set(table) for pair in tables for table in pair))
    if not common:
        return "; no step was evaluated in both"
    step = max(common)
    mean = sum(mine[step] - other[step] for mine, other in tables) / len(tables)
    return f"; at step {step:.0f}, the last evaluated in both, the difference is {fixed(4, True)(mean)}"


def entropy(run: Run) -> float | None:
    """Unigram entropy of the data in nats per token, where the run knows it."""
    data = run.status.get("data")
    nested = data.get("unigram_entropy") if isinstance(data, dict) else None
    return finite(run.status.get("unigram_entropy", nested))


def collapsed(rows: Sequence[Row]) -> list[str]:
    """Warnings about finished runs that did not learn: their loss is not below the unigram entropy of the data."""
    return [
        f"{run.name} finished but collapsed: its loss {run.last(LOSS):.4f} is not below the unigram entropy "
        f"{known:.4f} of the data"
        for row in rows
        for run in row.finished
        if (known := entropy(run)) is not None and (run.last(LOSS) or 0.0) >= known
    ]


def residual(row: Row) -> float | None:
    """Gap of the FFN parameters to the budget as a fraction, from the plan or the runs."""
    for entry in row.entries:
        source = entry.run.status if entry.run else {}
        value = finite(entry.cell.costs.get("ffn_residual", source.get("ffn_residual")))
        if value is not None:
            return value
    return None


def residuals(rows: Sequence[Row]) -> list[str]:
    """Warnings about variants whose FFN misses the parameter budget by more than half a per cent."""
    return [
        f"{row.label}: its FFN has {value:+.2%} parameters against the matched budget"
        for row in rows
        if (value := residual(row)) is not None and abs(value) > RESIDUAL
    ]


def code_versions(rows: Sequence[Row]) -> list[str]:
    """A warning where the runs that are compared come from several commits. Runs that know the hash of the code that
    trained them need none: a commit that changed that code gave them another hash, which keeps runs of a variant apart.
    """
    if all(run.status.get("source_hash") for row in rows for run in row.finished):
        return []
    commits: dict[str, int] = defaultdict(int)
    for row in rows:
        for run in row.finished:
            if commit := commit_of(run):
                commits[commit[:8]] += 1
    if len(commits) < 2:
        return []
    shown = ", ".join(f"{commit} ({number} run{'s' * (number > 1)})" for commit, number in sorted(commits.items()))
    return [f"the runs come from several code versions (git commit: {shown})"]


def commit_of(run: Run) -> str | None:
    """Git commit of the code a run was trained with, where its status says."""
    environment = run.status.get("environment")
    places = [environment, run.status] if isinstance(environment, dict) else [run.status]
    for place in places:
        git = place.get("git")
        found = (git.get("commit") if isinstance(git, dict) else None) or place.get("git_commit") or place.get("commit")
        if found:
            return str(found)
    return None
