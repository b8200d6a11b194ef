from __future__ import annotations

from types import ModuleType

import pytest
from support.commands import ROOT
from support.scripts import load


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/seeds_together.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    return load("seeds_together")


@pytest.mark.parametrize("grid", [False, True])
def test_each_replica_is_its_own_run(script: ModuleType, grid: bool) -> None:
    found = script.compare(script.Setting(script.SIZES["tiny"]), replicas=3, steps=5, grid=grid)
    assert 0 < found["loss"] < 1e-5 and 0 < found["weights"] < 2e-5
    assert found["together"] > 0 and found["apart"] > 0


def test_the_table_has_a_row_for_each_setting(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--size", "tiny", "--replicas", "2,3", "--threads", "1", "--steps", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| tiny")]
    assert [row.split("|")[2].strip() for row in rows] == ["2", "3"]
