"""Going on from a checkpoint: which one, whether it fits, and how the learning rate continues.

Two ways lead here. A run that was interrupted goes on from its own folder. `train.resume_from` names another
run's folder or checkpoint: its weights, optimiser and random states are taken over as a whole, never in part.
What may differ then is listed in `HARMLESS`; more steps are allowed under the rule stated at `check`;
anything else is refused.
"""

from __future__ import annotations

import json
import logging
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import UsageError
from ..registry import get
from ..runfolder import CHECKPOINTS
from ..schema import ACTIONS
from . import checkpoint
from .checkpoint import CheckpointError
from .metrics import lines_up_to

log = logging.getLogger(__name__)

#: keys that change what is shown, where it lies or where it is computed, not what is trained; a group stands
#: for all of its keys. Budgets are here because only the steps that follow from them count.
HARMLESS = (
    "train.log_every", "train.eval_every", "train.checkpoint_every", "train.eval_batch_size",
    "train.resume_from", "train.device", "train.threads", "train.compile",
    "train.tokens", "train.tokens_per_parameter", "train.flops", "train.minutes",
    "tracker", "choices.tracker", "choices.scale", "choices.experiment", "data.path",
    "note", "runs_dir", "study", *ACTIONS,
)  # fmt: skip
_ABSENT = "(none)"


@dataclass(frozen=True)
class Found:
    """What a run goes on from.

    Attributes:
        content: the checkpoint; None: start from nothing.
        lines: lines of metrics.jsonl that led to it, verbatim.
        own: whether it is this run's own, not another's.
        unseen: the same lines as rows, where the run's trackers have not been shown them yet.
        best: the best weights before it, from another run's folder.
    """

    content: dict[str, Any] | None = None
    lines: list[str] = field(default_factory=list)
    own: bool = False
    unseen: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None


def find(cfg: DictConfig, run_dir: Path, data_hash: str) -> Found:
    """What the run in `run_dir` goes on from: its own checkpoint, else the one of `train.resume_from`.

    Raises:
        UsageError: the checkpoint there is belongs to another run, or the one that is named cannot be used.
    """
    folder = run_dir / CHECKPOINTS
    content, broken = checkpoint.read_latest(folder)
    if content is not None:
        check(cfg, content, data_hash, where=str(run_dir), longer=False)
        log.info("going on from step %d of %s", content["step"], run_dir)
    checkpoint.clean(folder, broken)
    _clean(run_dir)
    if content is not None:
        return Found(content, lines_up_to(run_dir, _last_row(content)), own=True)
    if broken:
        log.warning("starting %s again from step 0", run_dir)
    return named(cfg, cfg.train.resume_from, data_hash) if cfg.train.resume_from else Found()


def named(cfg: DictConfig, source: str, data_hash: str) -> Found:
    """The checkpoint of `train.resume_from=source`: a run folder, its checkpoints/, or a file; only reads.

    Raises:
        UsageError: there is no readable checkpoint, it holds weights only, or it does not fit this config.
    """
    path = Path(source).expanduser()
    content: dict[str, Any] | None
    if path.is_dir():
        folder = path if path.name == CHECKPOINTS else path / CHECKPOINTS
        content, _ = checkpoint.read_latest(folder)
        if content is None:
            raise UsageError(f"train.resume_from={source}: no readable checkpoint in {folder}")
    elif path.is_file():
        folder = path.parent
        try:
            content = checkpoint.read(path)
        except CheckpointError as error:
            raise UsageError(f"train.resume_from={source}: {error}") from error
    else:
        raise UsageError(f"train.resume_from={source}: no such run folder or checkpoint")
    if "optimizer" not in content:
        raise UsageError(f"train.resume_from={source}: holds weights only; name the run folder or its last.pt")
    check(cfg, content, data_hash, where=f"train.resume_from={source}", longer=True)
    old = OmegaConf.create(content["config"])
    if old.train.steps < cfg.train.steps:
        schedule = get("schedule", old.choices.schedule)(old.train.steps, **flat(old.schedule))
        content["longer"] |= content["step"] >= schedule.warmup_steps
    lines = lines_up_to(folder.parent, _last_row(content))
    log.info("going on from step %d of %s", content["step"], source)
    unseen = [json.loads(line) for line in lines]
    return Found(content, lines, unseen=unseen, best=_best(folder, content))


def check(cfg: DictConfig, content: Mapping[str, Any], data_hash: str, *, where: str, longer: bool) -> None:
    """Refuse a checkpoint that does not continue this config.

    With `longer`, train.steps may be larger than the checkpoint's. The rule for the learning rate is then: at
    each step the smaller of what the new schedule says and what the step before had, once the old warm-up was
    over; so it never rises again. `content["step"]` must not lie beyond the new end.

    Raises:
        UsageError: lists every differing key with both values.
    """
    old = flat(OmegaConf.create(content["config"]))
    new = flat(OmegaConf.create(OmegaConf.to_yaml(cfg, resolve=True)))  # through the same text as the old one
    before, now = old.pop("train.steps"), new.pop("train.steps")
    other_data = content["data_hash"] != data_hash
    differing = [
        f"{key}: {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT)
        and (not harmless(key) or (other_data and key.startswith("data.")))
    ]
    if other_data:
        differing.append(f"data (hash of tokens, tokenizer and split): {content['data_hash'][:12]} -> {data_hash[:12]}")
    if now != before and not (longer and now > before):
        differing.append(f"train.steps: {before} -> {now}" + (" (may only grow)" if longer else ""))
    if differing:
        raise UsageError(f"the checkpoint of {where} belongs to another run; differing: " + "; ".join(differing))
    if now != before:
        log.warning(
            "train.steps %s -> %s: from step %s on the learning rate is the smaller of the new schedule's "
            "and that of the step before, so it never rises again",
            before,
            now,
            content["step"],
        )


def harmless(key: str) -> bool:
    """Whether a key may differ between a checkpoint and the run that goes on from it."""
    return any(key == name or key.startswith(name + ".") for name in HARMLESS)


def flat(cfg: Any, prefix: str = "") -> dict[str, Any]:
    """A nested config as `{"norm.eps": 1e-05, ...}`, lists are values."""
    if isinstance(cfg, DictConfig):
        cfg = OmegaConf.to_container(cfg)
    found: dict[str, Any] = {}
    for key, value in cfg.items():
        if isinstance(value, Mapping):
            found |= flat(value, f"{prefix}{key}.")
        else:
            found[f"{prefix}{key}"] = value
    return found


def _clean(run_dir: Path) -> None:
    """Remove what other processes were killed over while writing; this one's status.json may be on its way."""
    for leftover in run_dir.glob(".*.tmp"):
        if f".{os.getpid()}-" not in leftover.name:
            leftover.unlink(missing_ok=True)


def _last_row(content: Mapping[str, Any]) -> int:
    """Step of the last row that a checkpoint knows: its own, unless it was saved in the middle of an evaluation."""
    return int(content["step"]) if content["settled"] else int(content["step"]) - 1


def _best(folder: Path, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """best.pt beside a checkpoint, unless it is of a later step than that checkpoint knows."""
    try:
        best = checkpoint.read(folder / checkpoint.BEST)
    except CheckpointError:
        return None
    return best if best.get("step") == content["best_step"] else None
