"""A report shown in W&B, through the real client, on the stand-in server."""

from __future__ import annotations

import json
from pathlib import Path

import pytest
from support.wandb_server import WandbServer

from ablab.errors import UsageError
from ablab.tracking.publish import main, publish

PIXEL = bytes.fromhex(
    "89504e470d0a1a0a0000000d49484452000000010000000108060000001f15c4890000000d49444154789c6360606060000000050001a5f64540"
    "0000000049454e44ae426082"
)


@pytest.fixture
def study(tmp_path: Path) -> Path:
    folder = tmp_path / "runs" / "studies" / "norm-1a2b3c"
    (folder / "report" / "figures").mkdir(parents=True)
    report = {
        "question": "Does it matter?", "baseline": {"norm": "rms"}, "factors": {"norm": ["rms", "layer"]}, "margin": 0.005,
        "alpha": 0.05, "cells": [{"label": "norm=rms"}, {"label": "norm=layer"}],
        "comparisons": [{"label": "norm=layer", "verdict": "equivalent"}],
    }  # fmt: skip
    (folder / "report" / "report.json").write_text(json.dumps(report))
    (folder / "report" / "report.md").write_text("# Report\n")
    (folder / "report" / "figures" / "forest.png").write_bytes(PIXEL)
    return folder


def test_a_report_arrives_with_its_figures_and_files(study: Path, server: WandbServer):
    sink = publish(study, {"mode": "online"})
    (run,) = server.runs.values()
    assert sink.url == f"{server.url}/local/ablab/runs/{run.id}"
    assert (run.job_type, run.group, run.tags, run.state) == ("report", "norm-1a2b3c", ["norm-1a2b3c"], "finished")
    assert run.values()["factors"] == {"norm": ["rms", "layer"]}
    assert run.notes == "Does it matter?"
    (row,) = run.history
    assert {"figures/forest", "report", "cells"} <= set(row)
    assert run.summary["verdicts"]["norm=layer"] == "equivalent"
    assert [a["type"] for a in server.artifacts.values() if a["type"] == "report"] == ["report"]


def test_without_a_server_it_stays_here_and_says_how_to_upload(study: Path, capsys: pytest.CaptureFixture[str]):
    assert main([str(study), "--mode", "offline"]) == 0
    said = capsys.readouterr().out
    assert "wandb sync --yes" in said and str(study.parents[1] / "wandb") in said


def test_a_study_without_a_report_is_refused_with_the_command_that_makes_it(tmp_path: Path):
    with pytest.raises(UsageError, match="ablab report"):
        publish(tmp_path, {})
