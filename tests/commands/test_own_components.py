"""A user's component from a file is an option like any other, and its faults cost its own cells only."""

from __future__ import annotations

from pathlib import Path

import pytest
from omegaconf import OmegaConf
from support import plugin
from support.commands import Lab, tiny

PLUGIN = {"ABLAB_PLUGINS": plugin.__file__}


def test_help_and_errors_know_it(lab: Lab) -> None:
    shown = lab.run("--help", **PLUGIN)
    assert shown.code == 0
    (line,) = [line for line in shown.out.splitlines() if line.strip().startswith("norm ")]
    assert line.split()[:5] == ["norm", "rms", "layer", "identity", "scaled"]
    assert "norm.floor=0.001" in shown.out
    for words, parts in {
        "norm=scaled norm.floor=low": ["norm.floor", "low"],
        "norm=rms norm.floor=1": ["norm.floor", "norm=rms"],
        "norm=scale": ["norm", "did you mean 'scaled'", "rms"],
    }.items():
        done = lab.run(*tiny(*words.split(), sweep=False), **PLUGIN)
        assert done.code == 2
        assert done.err.count("\n") == 1 and all(part in done.err for part in parts), done.err


def test_its_faults_cost_its_own_cells_only(lab: Lab) -> None:
    names = ["scaled", "raises", "quits", "vanishes", "broken"]
    done = lab.tiny(f"norm={','.join(names)}", "norm.floor=0.02,5", "ffn=relu", "jobs=3", **PLUGIN)
    assert done.code == 1, done.text
    cells = lab.study()["cells"]
    assert [(c["factors"]["norm"], c["factors"]["norm.floor"]) for c in cells] == [
        (n, f) for n in names for f in (0.02, 5)
    ]
    assert lab.states() == ["finished"] * 2 + ["failed"] * 8
    causes = [
        None, "ArithmeticError: this norm gave up", "sys.exit(0) before the last step",
        "its process exited with code 0 unasked", "ArithmeticError: this norm never works",
    ]  # fmt: skip
    assert [lab.state(cell)["reason"] for cell in cells] == [cause for cause in causes for _ in range(2)]
    assert "norm=broken,norm.floor=5 fails before it is trained: ArithmeticError: this norm never works" in done.out
    for cell in cells:
        run = lab.runs / cell["folder"]
        assert OmegaConf.load(run / "config.yaml").norm.floor == cell["factors"]["norm.floor"]
        if cell["factors"]["norm"] == "scaled":  # the process of a cell knows which job of Hydra's it is
            assert f"job {cell['index']}." in (run / "run.log").read_text()


def test_one_that_ends_every_process_leaves_the_others_their_chance(lab: Lab) -> None:
    done = lab.tiny("norm=rms,deadly", "study.name=deadly", **PLUGIN)
    assert done.code == 1, done.text
    assert lab.states("deadly") == ["finished", "failed"]
    assert "the treatment check did not run" in done.out


@pytest.mark.parametrize("word", ["unbuildable", "fatal"])
def test_one_that_cannot_be_made_is_named_before_anything_trains(lab: Lab, word: str) -> None:
    before = set(lab.cells())
    done = lab.tiny(f"norm=rms,{word}", "seed=3", **PLUGIN)
    assert done.code == 2
    assert f"norm={word}" in done.err and done.err.count("\n") == 1, done.err
    assert set(lab.cells()) == before


def test_a_file_that_does_not_load(lab: Lab, tmp_path: Path) -> None:
    bad = tmp_path / "bad.py"
    bad.write_text("import nothing_of_this_name\n")
    done = lab.run("norm=rms", ABLAB_PLUGINS=str(bad))
    assert done.code == 2 and "bad.py" in done.err and "nothing_of_this_name" in done.err
    done = lab.run("norm=rms", ABLAB_PLUGINS=str(tmp_path / "none.py"))
    assert done.code == 2 and "ABLAB_PLUGINS" in done.err and "none.py" in done.err
    twice = tmp_path / "twice.py"
    twice.write_text(
        "import ablab\n\n@ablab.register('norm', 'rms')\nclass Mine:\n    def __init__(self, d_model): ...\n"
    )
    done = lab.run("norm=rms", ABLAB_PLUGINS=str(twice))
    assert done.code == 2 and "norm=rms is registered twice" in done.err
