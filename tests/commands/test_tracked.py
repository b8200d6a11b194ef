"""A sweep with the default tracker, no account and no network: rates stay numbers from the file to the table."""

from __future__ import annotations

import csv
import re

import pytest
from support import wandb_file
from support.commands import Done, Lab, tiny

EXPERIMENT = """# @package _global_
hydra:
  mode: MULTIRUN
  sweeper:
    params:
      optimizer.lr: 1e-4,3e-5,1e-3
study: {name: rates, question: "Which rate?"}
optimizer: {lr: 1e-4}
"""


@pytest.fixture(scope="module")
def swept(lab: Lab) -> Done:
    (lab.folder / "experiments").mkdir()
    (lab.folder / "experiments" / "rates.yaml").write_text(EXPERIMENT)
    return lab.run(*tiny("experiment=rates", "tracker=wandb", sweep=False))


def test_an_experiment_sweeps_by_itself_and_says_how_to_upload(lab: Lab, swept: Done) -> None:
    assert swept.code == 0, swept.text
    assert [cell["factors"] for cell in lab.study("rates")["cells"]] == [
        {"optimizer.lr": v} for v in (1e-4, 3e-5, 1e-3)
    ]
    assert lab.study("rates")["question"] == "Which rate?"
    assert "offline" in swept.out and re.search(r"wandb sync .*runs/wandb", swept.out)


def test_rates_are_numbers_everywhere(lab: Lab, swept: Done) -> None:
    logged = [run.config["optimizer"]["lr"] for run in map(wandb_file.read, wandb_file.files(lab.runs))]
    assert sorted(logged) == [3e-5, 1e-4, 1e-3]
    assert all(isinstance(rate, float) for rate in logged)
    assert lab.run("runs", "--out", "curves.csv", script="analysis/collect.py").code == 0
    with open(lab.folder / "curves.csv", newline="") as file:
        assert {float(row["optimizer.lr"]) for row in csv.DictReader(file)} == {3e-5, 1e-4, 1e-3}
