from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

import pytest
from support.commands import ROOT


@pytest.fixture
def script(monkeypatch: pytest.MonkeyPatch) -> ModuleType:
    """benchmarks/seeds_together.py as a module."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    spec = importlib.util.spec_from_file_location("seeds_together", ROOT / "benchmarks" / "seeds_together.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    monkeypatch.setitem(sys.modules, "seeds_together", module)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("grid", [False, True])
def test_each_replica_is_its_own_run(script: ModuleType, grid: bool) -> None:
    found = script.compare(script.Setting(script.SIZES["tiny"]), replicas=3, steps=5, grid=grid)
    assert 0 < found["loss"] < 1e-5 and 0 < found["weights"] < 2e-5
    assert found["together"] > 0 and found["apart"] > 0


def test_the_table_has_a_row_for_each_setting(script: ModuleType, capsys: pytest.CaptureFixture[str]) -> None:
    assert script.main(["--size", "tiny", "--replicas", "2,3", "--threads", "1", "--steps", "1"]) == 0
    rows = [line for line in capsys.readouterr().out.splitlines() if line.startswith("| tiny")]
    assert [row.split("|")[2].strip() for row in rows] == ["2", "3"]
