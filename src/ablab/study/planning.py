"""From overrides to a plan: every cell composed and checked, its text prepared, its cost counted, its run named."""

from __future__ import annotations

import copy
from collections.abc import Callable
from pathlib import Path
from typing import Any

from hydra.core.config_loader import ConfigLoader
from hydra.core.override_parser.overrides_parser import OverridesParser
from omegaconf import DictConfig, OmegaConf, open_dict, read_write

from .. import provenance, runfolder
from ..composition import finish
from ..data import TokenData, check_length, prepare
from ..errors import UsageError
from ..explain import explained
from ..registry import SLOTS
from ..schema import ACTIONS
from . import budget, noise, pool, processes
from .expand import axes, parse_assignments, variants
from .identity import folder_name, ingredients, run_id, sources
from .plan import Cell, Plan, describe, factor_value, study_name

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


class Planner:
    """Makes the plan of one command. `plan` is the whole story; each step is a method.

    Attributes:
        data: prepared texts of the cells, see `data_of`.
        machine: the device that cells train on, and how many of them there are.
    """

    def __init__(self, loader: ConfigLoader, master: DictConfig, command: str, say: Callable[[str], None]) -> None:
        self.loader, self.master, self.command, self.say = loader, master, command, say
        self.data: dict[str, TokenData] = {}
        self.machine: dict[str, Any] = {}
        self.measured: dict[str, float] = {}

    def data_of(self, cell: Cell) -> TokenData:
        """The prepared text of a cell."""
        return self.data[_data_key(cell)]

    def epochs(self, cell: Cell) -> float:
        """How often a cell goes over its training text."""
        return budget.tokens(cell.cfg) / len(self.data_of(cell).train)

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
        for cell in cells:
            sources(cell.cfg)  # read and kept while the process server is still loading torch
        self._measure(cells, runs_dir, name)
        cells = self._identify(cells)
        keys = [key for key in self._factor_keys(swept.swept, points) if key not in NOT_IN_NAME]
        describe(cells, keys)
        factors = {key: list(dict.fromkeys(cell.factors[key] for cell in cells)) for key in keys}
        first = {key: values[0] for key, values in factors.items()}
        base = first | {key: value for key, value in factor_values(cells, baseline).items() if key in first}
        return Plan(
            name, runs_dir, cells, factors, base, cells[0].cfg.study, self.command, provenance.code(), [*warnings(cells), *budget.repeats(max(map(self.epochs, cells)))],
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
                    self.say(note)
            check_length(self.data[key], cell.cfg.model.context_length)

    def _say_progress(self, *what: Any) -> None:
        """Tokenising a large text takes a while; say so once."""
        if not getattr(self, "_said", False):
            self._said = True
            self.say("tokenising the text (once per corpus and tokenizer)")

    def _measure(self, cells: list[Cell], runs_dir: Path, study: str) -> None:
        """Count what every distinct model costs, and turn budgets into steps."""
        keys: dict[str, int] = {}
        asked: list[tuple[dict[str, Any], int]] = []
        for cell in cells:
            vocab = self.data_of(cell).vocab_size
            model = {k: v for k, v in plain(cell.cfg).items() if k not in ("seed", "seeds", "study", "note")}
            key = OmegaConf.to_yaml(OmegaConf.create({"vocab": vocab, **model}))
            if key not in keys:
                keys[key] = len(asked)
                asked.append((plain(cell.cfg), vocab))
            cell.costs = {"model": keys[key]}
        try:
            counted = processes.ask("ablab.study.facts:model_facts", asked)
        except processes.Died as error:
            options = sorted({f"{s}={c.cfg.choices[s]}" for c in cells for s in SLOTS})
            raise UsageError(f"{error}: a component ends it; one of {', '.join(options)}") from error
        self.machine = processes.ask("ablab.study.facts:machine", cells[0].cfg.train.device)
        low = any(cell.cfg.train.precision == "bf16" for cell in cells) and self.machine["device"] == "cpu"
        if low and processes.ask("ablab.study.facts:bf16_is_slower"):
            self.say("warning: train.precision=bf16 is slower than fp32 on this processor (measured just now)")
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
            asked = [(plain(cell.cfg), str(self.data_of(cell).folder)) for cell in new.values()]
            known |= dict(zip(new, processes.ask("ablab.study.measure:seconds_per_step", asked), strict=True))
        return known

    def _identify(self, cells: list[Cell]) -> list[Cell]:
        """Name every run by what determines it; cells that are the same run are one cell."""
        found: dict[str, Cell] = {}
        for cell in cells:
            parts = ingredients(cell.cfg, self.data_of(cell).hash, self.machine["device"])
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
        asked = [(cell.label, cell.factors, plain(cell.cfg)) for cell in same_data]
        folder = str(self.data_of(variants[0]).folder)
        try:
            plan.treatments, found = processes.ask("ablab.study.treatment:check", asked, first, folder)
        except (processes.Answered, processes.Died) as error:  # a component may do anything; its cells will tell
            found = [f"the treatment check did not run: {error}"]
        plan.warnings += found


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


def plain(cfg: DictConfig) -> dict[str, Any]:
    """A config as plain data."""
    return OmegaConf.to_container(cfg)  # type: ignore[return-value]


def _plain_hydra(cfg: DictConfig) -> dict[str, Any]:
    """Hydra's node as plain data that can be pickled; values that are unknown in a job stay unknown."""
    return OmegaConf.to_container(cfg.hydra, resolve=False, enum_to_str=True)  # type: ignore[return-value]


def _variant(cell: Cell) -> str:
    """What a cell's overrides say about its speed, in one order: without the seed, actions, names, notes and the study's
    own settings."""

    def matters(key: str) -> bool:
        return key not in NOT_IN_NAME and (key == "study.match" or not key.startswith("study."))

    return " ".join(sorted(word for word in cell.overrides if matters(word.partition("=")[0])))


def _data_key(cell: Cell) -> str:
    return cell.cfg.choices.data + OmegaConf.to_yaml(cell.cfg.data)
