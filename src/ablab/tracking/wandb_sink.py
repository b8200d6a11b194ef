"""Runs in Weights & Biases, through the real client, with or without a network."""

from __future__ import annotations

import logging
import os
import tempfile
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ablab.errors import UsageError
from ablab.tracking.names import (
    GROUP_LIMIT,
    JOB_TYPE_LIMIT,
    NAME_LIMIT,
    safe_id,
    safe_tags,
    shorten,
)
from ablab.tracking.sink import RunInfo
from ablab.tracking.wandb_settings import WandbOptions, client_settings

log = logging.getLogger(__name__)

#: metrics whose best value matters beside the last one
LOSSES = ("train/loss", "val/loss", "val/perplexity", "val/bits_per_byte")


class WandbSink:
    """One run in W&B."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.options = WandbOptions.of(cfg)
        self.mode = "offline"
        self._run: Any = None

    def start(self, info: RunInfo) -> None:
        """Open the run. Raises `UsageError` for an unwritable folder."""
        require_writable(info.runs_dir / "wandb")
        import wandb

        settings = wandb.Settings(**client_settings(self.options, info.runs_dir.resolve()))
        config = info.config
        if OmegaConf.is_config(config):
            config = OmegaConf.to_container(config, resolve=True)  # type: ignore[assignment]
        self._run = wandb.init(
            id=safe_id(info.id),
            name=shorten(info.name, NAME_LIMIT),
            group=shorten(info.group, GROUP_LIMIT),
            job_type=shorten(info.job_type, JOB_TYPE_LIMIT),
            tags=safe_tags(info.tags),
            notes=info.notes,
            project=self.options.project,
            entity=self.options.entity,
            config=config,
            mode="offline",
            settings=settings,
        )
        self._run.define_metric("tokens")
        for key in LOSSES:
            self._run.define_metric(key, step_metric="tokens", summary="min,last")
        self._run.define_metric("*", step_metric="tokens")

    def log(self, row: Mapping[str, object]) -> None:
        """Show a row at W&B step `row["step"]`, written out at once."""
        self._run.log(dict(row), step=row["step"], commit=True)

    def log_text(self, key: str, text: str, step: int) -> None:
        """Show a text."""

    def log_figure(self, key: str, path: Path, step: int) -> None:
        """Show an image file."""

    def log_artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """Keep files, if `tracker.artifacts` asks for it."""

    def finish(self, state: str, summary: Mapping[str, object]) -> None:
        """Close the run with its outcome."""
        if self._run is None:
            return
        self._run.summary.update({**summary, "state": state})
        if state == "interrupted":
            self._run.mark_preempting()
        if state != "finished":
            self._run.tags = (*(self._run.tags or ()), state)
        self._run.finish(exit_code=0 if state == "finished" else 1)
        self._run = None


def require_writable(folder: Path) -> None:
    """Make `folder` and prove that a file can be written there. Raises `UsageError`.

    The client would go on in the system's temporary folder, where nobody looks.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"runs_dir={folder.parent}: cannot write to {folder} ({reason})") from None
