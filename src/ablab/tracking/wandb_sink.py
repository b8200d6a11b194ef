"""Runs in Weights & Biases, through the real client, with or without a network."""

from __future__ import annotations

import html
import logging
import math
import os
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from ablab import runfolder
from ablab.tracking import names, wandb_folder
from ablab.tracking.sink import RunInfo
from ablab.tracking.wandb_mode import choose_mode, first_line
from ablab.tracking.wandb_settings import WandbOptions, client_settings

log = logging.getLogger(__name__)

#: metrics whose smallest value matters beside the last one
LOSSES = ("train/loss", "val/loss", "val/perplexity", "val/bits_per_byte")


class WandbSink:
    """One run in W&B: starts online or offline, and never stops the training.

    Attributes:
        mode: `online`, `offline` or `disabled`, once started.
        url: the run's page, or None while offline.
        folder: the attempt's folder in `<runs_dir>/wandb`, or None.
    """

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        self.options = WandbOptions.of(cfg)
        self.mode = "offline"
        self.url: str | None = None
        self.folder: Path | None = None
        self._run: Any = None
        self._broken = False
        self._next_step = 0  # rows before it are in W&B already
        self._pending: dict[str, Any] = {}
        self._minimum: dict[str, float] = {}
        self._last: dict[str, object] = {}

    # -- start -------------------------------------------------------------------------------------------
    def start(self, info: RunInfo) -> None:
        """Open the run; offline if there is no key or no server. Raises `UsageError` (folder, settings)."""
        wandb_folder.require_writable(info.runs_dir / "wandb")
        # Else the client looks up its makers' address to report its own errors, offline too.
        os.environ.setdefault("WANDB_ERROR_REPORTING", "false")
        import wandb  # here: it takes half a second, and other trackers do not need it

        # What an earlier cell of this process left open would swallow this run's rows.
        with self._guard("close the run that was open"):
            if wandb.run is not None:
                wandb.run.finish(exit_code=1)
            wandb.teardown()
        self._broken = False
        settings = client_settings(self.options, info.runs_dir.resolve())
        base_url = wandb.setup(wandb.Settings(silent=True)).settings.base_url
        self.mode = choose_mode(self.options, wandb, base_url)
        earlier = wandb_folder.attempts(info.runs_dir, info.id)
        if self.mode == "online":
            try:
                self._init(wandb, info, settings)
            except (wandb.errors.Error, TimeoutError) as error:
                log.warning("W&B is offline: %s did not take the run (%s)", base_url, first_line(error))
                self.mode = "offline"
                with self._guard("stop the client"):
                    wandb.teardown()
                wandb_folder.drop_new(info.runs_dir, info.id, earlier)
                wandb.setup(wandb.Settings(silent=True))
        if self._run is None:
            with self._guard("start"):
                self._init(wandb, info, settings)
        if self._run is None:
            return
        self.folder = Path(self._run.settings.sync_dir) if self.mode != "disabled" else None
        self.url = self._run.url if self.mode == "online" else None
        # Before the metrics are defined: the client then forgets the minimum of a run that it resumes.
        self._remember(dict(self._run.summary))
        for key in LOSSES:
            self._run.define_metric(key, step_metric="tokens", summary="min,last")
        self._run.define_metric("*", step_metric="tokens")
        self._catch_up(info, earlier)

    def _init(self, wandb: Any, info: RunInfo, settings: dict[str, Any]) -> None:
        in_sweep = "WANDB_SWEEP_ID" in os.environ  # the agent has chosen id, project and entity
        if not in_sweep:
            settings = {**settings, "project": self.options.project, "entity": self.options.entity}
            settings["run_id"] = names.safe_id(info.id)
        self._run = wandb.init(
            name=names.shorten(info.name, names.NAME_LIMIT),
            group=names.shorten(info.group, names.GROUP_LIMIT),
            job_type=names.shorten(info.job_type, names.JOB_TYPE_LIMIT),
            tags=names.safe_tags(info.tags),
            notes=info.notes,
            config=plain(info.config),
            mode=self.mode,
            # The id stands for the result: what a server has of it already is the same run, whoever began it.
            resume="allow" if info.resumed or self.mode == "online" else None,
            settings=wandb.Settings(**settings),
        )

    def _catch_up(self, info: RunInfo, earlier: list[Path]) -> None:
        """Make W&B hold exactly the rows of `metrics.jsonl`, wherever the attempts before this one ran."""
        if self.mode == "online":
            self._next_step = int(self._run.step)  # the server knows
        if self.mode == "online" or not info.resumed:
            # The rows they hold back come again in this attempt.
            for attempt in earlier:
                wandb_folder.supersede(attempt, info.id)
        elif self.mode == "offline":
            for attempt in reversed(earlier):
                if before := wandb_folder.recorded(attempt, info.id):
                    self._next_step = before["step"] + 1
                    self._remember(before["summary"])
                    break
        if info.resumed:
            for row in runfolder.read_metrics(info.run_dir):
                self.log(row)

    def _remember(self, summary: Mapping[str, Any]) -> None:
        for key in LOSSES:
            item: Any = summary.get(key)  # the client's own class is no Mapping
            best = item.get("min") if hasattr(item, "get") else None
            if isinstance(best, int | float):
                self._minimum[key] = float(best)

    # -- rows --------------------------------------------------------------------------------------------
    def log(self, row: Mapping[str, object]) -> None:
        """Show one row at W&B step `row["step"]`; it is written out within `tracker.flush_interval`.

        Rows that an earlier attempt has shown already are left out, and so is a second row of one step.
        """
        step = int(str(row["step"]))
        for key in LOSSES:
            value = row.get(key)
            if isinstance(value, int | float) and math.isfinite(value):
                self._minimum[key] = min(value, self._minimum.get(key, math.inf))
        if self._run is None or step < self._next_step:
            return
        self._last = dict(row)
        with self._guard("log a row"):
            # commit: with an explicit step the client would hold the row back until the next one
            self._run.log({**self._pending, **row}, step=step, commit=True)
            self._pending = {}
        self._next_step = step + 1

    def log_text(self, key: str, text: str, step: int) -> None:
        """Show a text with the next row: call it before `log` of the same step."""
        if self._run is None or step < self._next_step:
            return
        with self._guard("log a text"):
            import wandb

            body = f"<pre style='white-space: pre-wrap'>{html.escape(text)}</pre>"
            self._pending[key] = wandb.Html(body, inject=False)

    def log_figure(self, key: str, path: Path, step: int) -> None:
        """Show an image file with the next row: call it before `log` of the same step."""
        if self._run is None or step < self._next_step:
            return
        with self._guard("log a figure"):
            import wandb

            self._pending[key] = wandb.Image(str(path))

    def log_artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """Upload files as an artifact, if `tracker.artifacts=true`; they must not change any more."""
        if self._run is None or not self.options.artifacts:
            return
        with self._guard("log an artifact"):
            import wandb

            artifact = wandb.Artifact(names.shorten(re.sub(r"[^A-Za-z0-9._-]", "_", name), 128), type=kind)
            for path in paths:
                artifact.add_file(str(path), policy="immutable", skip_cache=True)
            self._run.log_artifact(artifact)

    # -- end ---------------------------------------------------------------------------------------------
    def finish(self, state: str, summary: Mapping[str, object]) -> None:
        """Close the run so that W&B shows its outcome, within `tracker.finish_timeout`.

        finished: finished. diverged: failed, with the tag `diverged`. failed: failed. interrupted: preempted,
        which W&B takes up again. `state` and `summary` are in the run's summary in every case.
        """
        if self._run is None:
            return
        import wandb

        run, self._run = self._run, None
        with self._guard("close the run"):
            if self._pending:
                run.log({**self._pending, "tokens": self._last.get("tokens")}, step=self._next_step, commit=True)
            for key, best in self._minimum.items():
                # The client knows the rows of this attempt only.
                run.summary[key] = {"min": best, "last": self._last.get(key, run.summary.get(key))}
            rest = {key: value for key, value in plain(summary).items() if key not in LOSSES}
            run.summary.update({**rest, "state": state})
            if state == "diverged":
                run.tags = (*(run.tags or ()), state)
            if state == "interrupted":
                run.mark_preempting()
            try:
                run.finish(exit_code=0 if state == "finished" else 1)
            except TimeoutError:
                self._upload_failed()
        with self._guard("stop the client"):
            wandb.teardown()  # its helper process ends here, not with the next cell's

    def _upload_failed(self) -> None:
        if self.mode == "online" and self.folder is not None:
            (self.folder / wandb_folder.INCOMPLETE).touch()
            log.warning(
                "W&B did not take all data within %g s; later: wandb sync --include-online %s",
                self.options.finish_timeout,
                self.folder,
            )

    @contextmanager
    def _guard(self, what: str) -> Iterator[None]:
        """A tracker in trouble says so once; the training goes on."""
        try:
            yield
        except Exception as error:
            if not self._broken:
                log.warning("W&B could not %s (%s); metrics.jsonl has it all", what, first_line(error))
            self._broken = True


def plain(value: Any) -> Any:
    """`value` made of plain dicts and lists, interpolations resolved: the client turns others into text."""
    if OmegaConf.is_config(value):
        return OmegaConf.to_container(value, resolve=True)
    if isinstance(value, Mapping):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    return value
