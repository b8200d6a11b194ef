"""Trains cells, each in a process of its own, several at once, and learns how each ended."""

from __future__ import annotations

import os
import signal
import time
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass, field
from multiprocessing.connection import Connection, wait
from multiprocessing.process import BaseProcess
from pathlib import Path
from typing import Any

from .. import runfolder
from . import pool, processes
from .display import Board
from .task import Task

#: seconds between looks at cells that another process is training
POLL = 1.0
#: seconds a cell gets to write its checkpoint after it was asked to stop
GRACE = 30.0


@dataclass(frozen=True)
class Ending:
    """How a cell's process ended: trained to an outcome here, or found done by somebody else (`done`)."""

    state: str
    step: int = 0
    reason: str | None = None
    trace: str | None = None
    trained: bool = True


@dataclass
class Child:
    """A running cell."""

    task: Task
    process: BaseProcess
    connection: Connection
    device: int | None
    message: tuple[Any, ...] | None = None


@dataclass
class Runner:
    """Runs tasks until all have ended or something asks to stop.

    Attributes:
        jobs: cells at once.
        gpus: number of GPUs; each cell sees one of them. 0: none to assign.
        fail_fast: stop at the first cell that fails.
        stopped: name of the signal that ended the sweep early, if any.
        endings: run id -> how its process ended.
    """

    jobs: int
    gpus: int
    board: Board
    fail_fast: bool = False
    stopped: str | None = None
    endings: dict[str, Ending] = field(default_factory=dict)
    _children: list[Child] = field(default_factory=list)
    _deadline: float | None = None

    def run(self, tasks: Sequence[Task]) -> dict[str, Ending]:
        """Train every task; returns how each ended. Tasks that were never started are not in it."""
        waiting = deque(tasks)
        elsewhere: list[Task] = []  # another process owns them; looked at again from time to time
        next_look = 0.0
        with self._signals():
            while waiting or elsewhere or self._children:
                if self.stopped or (self.fail_fast and any(e.state == "failed" for e in self.endings.values())):
                    waiting.clear()
                    elsewhere.clear()
                while waiting and len(self._children) < self.jobs:
                    self._start(waiting.popleft())
                if elsewhere and time.monotonic() >= next_look and len(self._children) < self.jobs:
                    next_look = time.monotonic() + POLL
                    self._start(elsewhere.pop(0))
                for child in self._wait():
                    self._children.remove(child)
                    ending = self._ending(child)
                    if ending is None and self.stopped:
                        continue
                    if ending is None:
                        elsewhere.append(child.task)
                        self.board.note_once(
                            f"{child.task.folder}: another process is training it; waiting for that one"
                        )
                        continue
                    self.endings[child.task.run_id] = ending
                    self.board.ended(child.task, ending)
                    if ending.state == "interrupted" and ending.reason == "SIGINT" and not self.stopped:
                        self.stop("SIGINT")
        return self.endings

    def stop(self, name: str) -> None:
        """Ask every running cell to save and stop; a second call kills them."""
        again = self.stopped is not None and self._deadline is not None
        self.stopped = self.stopped or name
        self._deadline = time.monotonic() + (0 if again else GRACE)
        for child in self._children:
            if child.process.is_alive() and child.process.pid:
                os.kill(child.process.pid, signal.SIGKILL if again else getattr(signal, name))
        self.board.note_once(f"{name}: saving checkpoints; again to stop at once")

    def _start(self, task: Task) -> None:
        device = None
        if self.gpus:
            device = min(range(self.gpus), key=lambda g: sum(child.device == g for child in self._children))
            task.environment["CUDA_VISIBLE_DEVICES"] = _visible(device)
        process, connection = processes.start("ablab.study.worker:run_cell", task)
        self._children.append(Child(task, process, connection, device))
        if self.stopped and process.pid:  # asked to stop while this one was being started
            os.kill(process.pid, getattr(signal, self.stopped))
        self.board.started(task)

    def _wait(self) -> list[Child]:
        """Take messages in; returns children whose process has ended."""
        if not self._children:
            time.sleep(0.1)
            return []
        sources: list[Any] = [c.connection for c in self._children] + [c.process.sentinel for c in self._children]
        ready = wait(sources, timeout=0.5)
        for child in self._children:
            if child.connection in ready:
                self._receive(child)
        if self._deadline is not None and time.monotonic() > self._deadline:
            for child in self._children:
                child.process.kill()
        return [c for c in self._children if c.process.sentinel in ready and not c.process.is_alive()]

    def _receive(self, child: Child) -> None:
        try:
            while child.connection.poll():
                message = child.connection.recv()
                if message[0] == "progress":
                    self.board.progress(child.task, message[1])
                else:
                    child.message = message
        except (EOFError, OSError):
            pass

    def _ending(self, child: Child) -> Ending | None:
        """How a child ended; None if another process owns its run, or if it was stopped before it began."""
        child.process.join()
        self._receive(child)
        child.connection.close()
        match child.message:
            case ("busy",):
                return None
            case ("done", state):
                return Ending(state, trained=False)
            case ("outcome", state, step, reason, trace):
                return Ending(state, step, reason, trace)
        task, code = child.task, child.process.exitcode or 0
        if self.stopped and runfolder.read_status(task.run_dir) is None:
            return None
        reason = (
            f"killed by {signal.Signals(-code).name}" if code < 0 else f"its process exited with code {code} unasked"
        )
        pool.mark_lost(Path(task.runs_dir), task.run_dir, task.run_id, reason)
        return Ending("failed", reason=reason)

    @contextmanager
    def _signals(self) -> Iterator[None]:
        def handle(number: int, frame: object) -> None:
            self.stop(signal.Signals(number).name)

        names = ("SIGINT", "SIGTERM", "SIGHUP")
        before = {name: signal.signal(getattr(signal, name), handle) for name in names}
        try:
            yield
        finally:
            for name, handler in before.items():
                signal.signal(getattr(signal, name), handler)


def _visible(index: int) -> str:
    """The index-th GPU of those that this process may see."""
    listed = [d for d in os.environ.get("CUDA_VISIBLE_DEVICES", "").split(",") if d]
    return listed[index] if index < len(listed) else str(index)


def default_jobs(threads: int, gpus: int, cells: int) -> int:
    """Cells at once: one per GPU, else as many as the cores allow with `threads` each; never more than there are."""
    return max(1, min(cells, gpus or cores() // max(1, threads)))


def spare(jobs: int, threads: int) -> int:
    """Cores that each thread of a run has to itself when `jobs` runs of `threads` threads share this machine."""
    return max(1, cores() // (jobs * max(1, threads)))


def cores() -> int:
    """Cores that this process may use."""
    return len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
