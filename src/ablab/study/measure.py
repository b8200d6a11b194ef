"""How fast this machine trains a config: a few real steps of the real loop. Runs in a process of the fork server."""

from __future__ import annotations

import dataclasses
import statistics
import tempfile
from pathlib import Path
from typing import Any

from omegaconf import OmegaConf

from .. import catalog, runfolder
from ..data.token_data import open_data
from ..training.loop import train
from . import budget

#: steps trained; the first ones warm up caches and are left out
STEPS, WARM_UP = 8, 3


def seconds_per_step(configs: list[tuple[dict[str, Any], str]]) -> list[float]:
    """Median seconds of one optimiser step for each (config, folder of prepared tokens), one cell at a time."""
    catalog.load_plugins()
    return [_one(config, folder) for config, folder in configs]


def _one(config: dict[str, Any], folder: str) -> float:
    often = {"steps": STEPS, "log_every": 1, "eval_every": STEPS, "checkpoint_every": STEPS, "resume_from": None}
    cfg = OmegaConf.create(config | {"train": config["train"] | often})
    data = open_data(Path(folder))
    short = dataclasses.replace(data, val=data.val[: cfg.model.context_length + 1])  # evaluation is not what is timed
    with tempfile.TemporaryDirectory(prefix="ablab-measure-") as place:
        train(cfg, Path(place), short)
        rows = runfolder.read_metrics(Path(place))
    speeds = [row["tokens_per_second"] for row in rows if row["step"] > WARM_UP and row.get("tokens_per_second")]
    return budget.tokens_per_step(cfg) / statistics.median(speeds)
