"""Training batches as a pure function of (seed, step), so that a run resumes anywhere with the same text."""

from __future__ import annotations

import hashlib

import numpy as np

from ..errors import UsageError, unknown
from .windows import EvalWindows, check_window, gather

ORDERS = ("shuffled", "sequential")
_REMEMBERED = 4  # epochs whose order is kept


class Batches:
    """Windows of `context_length` tokens, `sequences_per_step` of them a step.

    shuffled: each epoch has the same number of windows that do not overlap, begins at an offset of its own
    and goes through them in an order of its own, both drawn from (seed, epoch). An epoch is at most one
    window short of the whole text, and the offset moves what is left out.
    sequential: windows in the order of the text, each token after the first a target once an epoch; no seed.

    Steps run on across epochs: step i holds windows i * sequences_per_step onwards of one endless sequence.
    """

    def __init__(
        self,
        tokens: np.ndarray,
        context_length: int,
        sequences_per_step: int,
        seed: int = 0,
        order: str = "shuffled",
    ) -> None:
        if order not in ORDERS:
            raise unknown("order: data.order =", str(order), ORDERS)
        if sequences_per_step < 1:
            raise UsageError(f"train.batch_size x train.grad_accum = {sequences_per_step} is out of range: at least 1")
        if seed < 0:
            raise UsageError(f"seeds.data={seed} is out of range: at least 0")
        check_window(len(tokens), context_length, "the training split")
        self.context_length = context_length
        self.sequences_per_step = sequences_per_step
        self.seed = seed
        self.order = order
        self._tokens = np.asarray(tokens)  # without numpy.memmap's slower indexing
        self._span = np.arange(context_length + 1)
        self._in_order = EvalWindows(tokens, context_length) if order == "sequential" else None
        # One window is given up for the offset wherever there is more than one.
        shuffled = max(1, (len(tokens) - context_length) // context_length)
        self.windows_per_epoch = len(self._in_order) if self._in_order is not None else shuffled
        self._epochs: dict[int, np.ndarray] = {}

    def step(self, i: int) -> tuple[np.ndarray, np.ndarray]:
        """Inputs and targets of step `i` (0-based), int64 of shape (sequences_per_step, context_length)."""
        if i < 0:
            raise IndexError(f"step {i} is negative")
        number = np.arange(i * self.sequences_per_step, (i + 1) * self.sequences_per_step)
        epoch, place = np.divmod(number, self.windows_per_epoch)
        if self._in_order is not None:
            return self._in_order[place]
        first, last = int(epoch[0]), int(epoch[-1])
        if first == last:
            starts = self._starts(first)[place]
        else:
            starts = np.concatenate([self._starts(e)[place[epoch == e]] for e in range(first, last + 1)])
        return gather(self._tokens, starts, self._span)

    def _starts(self, epoch: int) -> np.ndarray:
        """First token of every window of an epoch, in the order they are used."""
        if epoch not in self._epochs:
            while len(self._epochs) >= _REMEMBERED:
                self._epochs.pop(next(iter(self._epochs)))
            # Raw output of a bit generator is the only stream that numpy promises to keep between versions.
            draws = np.random.PCG64(np.random.SeedSequence([self.seed, epoch])).random_raw(self.windows_per_epoch + 1)
            slack = len(self._tokens) - 1 - self.windows_per_epoch * self.context_length
            offset = int(draws[-1]) % (min(slack, self.context_length - 1) + 1)
            self._epochs[epoch] = offset + self.context_length * np.argsort(draws[:-1], kind="stable")
        return self._epochs[epoch]


def batch_hash(previous: str, x: np.ndarray, y: np.ndarray) -> str:
    """Running sha256 (hex) over the token ids trained on; start with "" and give whole steps.

    Hashes the inputs and the last target of each sequence, (sequences, T) as little-endian uint32: the same
    on every machine, and for every split of the step into micro-batches.
    """
    ids = np.concatenate([x, y[:, -1:]], axis=1).astype("<u4")
    return hashlib.sha256(previous.encode("ascii") + ids.tobytes()).hexdigest()
