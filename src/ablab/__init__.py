"""Ablab: an ablation lab for decoder-only language models.

```python
import ablab
cfg = ablab.compose(["norm=layer", "ffn=relu", "model.d_model=64"])
model = ablab.build_model(cfg, vocab_size=1000)
```
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from .errors import UsageError
from .registry import register

if TYPE_CHECKING:
    from .composition import compose
    from .model import build_model

__version__ = "0.1.0"
__all__ = ["UsageError", "build_model", "compose", "register"]

_LAZY = {"compose": "ablab.composition", "build_model": "ablab.model"}


def __getattr__(name: str) -> Any:
    """Import what is heavy (Hydra, torch) when it is first used."""
    if name in _LAZY:
        import importlib

        value = getattr(importlib.import_module(_LAZY[name]), name)
        globals()[name] = value  # the function, not the module of the same name
        return value
    raise AttributeError(f"module 'ablab' has no attribute '{name}'")
