"""What is said when a command ends: every cell with its state and cause, what was reused, and where to look."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from rich.console import Console
from rich.markup import escape
from rich.table import Table

from .. import runfolder
from .plan import Plan
from .pool import human, size
from .runner import Ending

COLOURS = {
    "finished": "green",
    "diverged": "yellow",
    "failed": "red",
    "interrupted": "magenta",
    "missing": "dim",
}


def final_loss(run_dir: Path) -> float | None:
    """Validation loss of the last step that has one, in nats per token."""
    rows = [row for row in runfolder.read_metrics(run_dir) if row.get("val/loss") is not None]
    return rows[-1]["val/loss"] if rows else None


def cells_table(plan: Plan) -> Table:
    """Every cell of this command with state, step, final loss and cause."""
    table = Table(title=f"study {plan.study}", title_justify="left", pad_edge=False, show_edge=False)
    for name, how in (("cell", "right"), ("variant", "left"), ("seed", "right"), ("state", "left"), ("step", "right"),
                      ("val/loss", "right"), ("parameters", "right"), ("run", "left"), ("cause", "left")):  # fmt: skip
        table.add_column(name, justify=how, overflow="fold", no_wrap=name in ("state", "val/loss"))  # type: ignore[arg-type]
    for cell in plan.cells:
        run_dir = plan.run_dir(cell)
        state, status = runfolder.state(run_dir), runfolder.read_status(run_dir) or {}
        loss = final_loss(run_dir)
        step = status.get("step", 0)
        table.add_row(
            str(cell.index), escape(cell.label), str(cell.seed), f"[{COLOURS.get(state, 'cyan')}]{state}[/]",
            f"{step}/{cell.cfg.train.steps}", "—" if loss is None else f"{loss:.4f}",
            f"{cell.costs.get('parameters', 0):,}", cell.id, escape(str(status.get("reason") or "")),
        )  # fmt: skip
    return table


def counts(before: Mapping[str, str], endings: Mapping[str, Ending]) -> str:
    """`reused 3, ran 1`: what this command did with its cells, `before` being their states at its start."""
    said: Counter[str] = Counter()
    for run, state in before.items():
        ending = endings.get(run)
        if state in runfolder.OUTCOMES or (ending is not None and not ending.trained):
            said["reused"] += 1
        elif ending is None:
            said["not run"] += 1
        else:
            said["ran"] += 1
            said["resumed"] += state in ("interrupted", "running")
            said["tried again"] += state == "failed"
    parts = [f"reused {said['reused']}", f"ran {said['ran']}"]
    again = [f"{word} {said[word]}" for word in ("resumed", "tried again") if said[word]]
    if again:
        parts[-1] += f" ({', '.join(again)})"
    return ", ".join(parts + ([f"not run {said['not run']}"] if said["not run"] else []))


def exit_code(plan: Plan, stopped: str | None) -> int:
    """0: every cell has an outcome; 130: Ctrl-C; 143: SIGTERM; 129: SIGHUP; else 1."""
    if stopped == "SIGINT":
        return 130
    if stopped is not None:
        return 143 if stopped == "SIGTERM" else 129
    states = {runfolder.state(plan.run_dir(cell)) for cell in plan.cells}
    return 0 if states <= set(runfolder.OUTCOMES) else 1


def disk(plan: Plan) -> str:
    """Size of the study's runs, without and with checkpoints."""
    folders = [plan.run_dir(cell) for cell in plan.cells if plan.run_dir(cell).is_dir()]
    checkpoints = sum(size(folder / runfolder.CHECKPOINTS) for folder in folders)
    return f"{human(sum(map(size, folders)))} on disk, {human(checkpoints)} of it checkpoints"


def say(console: Console, text: Any) -> None:
    """Print a line as it is."""
    console.print(text, markup=False, highlight=False, soft_wrap=True)
