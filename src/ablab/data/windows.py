"""Fixed windows over a token stream: each token after the first is a target exactly once."""

from __future__ import annotations

from collections.abc import Iterator

import numpy as np

from ..errors import UsageError

IGNORE = -100  # target that no loss counts


def check_window(tokens: int, context_length: int, what: str) -> None:
    """A UsageError unless `tokens` hold one window: `context_length` inputs and the token after the last."""
    if context_length < 1:
        raise UsageError(f"model.context_length={context_length} is out of range: at least 1")
    if tokens < context_length + 1:
        raise UsageError(
            f"{what} has {tokens} tokens, but model.context_length={context_length} needs at least {context_length + 1}"
        )


class EvalWindows:
    """Windows of `context_length` in order; the last is shifted back and ignores the targets already covered.

    `windows[k]` is a pair of int64 arrays (context_length,), `windows[a:b]` of (n, context_length): inputs
    and targets, y[i] the token after x[i] or -100. `len`, iteration and slices work as for a list.
    """

    def __init__(self, tokens: np.ndarray, context_length: int) -> None:
        check_window(len(tokens), context_length, "the token stream")
        self._tokens = np.asarray(tokens)
        self._span = np.arange(context_length + 1)
        targets = len(tokens) - 1
        count = -(-targets // context_length)
        self.context_length = context_length
        self.overlap = count * context_length - targets  # targets of the last window that the one before has
        self.starts = np.minimum(np.arange(count) * context_length, targets - context_length)

    def __len__(self) -> int:
        return len(self.starts)

    def __getitem__(self, key: int | slice | np.ndarray) -> tuple[np.ndarray, np.ndarray]:
        starts = self.starts[key]
        x, y = gather(self._tokens, np.atleast_1d(starts), self._span)
        if self.overlap:
            y[np.atleast_1d(starts) == self.starts[-1], : self.overlap] = IGNORE
        return (x[0], y[0]) if np.ndim(starts) == 0 else (x, y)

    def __iter__(self) -> Iterator[tuple[np.ndarray, np.ndarray]]:
        return (self[k] for k in range(len(self)))


def eval_windows(tokens: np.ndarray, context_length: int) -> EvalWindows:
    """The windows that validation runs over; see `EvalWindows`."""
    return EvalWindows(tokens, context_length)


def gather(tokens: np.ndarray, starts: np.ndarray, span: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Inputs and targets, int64 (len(starts), len(span) - 1), of the windows that begin at `starts`."""
    block = tokens[starts[:, None] + span].astype(np.int64)
    return block[:, :-1].copy(), block[:, 1:].copy()  # apart: masking a target must not touch an input
