"""Going on from a checkpoint: which one, whether it fits, and how the learning rate continues.

Two ways lead here. A run that was interrupted goes on from its own folder. `train.resume_from` names another
run's folder or checkpoint: its weights, optimiser and random states are taken over as a whole, never in part.
What may differ then is listed in `HARMLESS`; more steps are allowed under the rule stated at `check`;
anything else is refused.
"""

from __future__ import annotations

import json
import logging
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from omegaconf import DictConfig, OmegaConf

from ..errors import UsageError
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
        unseen: the same as rows, where the run's trackers have not been shown them yet.
        best: the best weights before it, from another run's folder.
    """

    content: dict[str, Any] | None = None
    lines: list[str] = field(default_factory=list)
    unseen: list[dict[str, Any]] = field(default_factory=list)
    best: dict[str, Any] | None = None


def own(cfg: DictConfig, run_dir: Path, data_hash: str) -> Found:
    """The checkpoint of this run's own folder, if it left one.

    Raises:
        UsageError: the checkpoint belongs to another config or other data; names the keys.
    """
    folder = run_dir / CHECKPOINTS
    checkpoint.clean(folder)
    content = checkpoint.read_latest(folder)
    if content is None:
        if any((folder / name).exists() for name in (checkpoint.LAST, checkpoint.PREVIOUS)):
            log.warning("no readable checkpoint in %s: starting again from step 0", folder)
        return Found()
    check(cfg, content, data_hash, where=str(run_dir), longer=False)
    log.info("going on from step %d of %s", content["step"], run_dir)
    return Found(content, lines_up_to(run_dir, _last_row(content)))


def other(cfg: DictConfig, source: str, data_hash: str) -> Found:
    """The checkpoint named by `train.resume_from`: a run folder, its checkpoints/, or a file in there.

    Raises:
        UsageError: there is no readable checkpoint, it holds weights only, or it does not fit.
    """
    path = Path(source).expanduser()
    content: dict[str, Any] | None
    if path.is_dir():
        folder = path if path.name == CHECKPOINTS else path / CHECKPOINTS
        content = checkpoint.read_latest(folder)
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
        raise UsageError(
            f"train.resume_from={source}: holds weights only; name the run folder or its last.pt"
        )
    check(cfg, content, data_hash, where=source, longer=True)
    if _steps(content) < cfg.train.steps and content["step"] > 0:
        content["longer"] = True
    lines = lines_up_to(folder.parent, _last_row(content))
    log.info("going on from step %d of %s", content["step"], source)
    return Found(content, lines, [json.loads(line) for line in lines], _best(folder, content))


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
    old.pop("train.steps"), new.pop("train.steps")
    before, now = _steps(content), cfg.train.steps
    differing = [
        f"{key}: {old.get(key, _ABSENT)} -> {new.get(key, _ABSENT)}"
        for key in sorted(old.keys() | new.keys())
        if old.get(key, _ABSENT) != new.get(key, _ABSENT) and not harmless(key)
    ]
    if content["data_hash"] != data_hash:
        differing.append(
            f"data (hash of tokens, tokenizer and split): {content['data_hash'][:12]} -> {data_hash[:12]}"
        )
    if now != before and not (longer and now > before):
        differing.append(f"train.steps: {before} -> {now}" + (" (may only grow)" if longer else ""))
    if differing:
        raise UsageError(
            f"the checkpoint of {where} belongs to another run; differing: " + "; ".join(differing)
        )
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


def _last_row(content: Mapping[str, Any]) -> int:
    """Step of the last row that a checkpoint knows: its own, unless it was saved in the middle of an
    evaluation."""
    return int(content["step"]) if content["settled"] else int(content["step"]) - 1


def _steps(content: Mapping[str, Any]) -> int:
    return int(OmegaConf.create(content["config"]).train.steps)


def _best(folder: Path, content: Mapping[str, Any]) -> dict[str, Any] | None:
    """best.pt beside a checkpoint, unless it is of a later step than that checkpoint knows."""
    try:
        best = checkpoint.read(folder / checkpoint.BEST)
    except CheckpointError:
        return None
    return best if best.get("step") == content["best_step"] else None
