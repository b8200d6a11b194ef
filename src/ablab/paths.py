"""Where the shipped data of the package lies: beside the code in a wheel, at the root in a checkout."""

from __future__ import annotations

from pathlib import Path

PACKAGE = Path(__file__).resolve().parent


def shipped(name: str) -> Path:
    """Folder `conf` or `experiments` as shipped.

    Raises:
        FileNotFoundError: the installation is incomplete.
    """
    for folder in (PACKAGE / name, PACKAGE.parents[1] / name):
        if folder.is_dir():
            return folder
    raise FileNotFoundError(f"this installation of ablab lacks its folder '{name}'; install it again")


def experiment_folders() -> list[Path]:
    """Folders that hold experiment files: the shipped one and `experiments/` where the command is typed."""
    here = Path.cwd() / "experiments"
    found = [shipped("experiments")]
    if here.is_dir() and here.resolve() != found[0].resolve():
        found.append(here)
    return found
