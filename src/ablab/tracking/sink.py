"""What a tracker is: a few calls, whatever stands behind them.

`metrics.jsonl` is the truth and is written by the training loop itself; a sink only shows the same rows to
somebody. A sink may refuse to start (`UsageError`: bad settings, unwritable folder) but never ends a run
that is under way.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol, runtime_checkable


@dataclass(frozen=True)
class RunInfo:
    """Everything a tracker needs to know about a run before its first row."""

    id: str  # derived from what determines the result; the same after a resume
    name: str  # for people: choices and seed
    group: str  # the variant; its seeds share it
    job_type: str
    tags: tuple[str, ...]  # the studies that ask for this run
    config: dict[str, Any]  # plain nested dict, resolved
    runs_dir: Path
    run_dir: Path
    resumed: bool = False
    notes: str | None = None


@runtime_checkable
class Sink(Protocol):
    """Where the rows of one run are shown."""

    def start(self, info: RunInfo) -> None:
        """Open the run, or open it again after an interruption. Raises `UsageError` if it cannot."""

    def log(self, row: Mapping[str, object]) -> None:
        """Show one row of `metrics.jsonl`: `step`, `tokens` and any metrics; None stands for not finite.

        Rows come in the order of their steps and one per step, with everything known at that step in it.
        """

    def log_text(self, key: str, text: str, step: int) -> None:
        """Show a text, say a sample after `step` steps. Call it before `log` of that step."""

    def log_figure(self, key: str, path: Path, step: int) -> None:
        """Show the PNG file `path`. Call it before `log` of that step."""

    def log_artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """Keep copies of files (`kind`: model, dataset) where the sink stores files, if it was asked to."""

    def finish(self, state: str, summary: Mapping[str, object]) -> None:
        """Close the run with its outcome: finished, diverged, failed or interrupted."""


class NullSink:
    """`tracker=none`: shows nothing, writes nothing."""

    def start(self, info: RunInfo) -> None:
        """Nothing to open."""

    def log(self, row: Mapping[str, object]) -> None:
        """Nothing to show."""

    def log_text(self, key: str, text: str, step: int) -> None:
        """Nothing to show."""

    def log_figure(self, key: str, path: Path, step: int) -> None:
        """Nothing to show."""

    def log_artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """Nothing to keep."""

    def finish(self, state: str, summary: Mapping[str, object]) -> None:
        """Nothing to close."""
