"""Faults that reach a cell from outside. Put this folder first on PYTHONPATH.

    FAULT='KIND@STEP ...'   after the STEP-th optimiser step of a process; FAULT_JOB=k: only in the k-th job
    FAULT='raise@2/0 nan@4/3'   several faults, each with the job it belongs to
    NO_REPORT=1             the closing report does nothing, which saves seconds where it is not the point

Kinds: raise, exit0, hardexit (os._exit(0)), nan (weights), sigint, sigterm, sigkill, slow (from that step on).
"""

from __future__ import annotations

import os
import signal
import sys
import time
import types
from typing import Any

SIGNALS = {"sigint": signal.SIGINT, "sigterm": signal.SIGTERM, "sigkill": signal.SIGKILL}


def _faults() -> list[tuple[str, int, str | None]]:
    found = []
    for word in os.environ.get("FAULT", "").split():
        what, _, job = word.partition("/")
        kind, _, step = what.partition("@")
        found.append((kind, int(step), job or os.environ.get("FAULT_JOB")))
    return found


def _strike(kind: str, optimizer: Any) -> None:
    if kind == "raise":
        raise RuntimeError("a fault from outside")
    if kind == "exit0":
        sys.exit(0)
    if kind == "hardexit":
        os._exit(0)
    if kind == "nan":
        for group in optimizer.param_groups:
            for parameter in group["params"]:
                parameter.data.fill_(float("nan"))
    if kind in SIGNALS:
        os.kill(os.getpid(), SIGNALS[kind])


def _arm(faults: list[tuple[str, int, str | None]]) -> None:
    from torch.optim.optimizer import register_optimizer_step_post_hook

    steps = 0

    def after_step(optimizer: Any, args: Any, kwargs: Any) -> None:
        from hydra.core.hydra_config import HydraConfig

        nonlocal steps
        steps += 1
        number = str(HydraConfig.get().job.num)
        for kind, step, job in faults:
            if job not in (None, number):
                continue
            if kind == "slow" and steps >= step:
                time.sleep(0.5)
            elif steps == step:
                _strike(kind, optimizer)

    register_optimizer_step_post_hook(after_step)


in_server = any("forkserver" in word for word in sys.orig_argv)
if os.environ.get("NO_REPORT") and not in_server:
    stub = types.ModuleType("ablab.analysis.report")
    stub.build_report = stub.summary_text = lambda *args, **options: ""  # type: ignore[attr-defined]
    sys.modules[stub.__name__] = stub

# only the server that cells are forked from needs torch: the command itself stays quick
if in_server and _faults():
    _arm(_faults())
