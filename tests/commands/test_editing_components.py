"""An edited component gets new runs beside the old ones; an edited comment changes nothing."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest
from support.commands import Lab, files

SWEEP = ["norm=rms,layer", "ffn=swiglu"]


def edit(file: Path, old: str, new: str) -> None:
    text = file.read_text()
    if text.count(old) != 1:
        raise LookupError(f"'{old}' is {text.count(old)} times in {file.name}")
    file.write_text(text.replace(old, new))


@pytest.fixture
def own(new_lab: Callable[..., Lab], tmp_path: Path) -> Lab:
    """A folder whose commands come from a checkout that the test may edit."""
    lab = new_lab()
    shutil.copytree(lab.source, tmp_path / "own", ignore=shutil.ignore_patterns("__pycache__"))
    return replace(lab, source=tmp_path / "own")


def test_only_what_the_edit_touches_is_trained_again(own: Lab) -> None:
    norm = own.source / "src" / "ablab" / "components" / "norm.py"
    assert "reused 0, ran 2" in own.tiny(*SWEEP).out
    before = {run: files(run) for run in own.cells()}
    first = own.study()

    edit(norm, "class RMSNorm(nn.Module):\n", "class RMSNorm(nn.Module):\n    # a remark\n\n")
    edit(norm, '"""x / sqrt(mean(x^2) + eps) * weight', '"""In other words: x / sqrt(mean(x^2) + eps) * weight')
    edit(own.source / "src" / "ablab" / "training" / "loop.py", '"""The training loop', '"""A training loop')
    done = own.tiny(*SWEEP, "status=true")
    assert done.code == 0 and "2 of 2" in done.out

    edit(
        norm, "self.bias = nn.Parameter(torch.zeros(d_model))", "self.bias = nn.Parameter(torch.full((d_model,), 0.1))"
    )
    done = own.tiny(*SWEEP)
    assert done.code == 0, done.text
    assert "reused 1, ran 1" in done.out
    assert {run: files(run) for run in before} == before
    second = own.study()
    assert second["cells"][0] == first["cells"][0]
    assert second["cells"][1]["superseded"] == [first["cells"][1]["run"]]
    assert second["cells"][1]["run"] != first["cells"][1]["run"]
    assert len(own.cells()) == 3

    edit(
        own.source / "src" / "ablab" / "training" / "loop.py",
        "s.step, s.settled, s.scale",
        "_ = 0\n    s.step, s.settled, s.scale",
    )
    done = own.tiny(*SWEEP, "status=true")  # the loop is everybody's
    assert done.code == 1 and "0 of 2" in done.out
