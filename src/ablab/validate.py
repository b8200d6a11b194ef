"""Range checks of a composed config: everything that can be known without data and without torch."""

from __future__ import annotations

import math
import re
from dataclasses import fields
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from .errors import UsageError
from .registry import SLOTS
from .schema import Tracker, check_looks, limits


def validate(cfg: DictConfig) -> None:
    """Raise a UsageError that names the key, its value and its range, if any key is out of it."""
    for key, limit in limits():
        _check(key, OmegaConf.select(cfg, key), limit)
    if cfg.choices.tracker == "wandb":
        for item in fields(Tracker):
            _check(f"tracker.{item.name}", cfg.tracker.get(item.name), dict(item.metadata))
    _finite(cfg)
    _heads(cfg)
    if cfg.study.name is not None and not re.fullmatch(r"[A-Za-z0-9_=+-][A-Za-z0-9._=+-]{0,99}", cfg.study.name):
        raise UsageError(
            f"study.name={cfg.study.name} cannot name a folder: use up to 100 of A-Z a-z 0-9 . _ = + -, not . first"
        )
    if cfg.study.looks:
        check_looks(cfg.study.looks)
    if cfg.train.resume_from and not Path(cfg.train.resume_from).expanduser().exists():
        raise UsageError(f"train.resume_from={cfg.train.resume_from}: no such file or folder")
    if cfg.choices.data == "text" and not cfg.data.path:
        raise UsageError("data=text needs data.path=FILE_OR_FOLDER")
    if cfg.choices.data != "text" and cfg.data.path:
        raise UsageError(f"data.path is read by data=text only, not by data={cfg.choices.data}")
    if cfg.choices.norm == "identity" and cfg.model.final_norm:
        raise UsageError("model.final_norm=true: norm=identity has no norm to put there; leave it null")
    if cfg.data.tokenizer == "bpe" and cfg.data.vocab_size is None:
        raise UsageError("data.tokenizer=bpe needs data.vocab_size, e.g. data.vocab_size=1000")


def _finite(cfg: DictConfig) -> None:
    for slot in SLOTS:
        for key, value in cfg[slot].items():
            if isinstance(value, float) and not math.isfinite(value):
                raise UsageError(f"{slot}.{key}={value} is no finite number")


def _heads(cfg: DictConfig) -> None:
    width, heads = cfg.model.d_model, cfg.model.n_heads
    if width % heads:
        raise UsageError(f"model.n_heads={heads} does not divide model.d_model={width}")
    if cfg.choices.position == "rope" and (width // heads) % 2:
        raise UsageError(
            f"position=rope rotates pairs and needs an even head size; model.d_model={width} / model.n_heads={heads} "
            f"gives {width // heads}"
        )


def _check(key: str, value: Any, limit: dict[str, Any]) -> None:
    if value is None or not limit:
        return
    if "choices" in limit:
        if value not in limit["choices"]:
            raise UsageError(f"{key}={value}: choices are {', '.join(limit['choices'])}")
        return
    tests = {
        "low": (lambda x, b: x >= b, "at least"),
        "above": (lambda x, b: x > b, "greater than"),
        "below": (lambda x, b: x < b, "less than"),
    }
    if not math.isfinite(value) or not all(tests[name][0](value, bound) for name, bound in limit.items()):
        allowed = " and ".join(f"{tests[name][1]} {bound:g}" for name, bound in limit.items())
        raise UsageError(f"{key}={value} is out of range: it must be {allowed}")
