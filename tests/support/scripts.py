"""Scripts of benchmarks/ as modules."""

from __future__ import annotations

import importlib.util
import sys
from types import ModuleType

from support.commands import ROOT


def load(name: str) -> ModuleType:
    """`benchmarks/NAME.py`, run anew; it stands in sys.modules under its name, where dataclasses look for it."""
    spec = importlib.util.spec_from_file_location(name, ROOT / "benchmarks" / f"{name}.py")
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    sys.modules[name] = module
    spec.loader.exec_module(module)
    return module
