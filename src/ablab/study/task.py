"""One cell on its way to a process of its own."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path
from typing import Any


@dataclass(frozen=True)
class Task:
    """One cell as its process gets it: plain data that can be pickled."""

    number: int
    run_id: str
    tracker_id: str
    label: str
    study: str
    config: dict[str, Any]
    hydra: dict[str, Any]
    runs_dir: str
    folder: str
    data_folder: str
    facts: dict[str, Any] = field(default_factory=dict)  # costs and code version, for the tracker
    environment: dict[str, str] = field(default_factory=dict)
    spare: int = 1  # cores of this machine per thread of the run

    @property
    def run_dir(self) -> Path:
        return Path(self.runs_dir) / self.folder
