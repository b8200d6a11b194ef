"""Runs read from a W&B server, whole histories included.

The server's `history()` is a random sample of 500 rows, and asking `scan_history` for several keys returns only rows
that hold all of them. So every row is scanned, without naming keys, and rows of one step are merged here.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import pandas as pd

from ablab.analysis.collect import frame
from ablab.analysis.differ import infer_factors, value_of
from ablab.analysis.levels import finite, label
from ablab.analysis.read import Run, columns, flatten
from ablab.errors import UsageError

#: how W&B calls the state of a run, and how it is called here
STATES = {"finished": "finished", "running": "running", "crashed": "interrupted", "killed": "interrupted",
          "preempted": "interrupted", "preempting": "running", "failed": "failed"}  # fmt: skip


def wandb_runs(project: str, api: Any = None) -> list[Run]:
    """All runs of `ENTITY/PROJECT`, in the form of run folders.

    `api` is a `wandb.Api` or an object like it (`runs(path)` giving runs with `id name state config summary
    scan_history()`); None makes one.

    Raises:
        UsageError: wandb is not logged in, or the project has no runs.
    """
    if api is None:
        import wandb

        try:
            api = wandb.Api()
        except Exception as error:  # the client raises its own, undocumented kinds
            raise UsageError(f"--wandb {project}: {error}") from error
    try:
        found = list(api.runs(project))
    except ValueError as error:  # of an unknown project
        raise UsageError(f"--wandb {project}: {error}") from error
    if not found:
        raise UsageError(f"--wandb {project}: the project has no runs")
    return [wandb_run(run) for run in found]


def wandb_run(source: Any) -> Run:
    """One run of the server, its full history included."""
    config: dict[str, Any] = dict(source.config or {})
    choices = {str(key): str(value) for key, value in (config.pop("choices", None) or {}).items()}
    flat = {key: value for key, value in flatten(config).items() if not key.startswith("_wandb")}
    summary = _plain(getattr(source, "summary", None))
    state = str(summary.get("state") or STATES.get(str(source.state), str(source.state)))
    seed = finite(flat.get("seed"))
    return Run(
        name=str(source.name or source.id),
        folder=None,
        choices=choices,
        seed=int(seed) if seed is not None else 0,
        config=flat,
        status=summary,
        state=state,
        history=columns(_row(row) for row in source.scan_history()),
        notes=getattr(source, "notes", None),
        extra={"id": str(source.id)},
    )


def _plain(summary: Any) -> dict[str, Any]:
    content = getattr(summary, "_json_dict", summary)
    return dict(content) if isinstance(content, Mapping) else {}


def _row(row: Mapping[str, Any]) -> dict[str, Any]:
    """A row of the server with `step` as we count it, and without the server's own columns."""
    kept = {key: value for key, value in row.items() if not key.startswith("_")}
    kept.setdefault("step", row.get("_step"))
    return kept


def collect_wandb(project: str, api: Any = None) -> pd.DataFrame:
    """The table of `ablab.analysis.collect.collect`, from the runs of a W&B project."""
    runs = wandb_runs(project, api)
    factors, _ = infer_factors(runs)
    names = [run.name for run in runs]
    for run in runs:
        if names.count(run.name) > 1:
            run.name = f"{run.name} ({run.extra['id']})"
        run.extra["label"] = label({key: value_of(run, key) for key in factors})
    return frame(runs)
