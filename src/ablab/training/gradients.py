"""Loss and gradients of a micro-batch; on a CPU with several threads each takes a part of it."""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor

import torch
from torch import Tensor, nn

from .device import Runtime

#: parts of a micro-batch at most: Python's own share of a step, which only one thread has at a time, grows with them
MOST_PARTS = 4
#: floating-point operations of a forward pass below which handing it to another thread costs more than it saves
WORTH = 3 * 10**8
#: tokens of a sequence that tell whether sequences depend on each other
PROBE = 16
#: largest difference of two logits, in standard deviations of the logits, that rounding may explain, bfloat16's included
ALIKE = 0.05


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
        self.parts, self._threads = parts, max(1, torch.get_num_threads() // parts)
        self._model, self._parameters, self._where = model, list(parameters), where
        self._pool = ThreadPoolExecutor(parts, "part", self._start) if parts > 1 else None

    def add(self, x: Tensor, y: Tensor, targets: int) -> Tensor:
        """Sum of the losses of `x` and `y` (B, T), detached; gradients are those of that sum over `targets`."""
        if self._pool is None:
            loss = self._loss(x, y)
            (loss / max(targets, 1)).backward()
            return loss.detach()
        jobs = [self._pool.submit(self._part, *part, targets)
                for part in zip(x.tensor_split(self.parts), y.tensor_split(self.parts), strict=True) if len(part[0])]  # fmt: skip
        total = torch.zeros((), device=x.device)
        for job in jobs:
            loss, gradients = job.result()
            total = total + loss
            for parameter, gradient in zip(self._parameters, gradients, strict=True):
                if gradient is not None:
                    # a copy: two parameters may be handed the same memory
                    parameter.grad = gradient.clone() if parameter.grad is None else parameter.grad.add_(gradient)
        return total

    def close(self) -> None:
        """End the threads."""
        if self._pool is not None:
            self._pool.shutdown()

    def _start(self) -> None:
        torch.set_num_threads(self._threads)  # of the thread that calls it

    def _loss(self, x: Tensor, y: Tensor) -> Tensor:
        with self._where.autocast():
            loss, _ = self._model.loss(x, y)  # type: ignore[operator]
        return loss

    def _part(self, x: Tensor, y: Tensor, targets: int) -> tuple[Tensor, tuple[Tensor | None, ...]]:
        loss = self._loss(x, y)
        return loss.detach(), torch.autograd.grad(loss / max(targets, 1), self._parameters, allow_unused=True)


def parts_of(wanted: int, tokens: int, model: nn.Module, vocab_size: int, where: Runtime, compiled: bool) -> int:
    """As many parts as are wanted, where it pays and the model allows it in its present mode; else 1.

    `tokens` are those that one thread works on at a time.
    """
    work = 2 * sum(p.numel() for p in model.parameters()) * tokens
    pays = wanted > 1 and work >= WORTH and not compiled and where.device.type == "cpu"
    return wanted if pays and independent(model, vocab_size, where) else 1


def shared_out(threads: int) -> int:
    """Parts for so many threads: the largest divisor up to MOST_PARTS, so that each part gets as many."""
    return next(parts for parts in range(min(threads, MOST_PARTS), 0, -1) if threads % parts == 0)


@torch.no_grad()
def independent(model: nn.Module, vocab_size: int, where: Runtime) -> bool:
    """Whether a pass over two sequences gives what one over each gives, draws nothing and changes no buffer.

    Components of a user's own may do otherwise (dropout, statistics over the batch). The random state and the buffers
    are left as found.
    """
    length = min(PROBE, int(model.context_length))  # type: ignore[arg-type]
    ids = (torch.arange(2 * length) % vocab_size).view(2, length)
    buffers = {name: (buffer, buffer.clone()) for name, buffer in model.named_buffers()}
    with torch.random.fork_rng(devices=[]), where.autocast():
        before = torch.get_rng_state()
        together, apart = model(ids), torch.cat([model(ids[:1]), model(ids[1:])])
        drew = not torch.equal(before, torch.get_rng_state())
    changed = False
    for name, now in dict(model.named_buffers()).items():
        buffer, content = buffers[name]
        if now is not buffer or not torch.equal(buffer, content):
            changed = True
            room, _, key = name.rpartition(".")
            model.get_submodule(room)._buffers[key] = buffer.copy_(content)
    alike = bool((together - apart).abs().max() <= ALIKE * together.std())
    return alike and not drew and not changed
