"""What must live in Hydra's namespace: the sweeper and the launcher that `conf/config.yaml` names.

Thin on purpose: Hydra imports this file at every start. The work is in `ablab.study`.
"""

from collections.abc import Sequence
from dataclasses import dataclass, field
from typing import Any

from hydra.core.config_store import ConfigStore
from hydra.core.utils import JobReturn
from hydra.plugins.launcher import Launcher
from hydra.plugins.sweeper import Sweeper
from hydra.types import HydraContext, TaskFunction
from omegaconf import DictConfig


@dataclass
class SweeperConf:
    _target_: str = "hydra_plugins.ablab_plugins.AblabSweeper"
    params: dict[str, str] = field(default_factory=dict)  # swept keys of an experiment file


@dataclass
class LauncherConf:
    _target_: str = "hydra_plugins.ablab_plugins.AblabLauncher"


ConfigStore.instance().store(group="hydra/sweeper", name="ablab", node=SweeperConf, provider="ablab")
ConfigStore.instance().store(group="hydra/launcher", name="ablab", node=LauncherConf, provider="ablab")


class AblabSweeper(Sweeper):
    """Plans a study of all cells, has the missing ones trained, and closes it with a table and a report."""

    def __init__(self, params: dict[str, str] | None = None) -> None:
        self.params = dict(params or {})

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.context, self.config = hydra_context, config

    def sweep(self, arguments: list[str]) -> Any:
        from ablab.study.session import Session

        typed = [f"{key}={value}" for key, value in self.params.items()] + list(arguments)
        return Session(self.context, self.config).run(typed)


class AblabLauncher(Launcher):
    """Cells of this machine in processes of their own, several at once (`ablab.study.runner`)."""

    def setup(self, *, hydra_context: HydraContext, task_function: TaskFunction, config: DictConfig) -> None:
        self.task = task_function

    def launch(self, job_overrides: Sequence[Sequence[str]], initial_job_idx: int) -> Sequence[JobReturn]:
        raise RuntimeError("the ablab launcher is driven by the ablab sweeper; choose another hydra/launcher with it")
