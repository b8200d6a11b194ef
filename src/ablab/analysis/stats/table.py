"""The one input of every statistic: a table of runs, one row per run.

Columns: `label` (the variant), `seed`, `loss` (final validation loss in nats per token, or NaN), `state`
(finished | diverged | failed | interrupted | missing) and one column per factor.
"""

from __future__ import annotations

import numpy as np
import pandas as pd

from ablab.errors import UsageError

STATES = ("finished", "diverged", "failed", "interrupted", "missing")
COLUMNS = ("label", "seed", "loss", "state")


def check_runs(runs: pd.DataFrame) -> pd.DataFrame:
    """`runs` as given, after checking its columns, its states and that no (label, seed) stands twice.

    Raises UsageError, naming the column and the values at fault.
    """
    lacking = [c for c in COLUMNS if c not in runs.columns]
    if lacking:
        raise UsageError(f"table of runs: column {lacking[0]} is missing; needed: {', '.join(COLUMNS)}")
    odd = sorted(set(map(str, runs["state"])) - set(STATES))
    if odd:
        raise UsageError(f"state: unknown value {odd[0]!r}; choices: {', '.join(STATES)}")
    twice = runs[runs.duplicated(["label", "seed"])]
    if len(twice):
        row = twice.iloc[0]
        raise UsageError(f"seed: {row['label']} has seed {row['seed']} twice; keep the newest finished run")
    return runs


def labels_of(runs: pd.DataFrame) -> list[str]:
    """Variants in order of appearance."""
    return list(dict.fromkeys(runs["label"]))


def check_label(runs: pd.DataFrame, label: str, what: str) -> None:
    """Raise UsageError unless `label` is a variant of `runs`; `what` names the key it came from."""
    if not (runs["label"] == label).any():
        known = labels_of(runs)
        raise UsageError(f"{what}: no variant {label!r}; choices: {'; '.join(map(str, known))}")


def losses(runs: pd.DataFrame, label: str) -> pd.Series:
    """Final losses of one variant's finished runs: Series indexed by seed, sorted, finite values only."""
    rows = runs[(runs["label"] == label) & (runs["state"] == "finished")]
    series = pd.Series(rows["loss"].to_numpy(dtype=float), index=pd.Index(rows["seed"], name="seed"))
    return series[np.isfinite(series)].sort_index()


def losses_by_label(runs: pd.DataFrame) -> dict[str, pd.Series]:
    """`losses` of every variant at once."""
    return {label: losses(rows, label) for label, rows in runs.groupby("label", sort=False)}
