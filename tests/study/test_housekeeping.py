"""`ablab runs`: what lies in the pool, and what may be removed from it."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from ablab.cli import main
from ablab.study import pool as pools

RUNS = {"a-seed0-1111111111": "finished", "b-seed0-2222222222": "failed", "a-seed0-1111111111.1": "finished"}


@pytest.fixture
def pool(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three runs, of which a study shows the first; the current folder is beside it."""
    for name, state in RUNS.items():
        (tmp_path / "runs" / name).mkdir(parents=True)
        (tmp_path / "runs" / name / "config.yaml").write_text("seed: 0\n")
        (tmp_path / "runs" / name / "status.json").write_text(json.dumps({"state": state, "step": 1}))
    study = tmp_path / "runs" / "studies" / "s"
    study.mkdir(parents=True)
    (study / "study.json").write_text(json.dumps({"cells": [{"folder": "a-seed0-1111111111"}]}))
    monkeypatch.chdir(tmp_path)
    return tmp_path / "runs"


def left(pool: Path) -> set[str]:
    """Run folders that are there."""
    return {p.name for p in pool.iterdir() if (p / "config.yaml").exists()}


def test_list_names_every_run_its_state_and_studies(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "list"]) == 0
    lines = capsys.readouterr().out.splitlines()
    for name, state in RUNS.items():
        (line,) = [line for line in lines if line.split()[:1] == [name]]
        assert state in line
    assert next(line for line in lines if "a-seed0-1111111111 " in line).rstrip().endswith("s")
    assert lines[-1].startswith("3 runs, ")


def test_prune_removes_what_no_study_shows(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "prune", "--dry-run"]) == 0
    assert left(pool) == set(RUNS) and capsys.readouterr().out.count("would remove") == 2
    assert main(["runs", "prune"]) == 0
    assert left(pool) == {"a-seed0-1111111111"}
    assert main(["runs", "prune"]) == 0
    assert "nothing to prune" in capsys.readouterr().out


def test_remove_takes_names_and_ids_but_not_what_a_study_shows(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["runs", "remove", "2222222222"]) == 0
    assert left(pool) == {"a-seed0-1111111111", "a-seed0-1111111111.1"}
    assert main(["runs", "remove", "a-seed0-1111111111"]) == 2
    assert "shown by study s; add --force" in capsys.readouterr().err
    assert main(["runs", "remove", "--force", "a-seed0-1111111111"]) == 0
    assert left(pool) == {"a-seed0-1111111111.1"}


def test_a_run_in_training_is_kept(pool: Path, capsys: pytest.CaptureFixture[str]) -> None:
    with pools.owned(pool, "2222222222") as mine:
        assert mine
        assert main(["runs", "remove", "2222222222"]) == 1
    assert "it is being trained" in capsys.readouterr().out and "b-seed0-2222222222" in left(pool)


@pytest.mark.parametrize(
    ("words", "says"),
    [(["remove", "nothing"], "no run 'nothing'"), (["--runs-dir", "elsewhere", "list"], "elsewhere: no such folder")],
)
def test_wrong_names_are_said(pool: Path, capsys: pytest.CaptureFixture[str], words: list[str], says: str) -> None:
    assert main(["runs", *words]) == 2
    assert says in capsys.readouterr().err and left(pool) == set(RUNS)


@pytest.mark.parametrize("content", ["{", "[]", "{}"])
def test_nothing_is_removed_while_a_study_cannot_be_read(
    pool: Path, content: str, capsys: pytest.CaptureFixture[str]
) -> None:
    (pool / "studies" / "s" / "study.json").write_text(content)
    for words in (["prune"], ["remove", "2222222222"]):
        assert main(["runs", *words]) == 2
        assert "study.json cannot be read" in capsys.readouterr().err
    assert left(pool) == set(RUNS)
