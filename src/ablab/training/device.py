"""Where and how the numbers are computed: device, threads, precision, compilation."""

from __future__ import annotations

import ctypes
import gc
import logging
import os
import sys
from collections.abc import Iterator
from contextlib import AbstractContextManager, contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from torch import nn

from ..errors import UsageError

log = logging.getLogger(__name__)

#: variants of one block that torch.compile may hold: train and eval, each with its own batch shape, and some room
RECOMPILES = 32
BACKEND = "inductor"
CACHE_VARIABLE = "TORCHINDUCTOR_CACHE_DIR"
#: glibc's numbers of three settings of malloc, and what two are set to. 32 MiB is the most that it takes for the first
M_MMAP_THRESHOLD, M_TRIM_THRESHOLD, M_ARENA_MAX = -3, -1, -8
KEPT_BLOCK, KEPT_IN_ALL = 32 * 2**20, 2**30


def resolve_device(name: str) -> torch.device:
    """The device of `train.device`: `auto` is CUDA where there is one, else Apple's MPS, else the CPU.

    Raises:
        UsageError: the device is unknown, or this machine or this build of torch has none.
    """
    there = {"cpu": True, "cuda": torch.cuda.is_available(), "mps": torch.backends.mps.is_available()}
    if name == "auto":
        name = next(kind for kind in ("cuda", "mps", "cpu") if there[kind])
    if name not in there:
        raise UsageError(f"train.device={name}: choices: auto, cpu, cuda, mps")
    if not there[name]:
        usable = ", ".join(kind for kind, usable in there.items() if usable)
        raise UsageError(f"train.device={name}: not available here; available: {usable}")
    return torch.device(name)


@dataclass(frozen=True)
class Runtime:
    """The device of a run and its precision."""

    device: torch.device
    precision: str

    def autocast(self) -> AbstractContextManager[Any]:
        """Context for forward passes. bf16 means float32 weights whose matrix products run in bfloat16: weights kept
        in bfloat16 itself would not move at small rates (1.0 + 1e-3 rounds back to 1.0)."""
        if self.precision == "bf16":
            return torch.autocast(self.device.type, dtype=torch.bfloat16)
        return nullcontext()

    @property
    def sums(self) -> torch.dtype:
        """Type of running sums of losses: float64 where the device has it."""
        return torch.float32 if self.device.type == "mps" else torch.float64

    def move(self, array: torch.Tensor) -> torch.Tensor:
        """A CPU tensor on the device; on CUDA through pinned memory, without waiting for the copy."""
        if self.device.type == "cuda":
            return array.pin_memory().to(self.device, non_blocking=True)
        return array.to(self.device)


@contextmanager
def runtime(device: str, threads: int, precision: str) -> Iterator[Runtime]:
    """Set what is global to the process for one run, and put it back afterwards.

    float32 means float32: TF32 is switched off, since it rounds products to 10 bits and differs between machines.
    """
    if precision not in ("fp32", "bf16"):
        raise UsageError(f"train.precision={precision}: choices: fp32, bf16")
    chosen = resolve_device(device)
    before = (torch.get_num_threads(), torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32)
    torch.set_num_threads(threads)
    if chosen.type == "cpu":
        keep_memory()
    torch.backends.cuda.matmul.allow_tf32 = torch.backends.cudnn.allow_tf32 = False
    try:
        yield Runtime(chosen, precision)
    finally:
        torch.set_num_threads(before[0])
        torch.backends.cuda.matmul.allow_tf32, torch.backends.cudnn.allow_tf32 = before[1:]


def keep_memory() -> bool:
    """Have the process keep memory that it frees; False where the C library has no such setting.

    A step frees and takes the same few hundred MB again and again. glibc by default gives blocks back to the system at
    once, and the system then clears thousands of pages in every step: an eighth of the time of a small model. All threads
    take from one store, so that what one of them gave back serves the others.
    """
    if not sys.platform.startswith("linux"):
        return False
    try:
        mallopt = ctypes.CDLL(None).mallopt
    except (AttributeError, OSError):
        return False
    wanted = {M_MMAP_THRESHOLD: KEPT_BLOCK, M_TRIM_THRESHOLD: KEPT_IN_ALL, M_ARENA_MAX: 1}
    return all([mallopt(name, value) for name, value in wanted.items()])


@contextmanager
def quiet_gc() -> Iterator[None]:
    """No garbage collection while training: a pass over torch's many objects stalls a step for milliseconds.

    What exists now is left out of later passes, so `gc.collect()` at a checkpoint costs next to nothing.
    """
    was_on = gc.isenabled()
    gc.freeze()
    gc.disable()
    try:
        yield
    finally:
        gc.unfreeze()
        if was_on:
            gc.enable()


@contextmanager
def compiled(model: nn.Module, wanted: bool, cache: Path | None = None) -> Iterator[None]:
    """Compile each block of `model.layers` in place while the context lasts; state-dict keys stay as they are.

    Blocks, not the whole model: all layers share one compiled graph, so compiling takes as long for 48 layers
    as for 1. A graph break or too many recompilations is an error, never a silent fall back to eager. Compiled code is
    kept in the folder `cache`, where every process of a sweep finds it, unless TORCHINDUCTOR_CACHE_DIR names another.
    """
    if not wanted:
        yield
        return
    import torch._dynamo  # takes half a second; only compiled runs pay for it

    # The limits are shared by every model of a process: without a reset an earlier variant eats this one's share.
    torch._dynamo.reset()
    layers = list(model.get_submodule("layers").children())
    for layer in layers:
        layer.compile(fullgraph=True, dynamic=False, backend=BACKEND)
    log.info("train.compile: %d blocks, compiled at their first use", len(layers))
    limits: dict[str, Any] = {
        "recompile_limit": RECOMPILES,
        "fail_on_recompile_limit_hit": True,
        "suppress_errors": False,
    }
    from torch._inductor.runtime.cache_dir_utils import default_cache_dir

    before = os.environ.get(CACHE_VARIABLE)
    if cache is not None and before in (None, default_cache_dir()):  # torch itself sets the default when it is loaded
        os.environ[CACHE_VARIABLE] = str(Path(cache).absolute())
    try:
        with torch._dynamo.config.patch(limits):
            yield
    finally:
        if before is not None:
            os.environ[CACHE_VARIABLE] = before
        else:
            os.environ.pop(CACHE_VARIABLE, None)
        for layer in layers:
            layer._compiled_call_impl = None  # the undo of Module.compile, which has no public one
