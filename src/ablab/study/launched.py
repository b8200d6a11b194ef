"""Cells under any launcher of Hydra's: `hydra/launcher=basic`, joblib, submitit, ray.

A launcher calls a function once per job, in a process of its choosing. The function here finds the cell that the job
is and trains it as always: locked, in a child process of its own, its outcome in status.json. What the launcher
returns or raises is not looked at.
"""

from __future__ import annotations

from collections.abc import Sequence

from hydra.core.hydra_config import HydraConfig
from hydra.core.plugins import Plugins
from hydra.types import HydraContext
from omegaconf import DictConfig
from rich.console import Console

from .display import Board
from .runner import Ending, Runner
from .task import Task


class LaunchedCells:
    """The task function: picklable, carries the tasks of the sweep, keyed by their overrides."""

    def __init__(self, tasks: Sequence[Task], overrides: Sequence[Sequence[str]]) -> None:
        self.tasks = {tuple(words): task for words, task in zip(overrides, tasks, strict=True)}

    def __call__(self, cfg: DictConfig) -> str:
        """Train the cell of this job; returns its state."""
        task = self.tasks[tuple(HydraConfig.get().overrides.task)]
        with Board(Console(width=160), {task.run_id: 1.0}) as board:
            endings = Runner(jobs=1, gpus=0, board=board).run([task])
        return endings[task.run_id].state if task.run_id in endings else "missing"


def uses_own_launcher(master: DictConfig) -> bool:
    """Whether the config names Ablab's launcher, whose work `Runner` does in this process."""
    return str(master.hydra.launcher._target_).endswith("AblabLauncher")


def launch(
    context: HydraContext, master: DictConfig, tasks: Sequence[Task], overrides: Sequence[Sequence[str]]
) -> dict[str, Ending]:
    """Hand the tasks to the launcher that the config names; returns how each ended, as its status.json says."""
    from .. import runfolder

    launcher = Plugins.instance().instantiate_launcher(
        hydra_context=context, task_function=LaunchedCells(tasks, overrides), config=master
    )
    launcher.launch([list(words) for words in overrides], initial_job_idx=0)
    found = {}
    for task in tasks:
        status = runfolder.read_status(task.run_dir) or {}
        state = runfolder.state(task.run_dir)
        if state != "missing":
            found[task.run_id] = Ending(state, int(status.get("step") or 0), status.get("reason"))
    return found
