"""Tidy curves: one row per run and step, from run folders or from a W&B server."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pandas as pd

from ablab.analysis.differ import differing
from ablab.analysis.levels import group_key, label, natural, text
from ablab.analysis.load import load
from ablab.analysis.read import Run
from ablab.errors import UsageError

FIRST = ["run", "label", "state", "seed", "step", "tokens"]
_NEVER = ("runs_dir", "seed", "seeds.init", "seeds.data")


def collect(paths: Sequence[Path | str]) -> pd.DataFrame:
    """Curves of all runs under the given study folders, run folders or folders of run folders.

    Columns: `run label state seed step tokens`, then one per choice or configuration key that differs between the
    runs (text or numbers, NaN or "" where a run lacks the key), then the metrics (float64, NaN where absent).
    A run without rows has no rows here.

    Raises:
        UsageError: a path is no folder, or no run was found.
    """
    plan, runs = load(paths)
    names = {cell.folder: label(cell.factors) for cell in plan.cells if cell.factors}
    for run in runs:
        run.extra["label"] = names.get(run.name, "")
    return frame(runs)


def frame(runs: Sequence[Run]) -> pd.DataFrame:
    """The tidy table of runs; see `collect`."""
    if not runs:
        raise UsageError("no runs")
    runs = sorted(runs, key=lambda run: natural(run.name))
    tables = [{**run.choices, **run.config} for run in runs]
    swept = [key for key in differing(tables) if key not in _NEVER and not key.startswith(("tracker", "study."))]
    swept.sort(key=lambda key: (group_key(key), natural(key)))
    lengths = [len(run.history.get("step", ())) for run in runs]
    columns: dict[str, Any] = {
        "run": _repeat([run.name for run in runs], lengths),
        "label": _repeat([run.extra.get("label") or label(_chosen(run, swept)) for run in runs], lengths),
        "state": _repeat([run.state for run in runs], lengths),
        "seed": np.repeat(np.array([run.seed for run in runs], dtype=np.int64), lengths),
        "step": _metric(runs, "step", lengths).astype(np.int64),
        "tokens": pd.array(_metric(runs, "tokens", lengths), dtype="Float64"),
    }
    columns["tokens"] = _whole(columns["tokens"])
    for key in swept:
        columns[key] = _swept([table.get(key, "") for table in tables], lengths)
    metrics = sorted({name for run in runs for name in run.history} - {"step", "tokens"}, key=_metric_key)
    for name in metrics:
        columns[name] = _metric(runs, name, lengths)
    return pd.DataFrame(columns)


def _metric_key(name: str) -> tuple[int, str]:
    first = ("train/loss", "val/loss", "val/bits_per_byte", "train/grad_norm", "lr", "tokens_per_second")
    return (first.index(name) if name in first else len(first), name)


def _chosen(run: Run, swept: Sequence[str]) -> dict[str, Any]:
    return {key: run.choices.get(key, run.config.get(key)) for key in swept if key in run.choices or key in run.config}


def _repeat(values: list[str], lengths: list[int]) -> np.ndarray[Any, Any]:
    return np.repeat(np.array(values, dtype=object), lengths)


def _metric(runs: Sequence[Run], name: str, lengths: list[int]) -> np.ndarray[Any, Any]:
    parts = [run.history.get(name, np.full(length, np.nan)) for run, length in zip(runs, lengths, strict=True)]
    return np.concatenate(parts) if parts else np.empty(0)


def _whole(values: Any) -> Any:
    numbers = np.asarray(values.to_numpy(dtype=np.float64, na_value=np.nan))
    missing = np.isnan(numbers)
    return (
        pd.array(np.where(missing, 0, numbers).astype(np.int64), dtype="Int64")
        if not missing.any()
        else (pd.Series(pd.array(np.where(missing, 0, numbers).astype(np.int64), dtype="Int64")).mask(missing))
    )


def _swept(values: list[Any], lengths: list[int]) -> np.ndarray[Any, Any]:
    numbers = [isinstance(value, (int, float)) and not isinstance(value, bool) for value in values]
    if any(numbers) and all(number or value in ("", None) for number, value in zip(numbers, values, strict=True)):
        return np.repeat(np.array([float(v) if n else np.nan for v, n in zip(values, numbers, strict=True)]), lengths)
    return _repeat([value if isinstance(value, str) else text(value) for value in values], lengths)


def write(curves: pd.DataFrame, path: Path) -> None:
    """Write a table of curves as `.csv` or `.parquet`, by the ending.

    Raises:
        UsageError: another ending.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    if path.suffix == ".csv":
        curves.to_csv(path, index=False)
    elif path.suffix == ".parquet":
        curves.to_parquet(path, index=False)
    else:
        raise UsageError(f"--out {path}: the file must end in .csv or .parquet")


def read_curves(path: Path) -> pd.DataFrame:
    """Read back what `write` wrote, with labels such as `none` and `NA` as the text they are.

    With pandas alone use `pd.read_csv(path, keep_default_na=False, na_values={...})`: its default turns such labels
    into NaN.
    """
    if path.suffix == ".parquet":
        return pd.read_parquet(path)
    curves = pd.read_csv(path, dtype=str, keep_default_na=False)
    for name in curves.columns:
        if name in ("run", "label", "state"):
            continue
        filled = curves[name] != ""
        numbers = pd.to_numeric(curves[name].where(filled), errors="coerce")
        spelled = curves[name].str.lower().isin(["nan", "null", "none", "na"])
        if bool((numbers.notna() == filled).all()) and not bool(spelled.any()):
            curves[name] = numbers
    for name in ("seed", "step", "tokens"):
        if name in curves and bool(curves[name].notna().all()) and len(curves):
            curves[name] = curves[name].astype("int64")
    return curves


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `analysis/collect.py`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="collect.py", description="Gather the curves of runs into one tidy table.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="study folder, run folder, or folder of run folders")
    parser.add_argument("--wandb", metavar="ENTITY/PROJECT", help="read the runs of a W&B project instead")
    parser.add_argument("--out", default="curves.csv", help="curves.csv or curves.parquet (default: %(default)s)")
    options = parser.parse_args(arguments)
    try:
        if bool(options.paths) == bool(options.wandb):
            raise UsageError("give either PATHs or --wandb ENTITY/PROJECT")
        if options.wandb:
            from ablab.analysis.from_wandb import collect_wandb

            curves = collect_wandb(options.wandb)
        else:
            curves = collect(options.paths)
        write(curves, Path(options.out))
    except UsageError as error:
        print(f"collect.py: {error}", file=sys.stderr)
        return 2
    print(f"{options.out}: {len(curves)} rows of {curves['run'].nunique()} runs")
    return 0
