"""Run folders: whole files or none, stale runs, torn lines."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ablab import runfolder


def test_json_is_written_whole(tmp_path: Path) -> None:
    path = tmp_path / "new" / "status.json"
    runfolder.write_json_atomic(path, {"a": "naïve", "b": None})
    assert runfolder.read_json(path) == {"a": "naïve", "b": None}
    with pytest.raises(ValueError):
        runfolder.write_json_atomic(path, {"a": float("nan")})
    with pytest.raises(TypeError):
        runfolder.write_json_atomic(path, {"a": object()})
    assert runfolder.read_json(path) == {"a": "naïve", "b": None}
    assert [p.name for p in path.parent.iterdir()] == ["status.json"]


def test_a_failed_write_leaves_nothing_behind(tmp_path: Path) -> None:
    (tmp_path / "status.json").mkdir()  # cannot be replaced by a file
    with pytest.raises(OSError):
        runfolder.write_text_atomic(tmp_path / "status.json", "x")
    assert [p.name for p in tmp_path.iterdir()] == ["status.json"]


@pytest.mark.parametrize("text", ["", "{", "[]", "3", "\x00"])
def test_unreadable_json_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "status.json").write_text(text)
    assert runfolder.read_status(tmp_path) is None
    assert runfolder.state(tmp_path) == "missing"


@pytest.mark.parametrize("state", ["finished", "diverged", "failed", "interrupted"])
def test_states_are_what_status_says(tmp_path: Path, state: str) -> None:
    runfolder.write_json_atomic(tmp_path / "status.json", {"state": state, "heartbeat": 0})
    assert runfolder.state(tmp_path) == state


@pytest.mark.parametrize(
    ("age", "expected"), [(0, "running"), (60, "running"), (61, "interrupted"), (1e6, "interrupted")]
)
def test_running_needs_a_heartbeat(tmp_path: Path, age: float, expected: str) -> None:
    runfolder.write_json_atomic(tmp_path / "status.json", {"state": "running", "heartbeat": 1000.0})
    assert runfolder.state(tmp_path, now=1000.0 + age) == expected
    runfolder.write_json_atomic(tmp_path / "status.json", {"state": "running", "heartbeat": None})
    assert runfolder.state(tmp_path) == "interrupted"


def test_metrics(tmp_path: Path) -> None:
    assert runfolder.read_metrics(tmp_path) == []
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "train/loss": None}) for step in range(3)]
    path.write_text("\n".join(lines) + "\n")
    assert [row["step"] for row in runfolder.read_metrics(tmp_path)] == [0, 1, 2]
    path.write_text("\n".join(lines) + '\n{"step": 3, "tra')
    assert [row["step"] for row in runfolder.read_metrics(tmp_path)] == [0, 1, 2]
    path.write_text("\n".join([lines[0], '{"step": 1, "tra', lines[2]]) + "\n")
    with pytest.raises(ValueError, match=r"metrics\.jsonl:2"):
        runfolder.read_metrics(tmp_path)
