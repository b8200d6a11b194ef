"""The settings of the W&B client that ablab changes, each with its reason. Client: wandb 0.31."""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass, fields
from pathlib import Path
from typing import Any

from ablab.errors import UsageError, unknown
from ablab.tracking.names import PROJECT_LIMIT

MODES = ("auto", "online", "offline")


@dataclass(frozen=True)
class WandbOptions:
    """The config group `tracker` of `tracker=wandb`; times in seconds."""

    mode: str = "auto"
    project: str = "ablab"
    entity: str | None = None
    init_timeout: float = 15.0
    finish_timeout: float = 20.0
    flush_interval: float = 0.5
    system_stats: bool = False
    artifacts: bool = False

    @classmethod
    def of(cls, cfg: Mapping[str, Any]) -> WandbOptions:
        """Checked options. Raises `UsageError` naming the key."""
        known = [field.name for field in fields(cls)]
        for key in cfg:
            if key not in known:
                raise unknown("key of tracker=wandb", f"tracker.{key}", [f"tracker.{name}" for name in known])
        options = cls(**{str(key): value for key, value in cfg.items()})
        if options.mode not in MODES:
            raise UsageError(f"tracker.mode={options.mode}: choose one of {', '.join(MODES)}")
        for name, optional in (("project", False), ("entity", True)):
            value = getattr(options, name)
            if value is None and optional:
                continue
            if not isinstance(value, str) or not re.fullmatch(rf"[^/\\#?%:]{{1,{PROJECT_LIMIT}}}", value):
                needed = f"1 to {PROJECT_LIMIT} characters without / \\ # ? % :"
                raise UsageError(f"tracker.{name}={value}: a name of {needed} is needed")
        for name in ("init_timeout", "finish_timeout", "flush_interval"):
            value = getattr(options, name)
            if isinstance(value, bool) or not isinstance(value, int | float) or not 0 < value <= 3600:
                raise UsageError(f"tracker.{name}={value}: a number of seconds above 0 and up to 3600 is needed")
        return options


def client_settings(options: WandbOptions, runs_dir: Path) -> dict[str, Any]:
    """Keyword arguments for `wandb.Settings`."""
    return {
        "root_dir": str(runs_dir),
        "use_dot_wandb": False,  # a `.wandb` folder lying about must not hide the data
        # A killed run keeps what was flushed; the client's 15 s would lose a whole small run.
        "x_transaction_log_flush_interval": options.flush_interval,
        # Without these a dead server holds the run at its start and at its end.
        "init_timeout": options.init_timeout,
        "finish_timeout": options.finish_timeout,
        "finish_timeout_raises": True,  # to be able to say what was not uploaded
        # The run's log belongs to run.log; capturing it again costs time and reorders lines.
        "console": "off",
        "silent": True,
        # Start-up work whose result is in config.yaml and status.json anyway.
        "disable_git": True,
        "disable_code": True,
        "x_save_requirements": False,
        "x_disable_meta": not options.system_stats,
        "x_disable_machine_info": not options.system_stats,
        "x_disable_stats": not options.system_stats,
        "label_disable": True,
        # Never hand back a run that somebody left open in this process.
        "reinit": "finish_previous",
    }
