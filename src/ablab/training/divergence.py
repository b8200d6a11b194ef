"""When a run counts as diverged: an outcome, not an error."""

from __future__ import annotations

import math

#: nats by which the validation loss may exceed its start, or chance, before the run is given up
ROOM = 0.5


def diverged(loss: float, first_loss: float | None, vocab_size: int, warm: bool) -> str | None:
    """The reason why a validation loss (nats per token) means divergence, or None.

    Not finite, or, once the warm-up is over (`warm`), above max(first loss, ln V) + 0.5. NaN compares false
    with everything, so finiteness is asked first.
    """
    if not math.isfinite(loss):
        return "validation loss is not finite"
    if first_loss is None or not warm:
        return None
    limit = max(first_loss, math.log(vocab_size)) + ROOM
    if loss > limit:
        return f"validation loss {loss:.3f} is above max(first loss, ln V) + {ROOM} = {limit:.3f}"
    return None
