"""What tests of commands share. Tests of one file run in one process, since they share finished sweeps."""

from __future__ import annotations

import shutil
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import ROOT, TEXT, Lab


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With pytest -n: hand out files, not single tests."""
    from xdist.scheduler import LoadFileScheduling

    return LoadFileScheduling(config, log)


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Files of commands first: each takes a minute, and one that starts last keeps everybody waiting."""
    slow = ("test_readme.py", "test_alive.py")
    items.sort(key=lambda item: not (item.path.parent.name == "commands" or item.path.name in slow))


@pytest.fixture(scope="session")
def checkout(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A copy of the repository's shipped files, so that an edit while tests run changes no run's identity."""
    target = tmp_path_factory.mktemp("checkout")
    unwanted = shutil.ignore_patterns("__pycache__")
    for name in ("src", "conf", "experiments", "analysis"):
        shutil.copytree(ROOT / name, target / name, ignore=unwanted)
    shutil.copy(ROOT / "run.py", target)
    return target


@pytest.fixture(scope="session")
def new_lab(checkout: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[..., Lab]:
    """Makes folders where commands are typed."""
    fonts = tmp_path_factory.mktemp("matplotlib")
    home = tmp_path_factory.mktemp("home")

    def make(name: str = "lab", **settings: str) -> Lab:
        folder = tmp_path_factory.mktemp(name)
        (folder / "tiny.txt").write_text(TEXT)
        return Lab(checkout, folder, home, {"NO_REPORT": "1", "MPLCONFIGDIR": str(fonts), **settings})

    return make


@pytest.fixture(scope="module")
def lab(new_lab: Callable[..., Lab]) -> Lab:
    """One folder for the commands of one test file."""
    return new_lab()
