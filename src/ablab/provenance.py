"""Which code something was made with. Best effort: what cannot be found out is null, never an error."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def code() -> dict[str, Any]:
    """Version of the package, and the git commit of its checkout with whether it was changed."""
    from . import __version__

    return {"version": __version__, **git(Path(__file__).resolve().parent)}


def git(folder: Path) -> dict[str, Any]:
    """`{"commit": hex or None, "dirty": bool or None}` of the checkout that holds `folder`."""
    commit = _git(folder, "rev-parse", "HEAD")
    changes = _git(folder, "status", "--porcelain", "--untracked-files=no") if commit else None
    return {"commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    command = ["git", "--no-optional-locks", "-C", str(folder), *words]
    try:
        done = subprocess.run(command, capture_output=True, text=True, timeout=10, stdin=subprocess.DEVNULL, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
