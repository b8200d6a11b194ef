"""Which code a study was declared with."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any


def code() -> dict[str, Any]:
    """Version of the package, and the git commit of its checkout with whether it was changed; null where unknown."""
    from .. import __version__

    here = Path(__file__).resolve().parent
    commit = _git(here, "rev-parse", "HEAD")
    changes = _git(here, "status", "--porcelain", "--untracked-files=no") if commit else None
    return {"version": __version__, "commit": commit, "dirty": None if changes is None else bool(changes)}


def _git(folder: Path, *words: str) -> str | None:
    try:
        done = subprocess.run(["git", *words], cwd=folder, capture_output=True, text=True, timeout=10, check=True)
    except (OSError, subprocess.SubprocessError):
        return None
    return done.stdout.strip()
