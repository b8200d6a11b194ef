"""What is said and returned when a command ends."""

from __future__ import annotations

import io
from pathlib import Path

import pytest
from rich.console import Console
from support.studies import small_plan

from ablab import runfolder
from ablab.study.closing import cells_table, counts, exit_code
from ablab.study.display import Board, clock
from ablab.study.runner import Ending, default_jobs


@pytest.mark.parametrize(
    ("before", "endings", "text"),
    [
        ({"a": "finished", "b": "diverged"}, {}, "reused 2, ran 0"),
        ({"a": "missing", "b": "missing"}, {"a": Ending("finished"), "b": Ending("failed")}, "reused 0, ran 2"),
        ({"a": "failed", "b": "interrupted", "c": "running"}, {k: Ending("finished") for k in "abc"},
         "reused 0, ran 3 (resumed 2, tried again 1)"),
        ({"a": "missing"}, {"a": Ending("finished", trained=False)}, "reused 1, ran 0"),
        ({"a": "missing", "b": "missing"}, {"a": Ending("interrupted")}, "reused 0, ran 1, not run 1"),
    ],
)  # fmt: skip
def test_counts(before: dict[str, str], endings: dict[str, Ending], text: str) -> None:
    assert counts(before, endings) == text


@pytest.mark.parametrize(
    ("states", "stopped", "code"),
    [
        (["finished", "diverged"], None, 0),
        (["finished", "failed"], None, 1),
        (["finished", "interrupted"], None, 1),
        (["finished", None], None, 1),
        (["finished", "finished"], "SIGINT", 130),
        (["interrupted", None], "SIGTERM", 143),
        (["interrupted", None], "SIGHUP", 129),
    ],
)
def test_exit_codes(tmp_path: Path, states: list[str | None], stopped: str | None, code: int) -> None:
    plan = small_plan(tmp_path, "norm=rms", "norm=layer")
    for cell, state in zip(plan.cells, states, strict=True):
        if state:
            runfolder.write_json_atomic(plan.run_dir(cell) / "status.json", {"state": state})
    assert exit_code(plan, stopped) == code


def test_the_table_lists_every_cell_with_its_cause(tmp_path: Path) -> None:
    plan = small_plan(tmp_path, "norm=rms", "norm=layer")
    status = {"state": "failed", "step": 3, "reason": "RuntimeError: no tag [/INST] in [bold]"}
    runfolder.write_json_atomic(plan.run_dir(plan.cells[0]) / "status.json", status)
    console = Console(file=io.StringIO(), width=200)
    console.print(cells_table(plan))
    shown = console.file.getvalue()  # type: ignore[attr-defined]
    first, second = (line for line in shown.splitlines() if "norm=" in line)
    assert "failed" in first and "3/6" in first and "no tag [/INST] in [bold]" in first
    assert "missing" in second and "0/6" in second


@pytest.mark.parametrize(
    ("seconds", "text"), [(None, "-"), (0, "0:00"), (59.6, "1:00"), (65, "1:05"), (3600, "1:00:00"), (7390, "2:03:10")]
)
def test_clock(seconds: float | None, text: str) -> None:
    assert clock(seconds) == text


def test_the_board_is_quiet_where_no_terminal_is(tmp_path: Path) -> None:
    console = Console(file=io.StringIO(), width=200)
    with Board(console, {"a": 1.0}) as board:
        board.note_once("said")
        board.note_once("said")
    assert console.file.getvalue() == "said\n"  # type: ignore[attr-defined]


def test_jobs() -> None:
    assert default_jobs(threads=1, gpus=0, cells=1) == 1
    assert default_jobs(threads=10**6, gpus=0, cells=8) == 1
    assert default_jobs(threads=1, gpus=4, cells=8) == 4
    assert default_jobs(threads=1, gpus=4, cells=2) == 2
