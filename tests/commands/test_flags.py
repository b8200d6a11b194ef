"""Hydra's own flags, an installed plug-in, a budget in minutes, and a report published: as users type them."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import yaml
from support.commands import Lab, tiny

NewLab = Callable[..., Lab]


def test_the_config_is_shown_and_nothing_is_left_behind(new_lab: NewLab) -> None:
    lab = new_lab()
    done = lab.run("--cfg", "job", "norm=layer", "seed=3")
    assert done.code == 0, done.text
    shown = yaml.safe_load(done.out)
    assert shown["seed"] == 3 and shown["train"]["batch_size"] == 32
    assert lab.run("--info", "searchpath").code == 0
    assert lab.run("--hydra-help").code == 0
    assert sorted(p.name for p in lab.folder.iterdir()) == ["tiny.txt"]


def test_flags_may_stand_anywhere(new_lab: NewLab) -> None:
    lab = new_lab()
    words = [*tiny("plan=true", sweep=False), "norm=rms", "-m", "ffn=swiglu,relu"]
    done = lab.run(*words)
    assert done.code == 0 and done.out.count("ffn=") >= 2, done.text


def test_a_folder_of_own_configs_is_searched(new_lab: NewLab, tmp_path: Path) -> None:
    lab = new_lab()
    own = tmp_path / "own"
    (own / "scale").mkdir(parents=True)
    sizes = {"d_model": 16, "n_layers": 1, "n_heads": 2, "context_length": 16}
    text = "# @package _global_\n" + yaml.safe_dump({"model": sizes, "train": {"steps": 2, "batch_size": 2}})
    (own / "scale" / "mine.yaml").write_text(text)
    done = lab.run("--config-dir", str(own), "scale=mine", "data=text", "data.path=tiny.txt", "tracker=none")
    assert done.code == 0, done.text
    (run,) = lab.cells()
    config = yaml.safe_load((run / "config.yaml").read_text())
    assert config["model"]["d_model"] == 16 and config["choices"]["scale"] == "mine"
    (own / "experiment").mkdir()
    question = {"hydra": {"sweeper": {"params": {"norm": "rms,layer"}}}, "study": {"name": "own"}}
    (own / "experiment" / "mine.yaml").write_text("# @package _global_\n" + yaml.safe_dump(question))
    done = lab.run(*tiny("experiment=mine", sweep=False), "--config-dir", str(own))
    assert done.code == 0 and lab.states("own") == ["finished"] * 2, done.text
    missing = lab.run("--config-dir", str(tmp_path / "nowhere"), "scale=mine")
    assert missing.code == 2 and "--config-dir" in missing.err and missing.err.count("\n") == 1
    assert lab.run("scale=mine").code == 2  # without the flag there is no such scale


def test_an_installed_package_brings_options(new_lab: NewLab, tmp_path: Path) -> None:
    lab = new_lab()
    site = tmp_path / "site"
    (site / "halved-1.0.dist-info").mkdir(parents=True)
    (site / "halved-1.0.dist-info" / "METADATA").write_text("Metadata-Version: 2.1\nName: halved\nVersion: 1.0\n")
    (site / "halved-1.0.dist-info" / "entry_points.txt").write_text("[ablab.plugins]\nhalved = halved\n")
    (site / "halved.py").write_text(
        "import torch, ablab\n\n\n"
        "@ablab.register('norm', 'halved')\n"
        "class Halved(torch.nn.Module):\n"
        "    '''x * share.'''\n\n"
        "    def __init__(self, d_model: int, *, share: float = 0.5):\n"
        "        super().__init__()\n"
        "        self.share = share\n\n"
        "    def forward(self, x):\n"
        "        return x * self.share\n"
    )
    path = {"PYTHONPATH": f"{site}:{lab.env()['PYTHONPATH']}"}
    assert "norm.share=0.5" in lab.run("--help", **path).out
    done = lab.tiny("norm=rms,halved", **path)
    assert done.code == 0 and lab.states() == ["finished"] * 2, done.text
    assert "norm=halved" not in lab.run("--help").out


def test_minutes_are_measured_once_per_study(new_lab: NewLab) -> None:
    lab = new_lab()
    words = [word for word in tiny("norm=rms,layer") if not word.startswith("train.steps")]
    first = lab.run(*words, "train.minutes=0.01")
    assert first.code == 0, first.text
    study = lab.study()
    steps = [lab.state(cell)["steps"] for cell in study["cells"]]
    assert all(step >= 1 for step in steps) and len(study["seconds_per_step"]) == 2
    # whole steps of what one was measured to take, and none more would fit
    for step, seconds in zip(steps, study["seconds_per_step"].values(), strict=True):
        assert step * seconds <= 0.6 + 1e-6 and (step + 1) * seconds > 0.6
    for more in ([], ["jobs=1"], ["note=again", "study.margin=0.01"], ["status=true"]):
        name = ["study.name=" + study["study"]] if "study.margin=0.01" in more else []
        again = lab.run(*reversed(words[1:]), "-m", "train.minutes=0.01", *more, *name)
        assert again.code == 0, again.text
        assert ("2 of 2 cells done" if more == ["status=true"] else "reused 2, ran 0") in again.out, again.text
    assert "study.margin=0.01 was asked for later; the study declared 0.005, which stays" in lab.study()["warnings"]
    assert lab.study()["seconds_per_step"] == study["seconds_per_step"]


def test_a_report_is_published_offline(new_lab: NewLab) -> None:
    lab = new_lab()
    assert lab.tiny("norm=rms,layer", "study.name=s", NO_REPORT="").code == 0
    missing = lab.run("publish", "runs/studies/other")
    assert missing.code == 2 and "has no report" in missing.err
    done = lab.run("publish", "runs/studies/s", "--mode", "offline")
    assert done.code == 0 and "report published:" in done.out and "wandb sync" in done.out, done.text
    assert len(list((lab.runs / "wandb").glob("offline-run-*/run-*.wandb"))) == 1


def test_the_pool_is_listed_from_the_console(new_lab: NewLab) -> None:
    lab = new_lab()
    assert lab.tiny("norm=rms,layer", "study.name=s").code == 0
    done = lab.run("runs", "list")
    assert done.code == 0 and done.out.count("finished") == 2 and "2 runs, " in done.out
