"""What planning must know that only torch can tell. Runs in a process of the fork server."""

from __future__ import annotations

import dataclasses
import time
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf

from .. import catalog, registry
from ..costs import costs
from ..errors import UsageError
from ..matching import options_of
from ..training.device import resolve_device


def machine(device: str) -> dict[str, Any]:
    """The device that `train.device` means here, and how many of them there are."""
    chosen = resolve_device(device).type
    return {"device": chosen, "count": torch.cuda.device_count() if chosen == "cuda" else 1}


def bf16_is_slower(width: int = 256, times: int = 3) -> bool:
    """Whether a matrix product in bfloat16 takes this processor longer than one in float32, by measurement: without
    instructions for it, it takes a hundred times as long."""

    def seconds(dtype: torch.dtype) -> float:
        a = torch.ones(width, width, dtype=dtype)
        taken = []
        for _ in range(times):
            start = time.perf_counter()
            a @ a
            taken.append(time.perf_counter() - start)
        return min(taken)

    return seconds(torch.bfloat16) > 1.5 * seconds(torch.float32)


def model_facts(configs: list[tuple[dict[str, Any], int]]) -> list[dict[str, Any]]:
    """Costs of each (config, vocabulary size): builds every model on the meta device, which also proves that it can
    be built.

    Raises:
        UsageError: a model cannot be built; names the component and its option.
    """
    catalog.load_plugins()
    found = []
    for config, vocab_size in configs:
        cfg = OmegaConf.create(config)
        try:
            found.append(dataclasses.asdict(costs(cfg, vocab_size)))
            _try_rates(cfg)
        except UsageError:
            raise
        except (Exception, SystemExit) as error:
            chosen = " ".join(f"{slot}={name}" for slot, name in cfg.choices.items())
            raise UsageError(f"this model cannot be built ({chosen}): {type(error).__name__}: {error}") from error
    return found


def _try_rates(cfg: DictConfig) -> None:
    """Make the optimiser and the schedule once, so that an option out of range is found now and not in the cell."""
    registry.get("optimizer", cfg.choices.optimizer)(
        [{"params": [torch.nn.Parameter(torch.zeros(1))]}], **options_of(cfg, "optimizer")
    )
    registry.get("schedule", cfg.choices.schedule)(10**9, **options_of(cfg, "schedule"))
