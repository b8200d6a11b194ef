"""What is seen while cells train: one line each, and the time left for the whole sweep. Quiet where no terminal is."""

from __future__ import annotations

import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from rich.console import Console
from rich.markup import escape
from rich.progress import BarColumn, SpinnerColumn, TextColumn, TimeElapsedColumn
from rich.progress import Progress as Bars

if TYPE_CHECKING:
    from .runner import Ending
    from .task import Task


def clock(seconds: float | None) -> str:
    """`1:05` or `2:03:10`; `-` where it is not known."""
    if seconds is None:
        return "-"
    minutes, rest = divmod(round(seconds), 60)
    hours, minutes = divmod(minutes, 60)
    return f"{hours}:{minutes:02}:{rest:02}" if hours else f"{minutes}:{rest:02}"


class Board:
    """Progress of a sweep on a console.

    Args:
        work: run id -> work of that cell in any unit (FLOPs), from which the time left is told.
    """

    def __init__(self, console: Console, work: dict[str, float]) -> None:
        self.console, self.work = console, work
        self.live = console.is_terminal
        self.begun = time.monotonic()
        self.shares: dict[str, float] = {}
        self.first: dict[str, float] = {}  # share at which a resumed run began
        self.said: set[str] = set()
        self.count = 0
        self.bars = Bars(
            SpinnerColumn(), TextColumn("{task.description}"), BarColumn(bar_width=24),
            TextColumn("{task.percentage:>3.0f}%"), TextColumn("{task.fields[text]}"), TimeElapsedColumn(),
            console=console, transient=True, disable=not self.live,
        )  # fmt: skip
        self.lines: dict[str, Any] = {}
        self.total = self.bars.add_task(f"{len(work)} cells", total=1.0, text="")

    def __enter__(self) -> Board:
        self.bars.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.bars.stop()

    def started(self, task: Task) -> None:
        """A process for this cell was started."""
        if task.run_id not in self.lines:
            self.lines[task.run_id] = self.bars.add_task(escape(_name(task)), total=1.0, text="starting")

    def progress(self, task: Task, now: Mapping[str, Any]) -> None:
        """A cell said how far it is: the fields of a `training.outcome.Progress`."""
        share = now["step"] / now["steps"]
        self.first.setdefault(task.run_id, share)
        self.shares[task.run_id] = share
        loss = now["train_loss"] if now["train_loss"] is not None else now["val_loss"]
        shown = [f"step {now['step']}/{now['steps']}"]
        shown += [f"loss {loss:.3f}"] if loss is not None else []
        shown += [f"{now['tokens_per_second']:,.0f} tok/s"] if now["tokens_per_second"] else []
        shown += [f"{clock(now['seconds_left'])} left"] if now["seconds_left"] is not None else []
        self.bars.update(self.lines[task.run_id], completed=share, text="  ".join(shown))
        self._overall()

    def ended(self, task: Task, ending: Ending) -> None:
        """A cell's process has ended; a traceback is printed at once."""
        self.count += 1
        self.shares[task.run_id] = 1.0
        if task.run_id in self.lines:
            self.bars.remove_task(self.lines.pop(task.run_id))
        why = f": {ending.reason}" if ending.reason else ""
        here = "" if ending.trained else " (by another process)"
        self.console.print(f"[{self.count}/{len(self.work)}] {_name(task)}: {ending.state}{here}{why}", markup=False,
                           highlight=False, soft_wrap=True)  # fmt: skip
        if ending.trace:
            self.console.print(ending.trace.rstrip(), markup=False, highlight=False, soft_wrap=True)
        self._overall()

    def note_once(self, text: str) -> None:
        """A line for the reader, said once."""
        if text not in self.said:
            self.said.add(text)
            self.console.print(text, markup=False, highlight=False, soft_wrap=True)

    def _overall(self) -> None:
        whole = sum(self.work.values()) or 1.0
        done = sum(self.work[run] * share for run, share in self.shares.items() if run in self.work)
        new = sum(self.work[run] * (share - self.first.get(run, 0.0)) for run, share in self.shares.items())
        elapsed = time.monotonic() - self.begun
        left = elapsed * (whole - done) / new if new > 0 else None
        self.bars.update(self.total, completed=done / whole, text=f"{clock(left)} left")


def _name(task: Task) -> str:
    return f"{task.label} seed={task.config['seed']}"
