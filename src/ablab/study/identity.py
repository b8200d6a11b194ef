"""What determines a run's result, and the id and folder name made of it."""

from __future__ import annotations

import hashlib
import json
import re
from typing import Any

from omegaconf import DictConfig, OmegaConf

from .. import catalog, registry
from ..paths import PACKAGE
from . import fingerprint

#: keys of `train` that change no number of a run: budgets count through the steps they become
HARMLESS_TRAIN = (
    "tokens", "tokens_per_parameter", "flops", "minutes", "eval_batch_size", "log_every", "checkpoint_every",
)  # fmt: skip
#: code that every run depends on beside its components; of the room `training` all but what follows
CORE_CODE = (
    "ablab.matching",
    "ablab.model",
    "ablab.initialise",
    "ablab.components.dtype",
    "ablab.components.loss",
    "ablab.components.context",
    "ablab.data.windows",
    "ablab.data.batches",
)
#: modules of `training` that write down what happened, or whose parts count as options, and change no number
BOOKKEEPING = ("__init__", "checkpoint", "environment", "facts", "metrics", "outcome", "resume", "schedule", "status")


#: choices that are part of the name of a run folder even at their default
NAMED = ("norm", "block", "ffn", "position", "embedding")
ALSO_NAMED = ("attention", "init", "data", "optimizer", "schedule")
NAME_LIMIT = 96


def ingredients(cfg: DictConfig, data_hash: str, device: str) -> dict[str, Any]:
    """Everything that determines the result of a run, as plain data.

    Paths, notes, logging, tracking, the study and actions are not in it; the text counts through `data_hash`.
    """
    plain: dict[str, Any] = OmegaConf.to_container(cfg, resolve=True)  # type: ignore[assignment]
    slots = {slot: {"option": cfg.choices[slot], **plain[slot]} for slot in registry.SLOTS}
    train = {key: value for key, value in plain["train"].items() if key not in HARMLESS_TRAIN}
    train["device"] = device
    return {
        "slots": slots,
        "model": plain["model"],
        "train": train,
        "seed": plain["seed"],
        "seeds": plain["seeds"],
        "order": plain["data"]["order"],
        "data": data_hash,
        "sources": sources(cfg),
    }


def training_code() -> list[str]:
    """Modules whose code determines every run."""
    room = sorted(file.stem for file in (PACKAGE / "training").glob("*.py"))
    return [*CORE_CODE, *(f"ablab.training.{name}" for name in room if name not in BOOKKEEPING)]


def sources(cfg: DictConfig) -> dict[str, str]:
    """Fingerprints of the code that a run uses: its components and the training code."""
    used = {}
    for slot in registry.SLOTS:
        option = catalog.option(slot, cfg.choices[slot])
        used[f"{slot}={option.name}"] = fingerprint.of_class(option.module, option.cls_name)
    return used | {module: fingerprint.of_module(module) for module in training_code()}


def run_id(parts: dict[str, Any]) -> str:
    """Ten hex digits of what determines a run."""
    text = json.dumps(parts, sort_keys=True, ensure_ascii=False, separators=(",", ":"))
    return hashlib.sha256(text.encode()).hexdigest()[:10]


def folder_name(cfg: DictConfig, identifier: str) -> str:
    """`<label>-<id>`: choices and seed in words, one level, safe characters, under 100 bytes."""
    defaults = catalog.defaults()
    words = [cfg.choices[slot] for slot in NAMED]
    words += [cfg.choices[group] for group in ALSO_NAMED if cfg.choices[group] != defaults[group]]
    tail = f"-seed{cfg.seed}-{identifier}"
    label = re.sub(r"[^A-Za-z0-9._=+-]", "_", "-".join(words))
    return label[: NAME_LIMIT - len(tail)] + tail
