from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

from support.commands import ROOT


def test_contestants_take_turns_and_figures_are_theirs(tmp_path: Path) -> None:
    out = tmp_path / "figures.json"
    command = [sys.executable, str(ROOT / "benchmarks" / "throughput.py"), "--quick", "--json", str(out)]
    done = subprocess.run(command, cwd=tmp_path, capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    (setting,) = json.loads(out.read_text())
    ours, floor = setting["results"]
    assert (ours["name"], floor["name"], ours["ratio"]) == ("ablab", "bare", 1.0)
    assert floor["ratio"] == floor["rounds"][0] / ours["rounds"][0]
    # both learn the same random ids from the same start: about ln 40
    assert abs(ours["loss"] - floor["loss"]) < 0.2 and abs(ours["loss"] - 3.69) < 0.2
    assert "| ablab |" in done.stdout and "MFU" in done.stdout
