"""The README's code, run as it stands; its commands at a tiny size."""

from __future__ import annotations

import re
import shlex
import subprocess
import sys
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parents[1]
README = (ROOT / "README.md").read_text(encoding="utf-8")
TINY = [
    "model.d_model=16",
    "model.n_layers=1",
    "model.n_heads=2",
    "model.context_length=8",
    "train.batch_size=2",
    "train.steps=2",
    "train.eval_batch_size=2048",
    "train.eval_every=2",
    "train.device=cpu",
    "tracker=none",
]
BOOK = ["data=text", "data.path=book.txt"]  # far shorter than the default text


def blocks(language: str) -> list[str]:
    return re.findall(rf"^```{language}\n(.*?)^```", README, flags=re.M | re.S)


def commands() -> list[str]:
    """Commands of the README that train or look at runs, without their comments."""
    lines = [line.split("   #")[0].strip() for block in blocks("bash") for line in block.splitlines()]
    return [line.split("&& ")[-1] for line in lines if "run.py" in line or line.startswith("ablab ")]


def run(words: list[str], folder: Path, **environment: str) -> subprocess.CompletedProcess[str]:
    import os

    return subprocess.run(words, cwd=folder, env=os.environ | environment, capture_output=True, text=True, timeout=300)


@pytest.fixture(scope="module")
def desk(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A folder with what the README's commands name."""
    folder = tmp_path_factory.mktemp("readme")
    (folder / "book.txt").write_text("It was a dark and stormy night; the rain fell in torrents.\n" * 40)
    component = next(block for block in blocks("python") if "@ablab.register" in block)
    (folder / "my_norm.py").write_text(component)
    return folder


def test_the_readme_shows_the_two_commands():
    assert "pip install -e . && python run.py -m norm=rms,layer ffn=swiglu,relu" in README
    assert "pip install -e '.[test]' && pytest" in README
    assert len(commands()) >= 12


def test_python_code_runs(desk: Path):
    code = (
        "\n".join(blocks("python"))
        + "\nimport torch\nassert model(torch.zeros(1, 4, dtype=torch.long)).shape == (1, 4, 1000)\n"
    )
    (desk / "snippet.py").write_text(code)
    done = run([sys.executable, "snippet.py"], desk)
    assert done.returncode == 0, done.stderr


@pytest.mark.parametrize("line", commands())
def test_commands_run(desk: Path, line: str):
    words = shlex.split(line)
    environment = {}
    while "=" in words[0] and words[0].partition("=")[0].isupper():
        key, _, value = words.pop(0).partition("=")
        environment[key] = value
    if "run.py" in words:
        own_text = "data." in line
        words = [sys.executable, str(ROOT / "run.py"), *words[2:], *TINY, *([] if own_text else BOOK)]
    else:
        words = [sys.executable, "-m", "ablab.cli", *words[1:]]
        if words[-1].startswith("runs/studies/*") or "runs/studies/*" in words:
            place = words.index("runs/studies/*")
            words[place : place + 1] = [str(p) for p in sorted(desk.glob("runs/studies/*"))]
    done = run(words, desk, **environment)
    assert done.returncode == 0, done.stdout[-2000:] + done.stderr[-2000:]
    if "plan=true" not in words and "run.py" in " ".join(words):
        assert "finished" in done.stdout
