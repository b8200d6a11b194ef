"""From logits to the next token: pure functions on (B, V) logits, in float64 whatever the model's dtype."""

from __future__ import annotations

import math
from dataclasses import dataclass

import torch
from torch import Tensor

from ..errors import UsageError

#: a set of tokens whose probability falls short of top_p by less than this has reached it: logits are float32,
#: and probabilities that add up to p on paper add up to p - 1e-8 there
SLACK = 5e-7


@dataclass(frozen=True)
class Sampling:
    """How the next token is chosen.

    Attributes:
        temperature: divides the logits; 0 takes the most likely token, the first of equals.
        top_p: draw from the smallest set of most likely tokens whose probability reaches it; 1 = from all,
            0 = the most likely one.
        top_k: draw from so many most likely tokens; None = from all.
    Raises:
        UsageError: a value out of range.
    """

    temperature: float = 1.0
    top_p: float = 1.0
    top_k: int | None = None

    def __post_init__(self) -> None:
        if not 0 <= self.temperature < math.inf:
            raise UsageError(f"temperature must be 0 or more, not {self.temperature}")
        if not 0 <= self.top_p <= 1:
            raise UsageError(f"top_p must lie in [0, 1], not {self.top_p}")
        if self.top_k is not None and self.top_k < 1:
            raise UsageError(f"top_k must be at least 1, not {self.top_k}")


def probabilities(logits: Tensor, sampling: Sampling) -> Tensor:
    """Probability of every token, (B, V) float64: temperature first, then top-k, then top-p.

    Raises:
        UsageError: the logits hold NaN or plus infinity.
    """
    x = logits.double()
    top = x.amax(-1, keepdim=True)
    if not top.isfinite().all():
        raise UsageError("the model's logits are not finite: its training diverged")
    if sampling.temperature == 0:
        first = x.argmax(-1, keepdim=True)
        return torch.zeros_like(x).scatter_(-1, first, 1.0)
    x = (x - top) / sampling.temperature  # the largest is 0, so that no temperature overflows
    if sampling.top_k is not None:
        x = keep_top_k(x, sampling.top_k)
    return keep_top_p(x.softmax(-1), sampling.top_p)


def keep_top_k(logits: Tensor, k: int) -> Tensor:
    """The k largest logits of each row, the first of equals; minus infinity elsewhere."""
    order = logits.argsort(dim=-1, descending=True, stable=True)[..., k:]
    return logits.scatter(-1, order, -math.inf)


def keep_top_p(p: Tensor, top_p: float) -> Tensor:
    """The smallest set of most likely tokens whose sum reaches `top_p`, scaled to sum to 1; 0 elsewhere."""
    if top_p == 1:
        return p
    ordered, order = p.sort(dim=-1, descending=True, stable=True)
    before = ordered.cumsum(-1) - ordered
    kept = before < top_p - SLACK
    kept[..., 0] = True
    p = torch.zeros_like(p).scatter(-1, order, ordered * kept)
    return p / p.sum(-1, keepdim=True)


def pick(logits: Tensor, sampling: Sampling, generator: torch.Generator | None = None) -> Tensor:
    """One token for each row of logits (B, V): (B) int64 on the logits' device.

    Drawn on the generator's device, by default the CPU, so that a seed means the same text on every device.
    """
    device = generator.device if generator is not None else torch.device("cpu")
    p = probabilities(logits.to(device), sampling)
    if sampling.temperature == 0:
        return p.argmax(-1).to(logits.device)
    return torch.multinomial(p, 1, generator=generator).squeeze(-1).to(logits.device)
