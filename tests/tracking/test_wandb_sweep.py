from __future__ import annotations

import sys
from pathlib import Path

import pytest
import yaml
from support.tracking import AGENT, info, shell, track, wandb_sink
from support.wandb_server import WandbServer

TESTS = Path(__file__).parents[1]
PROGRAM = """
import sys
sys.path[:0] = {path!r}
from pathlib import Path
import hydra
from hydra.core.config_store import ConfigStore
from omegaconf import OmegaConf
from support.tracking import info, track, wandb_sink

node = {{"norm": {{"eps": 1.0}}, "optimizer": {{"lr": 0.1}}}}
quiet = {{"hydra": {{"run": {{"dir": "."}}, "output_subdir": None}}}}
ConfigStore.instance().store(name="config", node={{**node, **quiet}})

@hydra.main(version_base="1.3", config_path=None, config_name="config")
def main(cfg):
    track(wandb_sink(), info(Path("runs").absolute(), config=OmegaConf.to_container(cfg)), range(3))

main()
"""
SWEEP = {
    "program": "program.py",
    "method": "grid",
    "metric": {"name": "val/loss", "goal": "minimize"},
    "parameters": {"norm.eps": {"values": [1e-5, 1e-6]}, "optimizer.lr": {"value": 0.001}},
    "command": [sys.executable, "${program}", "${args_no_hyphens}"],
}


def test_agent_runs_a_hydra_program(tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "program.py").write_text(PROGRAM.format(path=[str(TESTS), str(TESTS.parent / "src")]))
    (tmp_path / "sweep.yaml").write_text(yaml.safe_dump(SWEEP))
    monkeypatch.chdir(tmp_path)
    shell("wandb sweep --project ablab sweep.yaml")
    output = shell(f'python -c "{AGENT}" --count 2 local/ablab/sweep1')
    assert len(server.runs) == 2, output
    for run in server.runs.values():
        assert (run.sweep, run.project, run.state, len(run.history)) == ("sweep1", "ablab", "finished", 3)
        assert run.values()["norm"] == {"eps": run.values()["norm.eps"]}
    assert {run.values()["norm.eps"] for run in server.runs.values()} == {1e-5, 1e-6}


def test_ids_of_the_agent_win_and_a_swept_group_keeps_the_choices(
    tmp_path: Path, server: WandbServer, monkeypatch: pytest.MonkeyPatch
) -> None:
    point = tmp_path / "point.yaml"
    point.write_text(yaml.safe_dump({"wandb_version": 1, "norm": {"value": "rms"}}))
    for name, value in {"SWEEP_ID": "s", "RUN_ID": "s1", "PROJECT": "swept", "SWEEP_PARAM_PATH": point}.items():
        monkeypatch.setenv(f"WANDB_{name}", str(value))
    config = {"norm": {"eps": 1e-5}, "choices": {"norm": "rms"}}
    track(wandb_sink(), info(tmp_path, config=config), range(2))
    run = server.runs["s1"]
    assert (run.project, run.sweep, run.values()) == ("swept", "s", {"norm": "rms", "choices": {"norm": "rms"}})
