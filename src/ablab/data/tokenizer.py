"""Text to ids and back: characters or bytes here, byte pairs in bpe.py.

Every tokenizer has an id for the end of a document. Text is only text: "<|endoftext|>" written in it is
thirteen characters, not the id. `vocab_size` may exceed `size`, the ids in use: the rest is padding.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import numpy as np

from ..errors import UsageError, unknown

EOT = "<|endoftext|>"
REPLACEMENT = "\ufffd"


class Tokenizer:
    """What the three kinds share. Ids are 0 .. vocab_size - 1; `unk_id` is None where every text has ids."""

    kind: ClassVar[str]
    unk_id: int | None = None

    def __init__(self, size: int, eot_id: int, vocab_size: int | None) -> None:
        if vocab_size is not None and vocab_size < size:
            raise UsageError(
                f"data.vocab_size={vocab_size} is too small: the {self.kind} tokenizer of this text has ids "
                f"up to {size - 1}; leave it null or give at least {size}"
            )
        self.size = size
        self.eot_id = eot_id
        self.vocab_size = size if vocab_size is None else vocab_size

    def encode_array(self, text: str) -> np.ndarray:
        """Ids of a text, int64 of shape (tokens,)."""
        raise NotImplementedError

    def _decode(self, ids: list[int]) -> str:
        """Text of ids below `size`, none of them eot."""
        raise NotImplementedError

    def state(self) -> dict[str, Any]:
        """What `load_tokenizer` needs, as JSON."""
        raise NotImplementedError

    def pieces(self, text: str, length: int = 1 << 20) -> Iterator[str]:
        """A long text in pieces of about `length` characters that encode to the same ids as the whole."""
        for start in range(0, len(text), length):
            yield text[start : start + length]

    def encode(self, text: str) -> list[int]:
        return self.encode_array(text).tolist()

    def decode(self, ids: Iterable[int]) -> str:
        """Text of ids; eot reads "<|endoftext|>", an id that is padding or no whole character U+FFFD.

        Raises:
            UsageError: an id is negative or not below `vocab_size`.
        """
        text: list[str] = []
        run: list[int] = []
        for id_ in map(int, ids):
            if not 0 <= id_ < self.vocab_size:
                raise UsageError(
                    f"token id {id_} is outside the vocabulary of {self.vocab_size} ({self.kind} tokenizer)"
                )
            if id_ == self.eot_id or id_ >= self.size:
                text += [self._decode(run), EOT if id_ == self.eot_id else REPLACEMENT]
                run = []
            else:
                run.append(id_)
        return "".join([*text, self._decode(run)])

    @property
    def hash(self) -> str:
        """Hex sha256 of the state: equal for equal tokenizers, on any machine."""
        return hashlib.sha256(json.dumps(self.state(), sort_keys=True).encode()).hexdigest()

    def save(self, path: Path) -> None:
        Path(path).write_text(json.dumps(self.state(), indent=0), encoding="utf-8")


class CharTokenizer(Tokenizer):
    """One id a character of the training text, in order of code points; then eot, and unk for all others."""

    kind = "char"

    def __init__(self, characters: Iterable[str], vocab_size: int | None = None) -> None:
        self.characters = "".join(sorted(set(characters)))
        count = len(self.characters)
        super().__init__(count + 2, eot_id=count, vocab_size=vocab_size)
        self.unk_id = count + 1
        points = np.array([ord(c) for c in self.characters], dtype=np.int64)
        self._table = np.full(int(points.max(initial=-1)) + 2, self.unk_id, dtype=np.int64)  # last: any above
        self._table[points] = np.arange(count)

    def encode_array(self, text: str) -> np.ndarray:
        points = np.frombuffer(text.encode("utf-32-le", "surrogatepass"), dtype="<u4")
        return self._table[np.minimum(points, len(self._table) - 1)]

    def _decode(self, ids: list[int]) -> str:
        return "".join(REPLACEMENT if id_ == self.unk_id else self.characters[id_] for id_ in ids)

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "characters": self.characters, "vocab_size": self.vocab_size}


class ByteTokenizer(Tokenizer):
    """The 256 bytes of UTF-8 and eot."""

    kind = "byte"

    def __init__(self, vocab_size: int | None = None) -> None:
        super().__init__(257, eot_id=256, vocab_size=vocab_size)

    def encode_array(self, text: str) -> np.ndarray:
        return np.frombuffer(text.encode("utf-8", "surrogateescape"), dtype=np.uint8).astype(np.int64)

    def _decode(self, ids: list[int]) -> str:
        return bytes(ids).decode("utf-8", "replace")

    def state(self) -> dict[str, Any]:
        return {"kind": self.kind, "vocab_size": self.vocab_size}


KINDS = ("char", "byte", "bpe")


def check_choice(kind: str, vocab_size: int | None) -> None:
    """A UsageError for an unknown `data.tokenizer` or a `data.vocab_size` that no tokenizer could have."""
    if kind not in KINDS:
        raise unknown("tokenizer: data.tokenizer =", str(kind), KINDS)
    whole = isinstance(vocab_size, int) and not isinstance(vocab_size, bool)
    if vocab_size is not None and not (whole and 1 <= vocab_size <= 1 << 32):
        raise UsageError(f"data.vocab_size={vocab_size} must be null or a whole number from 1 to {1 << 32}")


def build_tokenizer(kind: str, train: list[str], vocab_size: int | None) -> Tokenizer:
    """The tokenizer `data.tokenizer=kind`, made from the training documents alone."""
    check_choice(kind, vocab_size)
    if kind == "char":
        return CharTokenizer(set().union(*train), vocab_size)
    if kind == "byte":
        return ByteTokenizer(vocab_size)
    from .bpe import train_bpe

    return train_bpe(train, vocab_size)


def load_tokenizer(path: Path) -> Tokenizer:
    """The tokenizer that `save` wrote; a UsageError when the file is something else."""
    try:
        state = json.loads(Path(path).read_text(encoding="utf-8"))
        kind = state["kind"]
        if kind == "char":
            return CharTokenizer(state["characters"], state["vocab_size"])
        if kind == "byte":
            return ByteTokenizer(state["vocab_size"])
        if kind == "bpe":
            from .bpe import BPETokenizer

            return BPETokenizer(state["tokens"], state["merges"], state["vocab_size"])
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} is no tokenizer file: {error}") from error
    raise UsageError(f"{path} is no tokenizer file: unknown kind {kind!r}")
