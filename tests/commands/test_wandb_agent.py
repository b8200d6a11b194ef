"""A W&B sweep over run.py: the real client and agent, a stand-in server."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import yaml
from support.commands import ROOT, TEXT, TINY
from support.tracking import AGENT, KEY
from support.wandb_server import WandbServer


def test_an_agent_spreads_a_sweep(tmp_path: Path):
    (tmp_path / "tiny.txt").write_text(TEXT)
    sweep = {
        "program": str(ROOT / "run.py"),
        "method": "grid",
        "metric": {"name": "val/loss.min", "goal": "minimize"},
        "parameters": {"norm": {"values": ["rms", "layer"]}},
        "command": [sys.executable, "${program}", "${args_no_hyphens}", *TINY],
    }
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(sweep))
    with WandbServer() as server:
        kept = {k: v for k, v in os.environ.items() if not k.startswith("WANDB_")}
        environment = kept | {
            "WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "WANDB_ERROR_REPORTING": "false", "HOME": str(tmp_path),
        }  # fmt: skip
        for words in (["-m", "wandb", "sweep", "--project", "ablab", "sweep.yaml"],
                      ["-c", AGENT, "--count", "2", "local/ablab/sweep1"]):  # fmt: skip
            done = subprocess.run([sys.executable, *words], cwd=tmp_path, env=environment, capture_output=True, text=True,
                                  timeout=240)  # fmt: skip
            assert done.returncode == 0, done.stdout + done.stderr
        runs = list(server.runs.values())
        assert {run.values()["choices"]["norm"] for run in runs} == {"rms", "layer"}, done.stdout + done.stderr
        assert all(run.state == "finished" and run.sweep == "sweep1" for run in runs)
        assert all(run.history[-1]["step"] == 6 for run in runs)
    assert len(list((tmp_path / "runs").glob("*/status.json"))) == 2
