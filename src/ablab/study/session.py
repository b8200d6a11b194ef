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

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.types import HydraContext
from omegaconf import DictConfig, OmegaConf, open_dict, read_write
from rich.console import Console

from .. import runfolder
from ..composition import finish
from ..data import TokenData, check_length, prepare
from ..errors import UsageError
from ..explain import explained
from ..registry import SLOTS
from ..schema import ACTIONS
from . import budget, closing, noise, pool, processes, provenance
from .display import Board, clock
from .expand import axes, parse_assignments, variants
from .identity import folder_name, ingredients, run_id
from .launched import launch, uses_own_launcher
from .plan import Cell, Plan, declare, describe, factor_value, study_name
from .runner import Ending, Runner, default_jobs
from .task import Task

#: keys that neither name a study nor are factors of it
NOT_IN_NAME = (
    *ACTIONS,
    "runs_dir",
    "note",
    "study.name",
    "experiment",
    "seed",
    "train.log_every",
    "train.checkpoint_every",
)


class Session:
    """Runs one command. `run` is the whole story; each step is a method."""

    def __init__(self, context: HydraContext, master: DictConfig) -> None:
        self.context, self.loader = context, context.config_loader
        self.master = master
        self.console = Console(width=None if sys.stdout.isatty() else 160)
        self.data: dict[str, TokenData] = {}
        self.measured: dict[str, float] = {}

    def run(self, arguments: list[str]) -> int:
        """Do what the command asks; returns its exit code."""
        plan = self.plan(arguments)
        actions = plan.cells[0].cfg
        if actions.plan:
            return self.show_plan(plan)
        if actions.status:
            return self.show_status(plan)
        return self.train(plan)

    # -- planning ---------------------------------------------------------------------------------------------------

    def plan(self, arguments: list[str]) -> Plan:
        """Compose and check every cell, find out what each costs, and name its run. Nothing is written but token
        files."""
        parser = OverridesParser.create(config_loader=self.loader)
        with explained(arguments):
            swept = axes(arguments, parser)
        explicit = frozenset(a.partition("=")[0] for a in arguments)
        settings = self.master.study
        nuisance = list(settings.nuisance)
        baseline = parse_assignments(settings.baseline, "study.baseline")
        points = variants(
            swept.swept,
            design=settings.design,
            baseline=baseline,
            nuisance=nuisance,
            arms=list(settings.arms),
        )
        cells = self._compose(swept.fixed, points, swept.seeds, explicit)
        runs_dir = Path(cells[0].cfg.runs_dir).expanduser()
        if not (cells[0].cfg.plan or cells[0].cfg.status):
            pool.writable(runs_dir)
        fixed = [f for f in swept.fixed if f.partition("=")[0] not in NOT_IN_NAME]
        name = settings.name or study_name([k for k in swept.swept if k != "seed"], fixed)
        self._prepare_data(cells, runs_dir)
        self._measure(cells, runs_dir, name)
        cells = self._identify(cells)
        keys = [key for key in self._factor_keys(swept.swept, points) if key not in NOT_IN_NAME]
        describe(cells, keys)
        factors = {key: list(dict.fromkeys(cell.factors[key] for cell in cells)) for key in keys}
        first = {key: values[0] for key, values in factors.items()}
        base = first | {key: value for key, value in factor_values(cells, baseline).items() if key in first}
        return Plan(
            name, runs_dir, cells, factors, base, cells[0].cfg.study, command_line(), provenance.code(), warnings(cells),
            seconds_per_step=self.measured, noise=noise.known(cells[0].cfg),
        )  # fmt: skip

    def _compose(
        self,
        fixed: tuple[str, ...],
        points: list[tuple[str, ...]],
        seeds: tuple[str, ...],
        explicit: frozenset[str],
    ) -> list[Cell]:
        """Cells seed by seed, so that an interrupted study leaves whole blocks. A variant is composed once and its
        seeds are filled in, since composing is what takes time."""
        composed: list[tuple[tuple[str, ...], DictConfig]] = []
        for point in points:
            words = [*fixed, *point]
            with explained(words):
                composed.append((point, self.loader.load_sweep_config(self.master, words)))
        cells: list[Cell] = []
        for seed in seeds or (str(composed[0][1].seed),):
            for point, raw in composed:
                cfg = copy.deepcopy(raw)
                overrides = (*fixed, *point, *([f"seed={seed}"] if seeds else []))
                with explained(list(overrides)), read_write(cfg), open_dict(cfg):
                    cfg.seed = seed
                    cfg.hydra.job.num, cfg.hydra.job.id = len(cells), str(len(cells))
                    cfg.hydra.overrides.task = list(overrides)
                done = finish(cfg, explicit)
                cells.append(Cell(len(cells), overrides, done, done.seed, hydra=_plain_hydra(cfg)))
        return cells

    def _prepare_data(self, cells: list[Cell], runs_dir: Path) -> None:
        """Tokenise every text once and check that it is long enough for every cell."""
        for cell in cells:
            key = _data_key(cell)
            if key not in self.data:
                self.data[key] = prepare(cell.cfg, pool.cache_dir(runs_dir), self._say_progress)
                for note in self.data[key].notes:
                    closing.say(self.console, note)
            check_length(self.data[key], cell.cfg.model.context_length)

    def _say_progress(self, *what: Any) -> None:
        """Tokenising a large text takes a while; say so once."""
        if not getattr(self, "_said", False):
            self._said = True
            closing.say(self.console, "tokenising the text (once per corpus and tokenizer)")

    def _measure(self, cells: list[Cell], runs_dir: Path, study: str) -> None:
        """Count what every distinct model costs, and turn budgets into steps."""
        keys: dict[str, int] = {}
        asked: list[tuple[dict[str, Any], int]] = []
        for cell in cells:
            vocab = self.data[_data_key(cell)].vocab_size
            model = {k: v for k, v in _plain(cell.cfg).items() if k not in ("seed", "seeds", "study", "note")}
            key = OmegaConf.to_yaml(OmegaConf.create({"vocab": vocab, **model}))
            if key not in keys:
                keys[key] = len(asked)
                asked.append((_plain(cell.cfg), vocab))
            cell.costs = {"model": keys[key]}
        try:
            counted = _ask("ablab.study.facts:model_facts", asked)
        except processes.Died as error:
            options = sorted({f"{s}={c.cfg.choices[s]}" for c in cells for s in SLOTS})
            raise UsageError(f"{error}: a component ends it; one of {', '.join(options)}") from error
        self.machine = _ask("ablab.study.facts:machine", cells[0].cfg.train.device)
        for cell in cells:
            cell.costs = dict(counted[cell.costs["model"]])
        timed = [cell for cell in cells if cell.cfg.train.minutes is not None]
        measured = self._seconds_per_step(timed, runs_dir / runfolder.STUDIES / study / runfolder.STUDY)
        for cell in cells:
            cell.cfg.train.steps = budget.steps(cell.cfg, cell.costs, measured.get(_variant(cell)))
        self.measured = measured

    def _seconds_per_step(self, cells: list[Cell], declared: Path) -> dict[str, float]:
        """Measured speed of each variant for `train.minutes`: once per study, or its runs would never be found again."""
        known: dict[str, float] = dict((runfolder.read_json(declared) or {}).get("seconds_per_step") or {})
        new = {_variant(cell): cell for cell in cells if _variant(cell) not in known}
        if new:
            asked = [(_plain(cell.cfg), str(self.data[_data_key(cell)].folder)) for cell in new.values()]
            known |= dict(zip(new, _ask("ablab.study.measure:seconds_per_step", asked), strict=True))
        return known

    def _identify(self, cells: list[Cell]) -> list[Cell]:
        """Name every run by what determines it; cells that are the same run are one cell."""
        found: dict[str, Cell] = {}
        for cell in cells:
            parts = ingredients(cell.cfg, self.data[_data_key(cell)].hash, self.machine["device"])
            cell.id = run_id(parts)
            cell.source = run_id(parts["sources"])
            cell.base = run_id({k: v for k, v in parts.items() if k not in ("data", "sources")})
            cell.folder = folder_name(cell.cfg, cell.id)
            found.setdefault(cell.id, cell)
        for number, cell in enumerate(found.values()):
            cell.index = number
        return list(found.values())

    @staticmethod
    def _factor_keys(swept: Any, points: list[tuple[str, ...]]) -> list[str]:
        keys = dict.fromkeys(swept)
        for point in points:
            keys |= dict.fromkeys(override.partition("=")[0] for override in point)
        return list(keys)

    def treatments(self, plan: Plan) -> None:
        """Check before anything trains that every variant changes what it says, and keep what was seen."""
        seeds = {cell.seed for cell in plan.cells}
        variants = [cell for cell in plan.cells if cell.seed == min(seeds)]
        states = [runfolder.state(plan.run_dir(cell)) for cell in plan.cells]
        if len(variants) < 2 or all(state in runfolder.OUTCOMES for state in states):
            return
        same_data = [cell for cell in variants if _data_key(cell) == _data_key(variants[0])]
        first = next((n for n, cell in enumerate(same_data) if cell.factors == plan.baseline), 0)
        asked = [(cell.label, cell.factors, _plain(cell.cfg)) for cell in same_data]
        folder = str(self.data[_data_key(variants[0])].folder)
        try:
            plan.treatments, found = _ask("ablab.study.treatment:check", asked, first, folder)
        except (processes.Answered, processes.Died) as error:  # a component may do anything; its cells will tell
            found = [f"the treatment check did not run: {error}"]
        plan.warnings += found

    # -- what can be asked ------------------------------------------------------------------------------------------

    def show_plan(self, plan: Plan) -> int:
        """Print the plan; train nothing."""
        from .planner import show

        declare(plan, write=False)
        self.treatments(plan)
        variants = {cell.label: cell for cell in plan.cells}
        asked = [(_plain(cell.cfg), str(self.data[_data_key(cell)].folder)) for cell in variants.values()]
        measured = _ask("ablab.study.measure:seconds_per_step", asked)
        jobs = self._jobs(plan, len(plan.cells))
        show(self.console, plan, self.data[_data_key(plan.cells[0])], dict(zip(variants, measured, strict=True)), jobs)
        return 0

    def show_status(self, plan: Plan) -> int:
        """Print what is done and what is missing; train nothing."""
        declare(plan, write=False)
        self.console.print(closing.cells_table(plan))
        states = [runfolder.state(plan.run_dir(cell)) for cell in plan.cells]
        done = sum(state in runfolder.OUTCOMES for state in states)
        closing.say(self.console, f"{done} of {len(states)} cells done")
        return closing.exit_code(plan, None)

    def train(self, plan: Plan) -> int:
        """Train what is missing and close the study."""
        begun = time.monotonic()
        actions = plan.cells[0].cfg
        declare(plan, write=False)
        if actions.cell is not None and actions.cell not in (cell.index for cell in plan.cells):
            raise UsageError(f"cell={actions.cell}: this command's cells are {_numbers(plan)}")
        self.treatments(plan)
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
        tasks = [self._task(plan, cell) for cell in todo]
        if todo and uses_own_launcher(self.master):
            with runner.board:
                endings = runner.run(tasks)
        elif todo:
            endings = launch(self.context, self.master, tasks, [cell.overrides for cell in todo])
        closing.say(self.console, "")
        self.console.print(closing.cells_table(replace(plan, cells=asked)))
        closing.say(
            self.console,
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
                closing.say(self.console, f"kept the old {cell.folder} as {kept.name}")

    def _announce(self, plan: Plan, todo: list[Cell], asked: int) -> None:
        tokens = sum(budget.tokens_per_step(c.cfg) * c.cfg.train.steps for c in todo)
        closing.say(
            self.console,
            f"study {plan.study}: {asked} cells, {len(todo)} to train ({tokens / 1e6:.2f} M tokens)",
        )
        for text in plan.warnings:
            closing.say(self.console, f"warning: {text}")

    def _runner(self, plan: Plan, todo: list[Cell]) -> Runner:
        actions = plan.cells[0].cfg
        jobs = self._jobs(plan, len(todo))
        work = {
            c.id: float(c.costs["flops_per_token"]) * budget.tokens_per_step(c.cfg) * c.cfg.train.steps for c in todo
        }
        return Runner(jobs, self._gpus, Board(self.console, work, jobs), bool(actions.fail_fast))

    @property
    def _gpus(self) -> int:
        return self.machine["count"] if self.machine["device"] == "cuda" else 0

    def _jobs(self, plan: Plan, cells: int) -> int:
        actions = plan.cells[0].cfg
        return actions.jobs or default_jobs(actions.train.threads, self._gpus, cells)

    def _task(self, plan: Plan, cell: Cell) -> Task:
        config = {key: value for key, value in _plain(cell.cfg).items() if key not in ACTIONS}
        hydra = copy.deepcopy(cell.hydra)
        hydra["job"] |= {"num": cell.index, "id": str(cell.index)}
        return Task(
            number=cell.index, run_id=cell.id, tracker_id=plan.tracker_ids[cell.id], label=cell.label, study=plan.study, config=config, hydra=hydra,
            runs_dir=str(plan.runs_dir), folder=cell.folder, data_folder=str(self.data[_data_key(cell)].folder), facts=cell.costs | {"git": plan.code, "source_hash": cell.source},
        )  # fmt: skip

    def _report(self, plan: Plan, study: dict[str, Any], stopped: str | None) -> None:
        """The report, the way to the tracker, and the way to the files; a report that fails must not hide the runs."""
        if any((plan.run_dir(cell) / runfolder.METRICS).exists() for cell in plan.cells):
            with self._survive("report"):
                from ..analysis.report import build_report, summary_text

                out = plan.folder / "report"
                build_report([plan.folder], out)
                closing.say(self.console, "")
                closing.say(self.console, summary_text(runfolder.read_json(out / "report.json") or {}))
                closing.say(self.console, f"report: {out / 'report.html'}")
        from ..tracking import closing_lines

        for line in closing_lines(plan.cells[0].cfg.choices.tracker, plan.runs_dir, list(plan.tracker_ids.values())):
            closing.say(self.console, line)
        if stopped:
            closing.say(self.console, "the same command goes on from here")

    @contextlib.contextmanager
    def _survive(self, what: str) -> Iterator[None]:
        try:
            yield
        except Exception as error:
            import traceback

            closing.say(self.console, f"warning: no {what}: {type(error).__name__}: {error}")
            closing.say(self.console, traceback.format_exc())


def _ask(question: str, *arguments: Any) -> Any:
    """Ask a process that has torch; its usage errors are this process's."""
    try:
        return processes.ask(question, *arguments)
    except processes.Answered as error:
        if error.kind == "UsageError":
            raise UsageError(str(error)) from error
        raise


def factor_values(cells: list[Cell], named: dict[str, str]) -> dict[str, Any]:
    """Values written as text, as the cells hold them (`1e-3` is the number 0.001)."""
    found: dict[str, Any] = {}
    for key, text in named.items():
        for cell in cells:
            value = factor_value(cell.cfg, key)
            if str(value) == text or (isinstance(value, float) and _number(text) == value):
                found[key] = value
                break
        else:
            raise UsageError(f"study.baseline: no cell has {key}={text}")
    return found


def _number(text: str) -> float | None:
    try:
        return float(text)
    except ValueError:
        return None


def warnings(cells: list[Cell]) -> list[str]:
    """What a reader of the study must know: FFN widths that do not match."""
    found = []
    for cell in cells:
        residual = cell.costs.get("ffn_residual") or 0.0
        if abs(residual) > 0.005:
            found.append(
                f"{cell.label}: its FFN has {residual:+.1%} parameters against the budget (d_ff={cell.costs['d_ff']})"
            )
    return list(dict.fromkeys(found))


def command_line() -> str:
    """The command as it can be typed again."""
    first = Path(sys.argv[0]).name
    words = ["python", "run.py"] if first == "run.py" else ["ablab"]
    return shlex.join([*words, *sys.argv[1:]])


def _plain(cfg: DictConfig) -> dict[str, Any]:
    return OmegaConf.to_container(cfg)  # type: ignore[return-value]


def _plain_hydra(cfg: DictConfig) -> dict[str, Any]:
    """Hydra's node as plain data that can be pickled; values that are unknown in a job stay unknown."""
    return OmegaConf.to_container(cfg.hydra, resolve=False, enum_to_str=True)  # type: ignore[return-value]


def _numbers(plan: Plan) -> str:
    numbers = sorted(cell.index for cell in plan.cells)
    whole = numbers == list(range(numbers[0], numbers[-1] + 1))
    return f"{numbers[0]} to {numbers[-1]}" if whole else ", ".join(map(str, numbers))


def _variant(cell: Cell) -> str:
    """A cell's overrides without its seed."""
    return " ".join(word for word in cell.overrides if not word.startswith("seed="))


def _data_key(cell: Cell) -> str:
    return cell.cfg.choices.data + OmegaConf.to_yaml(cell.cfg.data)
