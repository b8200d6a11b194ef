"""Loss and gradients of a micro-batch; on a CPU with several threads each takes a part of it."""

from __future__ import annotations

import copy
from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from functools import partial

import torch
from torch import Tensor, nn

from .device import Runtime

#: parts of a micro-batch at most: Python's own share of a step, which only one thread has at a time, grows with them
MOST_PARTS = 4
#: floating-point operations of a forward pass below which handing it to another thread costs more than it saves
WORTH = 3 * 10**8
#: those above which its operations are so large that threads share them as well, in less memory
LARGE = 2 * 10**11
#: tokens of a sequence that tell whether sequences depend on each other
PROBE = 16
#: largest difference of two logits, in standard deviations of the logits, that rounding may explain
ALIKE = 1e-3
#: standard deviation of what the probe adds to the weights
SHAKE = 0.1


class Gradients:
    """Adds a micro-batch's gradient to every parameter's `grad`.

    One after another, the threads of a CPU wait for each other at the end of every operation. Here each takes some of
    the sequences through the whole model and back, which is faster where operations are small; the gradients of the
    parts are added in a fixed order, so that a run is as reproducible as with one thread. It needs a model that treats
    sequences independently, draws no random numbers and keeps no state in its forward pass: `independent` finds out.

    Args:
        parameters: those that are trained.
        parts: of a micro-batch, not more than it has sequences; 1 is plain autograd.
    """

    def __init__(self, model: nn.Module, parameters: Sequence[nn.Parameter], where: Runtime, parts: int) -> None:
        self.parts, threads = parts, max(1, torch.get_num_threads() // parts)
        self._model, self._parameters, self._where = model, list(parameters), where
        self._pool = ThreadPoolExecutor(parts, "part", partial(torch.set_num_threads, threads)) if parts > 1 else None

    def add(self, x: Tensor, y: Tensor, targets: int) -> Tensor:
        """Sum of the losses of `x` and `y` (B, T), detached; gradients are those of that sum over `targets`."""
        if self._pool is None:
            loss = self._loss(x, y)
            (loss / max(targets, 1)).backward()
            return loss.detach()
        total = torch.zeros((), device=x.device)
        part = partial(self._part, targets)
        for loss, gradients in self._pool.map(part, x.tensor_split(self.parts), y.tensor_split(self.parts)):
            total += loss
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    # a copy: two parameters may be handed the same memory
                    parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        return total

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        with self._where.autocast():
            loss, _ = self._model.loss(x, y)  # type: ignore[operator]
        return loss

    def _part(self, targets: int, x: Tensor, y: Tensor) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        loss = self._loss(x, y)
        return loss.detach(), torch.autograd.grad(loss / max(targets, 1), self._parameters, allow_unused=True)


def work(model: nn.Module, tokens: int) -> int:
    """Floating-point operations of a forward pass over so many tokens, about."""
    return 2 * sum(p.numel() for p in model.parameters()) * tokens


def shared_out(threads: int) -> int:
    """Parts for so many threads: the largest divisor up to MOST_PARTS, so that each part gets as many."""
    return next(parts for parts in range(min(threads, MOST_PARTS), 0, -1) if threads % parts == 0)


@torch.no_grad()
def independent(model: nn.Module, vocab_size: int) -> bool:
    """Whether a pass over two sequences gives what one over each gives, again and again, and draws nothing.

    Components of a user's own may do otherwise: dropout, statistics over the batch, state of any kind. A copy of the
    model is tried, with other weights than its first ones, which may hide what a part does (a gate at zero).
    """
    length = min(PROBE, int(model.context_length))  # type: ignore[arg-type]
    ids = (torch.arange(2 * length) % vocab_size).view(2, length)
    try:
        trial = copy.deepcopy(model)
        noise = torch.Generator().manual_seed(0)
        for parameter in trial.parameters():
            parameter.add_(torch.randn(parameter.shape, generator=noise), alpha=SHAKE)
        with torch.random.fork_rng(devices=[]):
            before = torch.get_rng_state()
            together = [trial(ids), torch.cat([trial(ids[:1]), trial(ids[1:])]), trial(ids)]
            drew = not torch.equal(before, torch.get_rng_state())
    except Exception:  # not what a run should end by; it trains on all threads together
        return False
    apart = max(float((other - together[0]).abs().max()) for other in together[1:])
    moved = any(not torch.equal(a, b) for a, b in zip(trial.buffers(), model.buffers(), strict=True))
    return not drew and not moved and apart <= ALIKE * float(together[0].std())
