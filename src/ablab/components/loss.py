"""Cross-entropy of a head's predictions, without holding the logits of a large vocabulary all at once."""

from __future__ import annotations

from typing import Any, Protocol

import torch
import torch.nn.functional as F
from torch import Tensor

from .dtype import wide

IGNORE = -100
#: logits held at one time where there are more in all: on a CPU what its cache likes (a fifth faster than all at
#: once), elsewhere enough to keep the device busy
CHUNKS = {"cpu": 2**22}
CHUNK = 2**26


class Head(Protocol):
    """Logits by one matrix (V, D)."""

    @property
    def weight(self) -> Tensor: ...
    def __call__(self, x: Tensor, /) -> Tensor: ...


def summed_loss(hidden: Tensor, head: Head, targets: Tensor, chunk: int | None = None) -> Tensor:
    """Sum of the cross-entropies in nats of predicting `targets` (N) from `hidden` (N, D); float32 or wider.

    Targets of -100 do not count. At most about `chunk` logits exist at one time, and their gradient takes the
    place of the logits: three matrix products in all, as without chunks.
    """
    weight = head.weight
    rows = max(1, (chunk or CHUNKS.get(hidden.device.type, CHUNK)) // weight.shape[0])
    if len(hidden) <= rows:
        return F.cross_entropy(wide(head(hidden)), targets, ignore_index=IGNORE, reduction="sum")
    if torch.is_grad_enabled() and (hidden.requires_grad or weight.requires_grad):
        return _ChunkedLoss.apply(hidden, weight, targets, rows)
    parts = zip(hidden.split(rows), targets.split(rows), strict=True)
    return sum((summed_loss(h, head, t, chunk) for h, t in parts), wide(hidden.new_zeros(())))


class _ChunkedLoss(torch.autograd.Function):
    """Loss and, in the same sweep over the tokens, its gradient."""

    @staticmethod
    def forward(ctx: Any, hidden: Tensor, weight: Tensor, targets: Tensor, rows: int) -> Tensor:
        total = wide(hidden.new_zeros(()))
        to_hidden, to_weight = torch.empty_like(hidden), torch.zeros_like(weight)
        for h, t, out in zip(hidden.split(rows), targets.split(rows), to_hidden.split(rows), strict=True):
            logits = wide(F.linear(h, weight))
            kept = (t != IGNORE)[:, None]
            index = t.clamp(min=0)[:, None]
            log_total = logits.logsumexp(-1, keepdim=True)
            total += ((log_total - logits.gather(-1, index)) * kept).sum()
            gradient = logits.sub_(log_total).exp_()  # softmax, where the logits were
            gradient.scatter_add_(-1, index, gradient.new_full((), -1.0).expand(index.shape)).mul_(kept)
            gradient = gradient.to(h.dtype)
            out.copy_(gradient @ weight)
            to_weight += gradient.mT @ h
        ctx.save_for_backward(to_hidden, to_weight)
        return total

    @staticmethod
    def backward(ctx: Any, *gradients: Tensor) -> tuple[Tensor, Tensor, None, None]:
        to_hidden, to_weight = ctx.saved_tensors
        scale = gradients[0]
        return to_hidden * scale.to(to_hidden.dtype), to_weight * scale.to(to_weight.dtype), None, None
