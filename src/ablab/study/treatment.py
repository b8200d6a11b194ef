"""The treatment check: does each swap change what it says, and nothing else? Runs before anything trains.

Every variant is built with the seed of the study and shown one batch. Against the baseline, tensors of the same name
and shape must start bit-equal, and something must differ: the tensors there are, the outputs, or the gradients.
Runs in a process of the fork server.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from .. import catalog
from ..costs import costs, norm_modules
from ..data.token_data import open_data
from ..errors import UsageError
from ..model import build_model
from ..registry import SLOTS
from ..training.optimizer import parameter_groups

#: tokens of the batch shown: enough to tell functions apart, cheap at every size
SEQUENCES, TOKENS = 2, 64
#: factors that are meant to change the initial weights
REDRAW = ("init", "seeds.init", "seeds.salt")
#: slots whose options do not show in an untrained model
TRAINING_SLOTS = ("optimizer", "schedule")


@dataclass
class Seen:
    """What one variant is before its first step."""

    tensors: dict[str, torch.Tensor]
    gradients: dict[str, torch.Tensor]
    logits: torch.Tensor
    record: dict[str, Any]


def check(
    variants: list[tuple[str, dict[str, Any], dict[str, Any]]], baseline: int, data_folder: str
) -> tuple[list[dict[str, Any]], list[str]]:
    """Compare every variant with the baseline.

    Args:
        variants: (label, factors, config) of each.
        baseline: index of the one that the others are compared with.
        data_folder: prepared tokens, from which the batch comes.

    Returns:
        Per variant: added, removed and reshaped tensors (layers folded into `layers.*`), norm modules, optimiser
        groups, parameters, FLOPs per token, first loss, and whether the shared tensors start equal. Then warnings. A
        variant that raises is only warned of: it costs its own cells, not the others'.

    Raises:
        UsageError: a swap changes nothing, or changes tensors that it should share.
    """
    catalog.load_plugins()
    label, factors, config = variants[baseline]
    warnings: list[str] = []
    base = _try(label, config, data_folder, warnings)
    if base is None:
        return [], warnings
    records = []
    for number, (name, own, other) in enumerate(variants):
        seen = base if number == baseline else _try(name, other, data_folder, warnings)
        if seen is None:
            continue
        changed = {key for key in own if own[key] != factors.get(key)}
        unequal = _unequal(base, seen)
        if number != baseline:
            warnings += _judge(name, label, changed, base, seen, unequal)
        records.append({"label": name, **_difference(base, seen), **seen.record, "shared_equal": not unequal})
    return records, warnings


def _try(name: str, config: dict[str, Any], data_folder: str, warnings: list[str]) -> Seen | None:
    try:
        return _look(OmegaConf.create(config), data_folder)
    except UsageError:
        raise
    except (Exception, SystemExit) as error:
        warnings.append(f"{name} fails before it is trained: {type(error).__name__}: {error}")
        return None


def _look(cfg: DictConfig, data_folder: str) -> Seen:
    data = open_data(Path(data_folder))
    length = min(TOKENS, cfg.model.context_length)
    stride = max(1, (len(data.val) - length - 1) // SEQUENCES)
    rows = [torch.from_numpy(data.val[i * stride :][: length + 1].astype("int64")) for i in range(SEQUENCES)]
    batch = torch.stack([row for row in rows if len(row) == length + 1])
    model = build_model(cfg, data.vocab_size).eval()
    logits = model(batch[:, :-1])
    loss = torch.nn.functional.cross_entropy(logits.flatten(0, 1).float(), batch[:, 1:].flatten())
    loss.backward()
    groups = [{"tensors": len(g["params"]), "decay": g.get("weight_decay", "optimizer.weight_decay")}
              for g in parameter_groups(model)]  # fmt: skip
    counted = costs(cfg, data.vocab_size)
    record = {
        "norm_modules": len(norm_modules(model)), "optimizer_groups": groups, "parameters": counted.parameters,
        "flops_per_token": counted.flops_per_token, "first_loss": float(loss.detach()),
    }  # fmt: skip
    gradients = {name: p.grad for name, p in model.named_parameters() if p.grad is not None}
    return Seen({k: v.detach() for k, v in model.state_dict().items()}, gradients, logits.detach(), record)


def _unequal(base: Seen, other: Seen) -> list[str]:
    """Shared tensors (same name, same shape) that do not start bit-equal."""
    shared = [k for k in base.tensors if k in other.tensors and base.tensors[k].shape == other.tensors[k].shape]
    return [k for k in shared if not torch.equal(base.tensors[k], other.tensors[k])]


def _judge(name: str, baseline: str, changed: set[str], base: Seen, seen: Seen, unequal: list[str]) -> list[str]:
    rooms = {*SLOTS, "model"} - {*TRAINING_SLOTS}
    in_model = [k for k in changed if k.partition(".")[0] in rooms and k != "model.dropout"]  # off where nothing trains
    redraws = any(key.startswith(REDRAW) for key in changed) or "seed" in changed
    if unequal and not redraws:
        raise UsageError(
            f"{name} changes more than it says: {', '.join(_fold(unequal))} start differently than in {baseline}, though "
            "both have them in the same shape; paired runs must share what they have in common"
        )
    if not in_model or _alive(base, seen):
        return []
    message = (
        f"{name} changes nothing: the same tensors, outputs and gradients as {baseline}; is {', '.join(sorted(in_model))} "
        "read by anything?"
    )
    if any(key in SLOTS for key in in_model):
        raise UsageError(message)
    return [message]  # a threshold may start to matter later


def _alive(base: Seen, other: Seen) -> bool:
    if set(base.tensors) != set(other.tensors) or any(
        base.tensors[k].shape != other.tensors[k].shape for k in base.tensors
    ):
        return True
    if not torch.equal(base.logits, other.logits):
        return True
    return any(not torch.equal(g, other.gradients[k]) for k, g in base.gradients.items() if k in other.gradients)


def _difference(base: Seen, other: Seen) -> dict[str, list[str]]:
    reshaped = [k for k in base.tensors if k in other.tensors and base.tensors[k].shape != other.tensors[k].shape]
    return {
        "added": _fold(_with_shapes(other.tensors, set(other.tensors) - set(base.tensors))),
        "removed": _fold(_with_shapes(base.tensors, set(base.tensors) - set(other.tensors))),
        "reshaped": _fold([f"{k} {_shape(base.tensors[k])} → {_shape(other.tensors[k])}" for k in reshaped]),
    }


def _with_shapes(tensors: Mapping[str, torch.Tensor], names: set[str]) -> list[str]:
    return [f"{name} {_shape(tensors[name])}" for name in tensors if name in names]


def _shape(tensor: torch.Tensor) -> str:
    return "×".join(map(str, tensor.shape))


def _fold(names: list[str]) -> list[str]:
    """`layers.0.ln1.bias`, `layers.1.ln1.bias` -> `layers.*.ln1.bias`."""
    return list(dict.fromkeys(re.sub(r"^layers\.\d+\.", "layers.*.", name) for name in names))
