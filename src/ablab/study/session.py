"""One command from its overrides to its exit code: compose, plan, train what is missing, close."""

from __future__ import annotations

import contextlib
import copy
import shlex
import sys
import time
from collections.abc import Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

from hydra.types import HydraContext
from omegaconf import DictConfig
from rich.console import Console

from .. import runfolder
from ..errors import UsageError
from ..schema import ACTIONS
from . import budget, closing, pool, processes
from .display import Board, clock
from .launched import launch, uses_own_launcher
from .plan import Cell, Plan, declare
from .planning import Planner, plain
from .runner import Ending, Runner, default_jobs, spare
from .task import Task


class Session:
    """Runs one command. `run` is the whole story; each step is a method."""

    def __init__(self, context: HydraContext, master: DictConfig) -> None:
        self.context, self.master = context, master
        self.console = Console(width=None if sys.stdout.isatty() else 160)
        self.planner = Planner(self.context.config_loader, master, command_line(), self._say)

    def run(self, arguments: list[str]) -> int:
        """Do what the command asks; returns its exit code."""
        plan = self.planner.plan(arguments)
        actions = plan.cells[0].cfg
        if actions.plan:
            return self.show_plan(plan)
        if actions.status:
            return self.show_status(plan)
        return self.train(plan)

    def _say(self, text: str) -> None:
        closing.say(self.console, text)

    def show_plan(self, plan: Plan) -> int:
        """Print the plan; train nothing."""
        from .forecast import show

        declare(plan, write=False)
        self.planner.treatments(plan)
        variants = {cell.label: cell for cell in plan.cells}
        asked = [(plain(cell.cfg), str(self.planner.data_of(cell).folder)) for cell in variants.values()]
        measured = processes.ask("ablab.study.measure:seconds_per_step", asked)
        jobs = self._jobs(plan, len(plan.cells))
        show(self.console, plan, self.planner.data_of(plan.cells[0]), dict(zip(variants, measured, strict=True)), jobs)
        return 0

    def show_status(self, plan: Plan) -> int:
        """Print what is done and what is missing; train nothing."""
        declare(plan, write=False)
        self.console.print(closing.cells_table(plan))
        states = [runfolder.state(plan.run_dir(cell)) for cell in plan.cells]
        done = sum(state in runfolder.OUTCOMES for state in states)
        self._say(f"{done} of {len(states)} cells done")
        return closing.exit_code(plan, None)

    def train(self, plan: Plan) -> int:
        """Train what is missing and close the study."""
        begun = time.monotonic()
        actions = plan.cells[0].cfg
        declare(plan, write=False)
        if actions.cell is not None and actions.cell not in (cell.index for cell in plan.cells):
            raise UsageError(f"cell={actions.cell}: this command's cells are {_numbers(plan)}")
        self.planner.treatments(plan)
        study = declare(plan)
        asked = [cell for cell in plan.cells if actions.cell in (None, cell.index)]
        if actions.fresh:
            self._set_aside(plan, asked)
            study = declare(plan)  # the tracker gets new ids for them
        before = {cell.id: runfolder.state(plan.run_dir(cell)) for cell in asked}
        todo = [cell for cell in asked if before[cell.id] not in runfolder.OUTCOMES]
        self._announce(plan, todo, len(asked))
        runner = self._runner(plan, todo)
        endings: dict[str, Ending] = {}
        tasks = [self._task(plan, cell, runner.jobs) for cell in todo]
        if todo and uses_own_launcher(self.master):
            with runner.board:
                endings = runner.run(tasks)
        elif todo:
            endings = launch(self.context, self.master, tasks, [cell.overrides for cell in todo])
        self._say("")
        self.console.print(closing.cells_table(replace(plan, cells=asked)))
        self._say(
            f"{closing.counts(before, endings)} in {clock(time.monotonic() - begun)}; {closing.disk(plan)}",
        )
        self._report(plan, study, runner.stopped)
        return closing.exit_code(replace(plan, cells=asked), runner.stopped)

    def _set_aside(self, plan: Plan, cells: list[Cell]) -> None:
        for cell in cells:
            with pool.owned(plan.runs_dir, cell.id) as mine:
                if not mine:
                    raise UsageError(f"fresh=true: {cell.folder} is being trained by another process")
                kept = pool.set_aside(plan.run_dir(cell))
            if kept:
                self._say(f"kept the old {cell.folder} as {kept.name}")

    def _announce(self, plan: Plan, todo: list[Cell], asked: int) -> None:
        tokens = sum(budget.tokens(c.cfg) for c in todo)
        self._say(
            f"study {plan.study}: {asked} cells, {len(todo)} to train ({tokens / 1e6:.2f} M tokens)",
        )
        if todo:
            per_parameter = budget.span([budget.tokens(c.cfg) / c.costs["non_embedding"] for c in todo])
            epochs = budget.span([self.planner.epochs(c) for c in todo])
            self._say(
                f"a cell trains on {per_parameter} tokens per parameter (embeddings aside), {epochs} epochs of its text"
            )
        for text in plan.warnings:
            self._say(f"warning: {text}")

    def _runner(self, plan: Plan, todo: list[Cell]) -> Runner:
        actions = plan.cells[0].cfg
        jobs = self._jobs(plan, len(todo))
        work = {c.id: float(c.costs["flops_per_token"]) * budget.tokens(c.cfg) for c in todo}
        return Runner(jobs, self._gpus, Board(self.console, work), bool(actions.fail_fast))

    @property
    def _gpus(self) -> int:
        return self.planner.machine["count"] if self.planner.machine["device"] == "cuda" else 0

    def _jobs(self, plan: Plan, cells: int) -> int:
        actions = plan.cells[0].cfg
        return actions.jobs or default_jobs(actions.train.threads, self._gpus, cells)

    def _task(self, plan: Plan, cell: Cell, jobs: int) -> Task:
        config = {key: value for key, value in plain(cell.cfg).items() if key not in ACTIONS}
        hydra = copy.deepcopy(cell.hydra)
        hydra["job"] |= {"num": cell.index, "id": str(cell.index)}
        return Task(
            number=cell.index, run_id=cell.id, tracker_id=pool.tracker_id(plan.run_dir(cell), cell.id), label=cell.label, study=plan.study, config=config, hydra=hydra,
            runs_dir=str(plan.runs_dir), folder=cell.folder, data_folder=str(self.planner.data_of(cell).folder), facts=cell.costs | {"git": plan.code, "source_hash": cell.source},
            spare=spare(jobs, cell.cfg.train.threads) if uses_own_launcher(self.master) else 1,
        )  # fmt: skip

    def _report(self, plan: Plan, study: dict[str, Any], stopped: str | None) -> None:
        """The report, the way to the tracker, and the way to the files; a report that fails must not hide the runs."""
        if any((plan.run_dir(cell) / runfolder.METRICS).exists() for cell in plan.cells):
            with self._survive("report"):
                from ..analysis.report import build_report, summary_text

                out = plan.folder / "report"
                build_report([plan.folder], out)
                self._say("")
                self._say(summary_text(runfolder.read_json(out / "report.json") or {}))
                self._say(f"report: {out / 'report.html'}")
        from ..tracking import closing_lines

        for line in closing_lines(plan.cells[0].cfg.choices.tracker, plan.runs_dir, list(plan.tracker_ids.values())):
            self._say(line)
        if stopped:
            self._say("the same command goes on from here")

    @contextlib.contextmanager
    def _survive(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            import traceback

            self._say(f"warning: no {what}: {type(error).__name__}: {error}")
            self._say(traceback.format_exc())


def command_line() -> str:
    """The command as it can be typed again."""
    first = Path(sys.argv[0]).name
    words = ["python", "run.py"] if first == "run.py" else ["ablab"]
    return shlex.join([*words, *sys.argv[1:]])


def _numbers(plan: Plan) -> str:
    numbers = sorted(cell.index for cell in plan.cells)
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))
