"""What the process server loads before it forks anything.

Without the collector: it would walk through a growing heap again and again while the imports fill it, an eighth of the
time. What is there afterwards is left out of later passes, so that forked processes share its memory.
"""

from __future__ import annotations

import gc

gc.disable()
try:
    import torch._dynamo  # noqa: F401 - the first optimiser step would import it in every cell (1 s)

    from ..tracking import wandb_preload  # noqa: F401
    from . import treatment, worker  # noqa: F401

    gc.freeze()
finally:
    gc.enable()
