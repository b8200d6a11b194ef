"""Where an installed package lies, without importing it (its own dependencies may be missing)."""

from __future__ import annotations

import importlib.util
from pathlib import Path

from ..errors import UsageError


def package_folder(module: str, corpus: str, install: str) -> Path:
    """Folder of the top-level package `module`; a UsageError says how to `install` it for `data=corpus`."""
    spec = importlib.util.find_spec(module)
    if spec is None or not spec.submodule_search_locations:
        raise UsageError(f"data={corpus} needs a package that is not installed: {install}")
    return Path(next(iter(spec.submodule_search_locations)))
