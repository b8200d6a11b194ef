"""What a run ran on: versions, hardware, source. Best effort: what cannot be found out is null, never an error."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import resource
import sys
from pathlib import Path
from typing import Any

import torch

from ..provenance import git

PACKAGES = ("ablab", "torch", "numpy", "tokenizers", "safetensors", "hydra-core", "omegaconf", "wandb")


def environment(device: torch.device) -> dict[str, Any]:
    """Versions, hardware, threads, git commit and whether the working tree differs from it."""
    return {
        "versions": {"python": platform.python_version(), **{name: _version(name) for name in PACKAGES}},
        "platform": platform.platform(),
        "hardware": {
            "device": device.type,
            "name": _device_name(device),
            "cpus": os.cpu_count(),
            "cuda": torch.version.cuda,
        },
        "threads": torch.get_num_threads(),
        "git": git(Path(__file__).resolve().parent),
    }


def peak_memory(device: torch.device) -> int | None:
    """Most bytes in use so far: of the device on CUDA, else of the process."""
    if device.type == "cuda":
        return int(torch.cuda.max_memory_allocated(device))
    peak = resource.getrusage(resource.RUSAGE_SELF).ru_maxrss
    return peak if sys.platform == "darwin" else peak * 1024  # bytes on macOS, KiB on Linux


def _version(name: str) -> str | None:
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _device_name(device: torch.device) -> str | None:
    if device.type == "cuda":
        return torch.cuda.get_device_name(device)
    try:
        for line in Path("/proc/cpuinfo").read_text(encoding="utf-8", errors="replace").splitlines():
            if line.startswith("model name"):
                return line.partition(":")[2].strip()
    except OSError:
        pass  # no such file outside Linux
    return platform.processor() or platform.machine() or None
