"""Learning rates chosen on some seeds and judged on others, by one rule for every variant."""

from __future__ import annotations

import math
from collections.abc import Mapping

from . import sums


def sensitivity(losses: Mapping[float, float | None], initial_loss: float) -> float | None:
    """Learning-rate sensitivity: mean over the log grid of min(l(eta), l0) - min l.

    `losses` maps each rate to its final loss; None or not finite (diverged) counts as `initial_loss`, the one
    l0 of all variants. Every rate weighs the same, so the grid must be even in log eta, and the same for all
    variants. Source: Wortsman et al. 2023, "Small-scale proxies for large-scale Transformer training
    instabilities", eq. 2.
    """
    if not losses:
        return None
    capped = [initial_loss if x is None or not math.isfinite(x) else min(x, initial_loss) for x in losses.values()]
    return sums.mean(capped) - min(capped)
