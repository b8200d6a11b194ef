"""Byte-level byte pair encoding (Sennrich et al. 2016, arXiv:1508.07909), learned and run by `tokenizers`."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import Any

import numpy as np
from tokenizers import Tokenizer as Engine
from tokenizers import decoders, models, pre_tokenizers, trainers

from ..errors import UsageError
from .tokenizer import Tokenizer

_SMALLEST = 257  # the bytes and eot
_PIECE = 1 << 16
# Words are found by a pattern that looks at most one character ahead, at white space only, and never behind:
# a text may be cut before a space or line break that follows a visible character without changing any word.
_CUT = re.compile(r"(?<=\S)[ \n]")


class BPETokenizer(Tokenizer):
    """Ids: the 256 bytes, then the merges in order of learning, then eot. Every text has ids."""

    kind = "bpe"

    def __init__(self, tokens: Sequence[str], merges: Iterable[Sequence[str]], vocab_size: int | None = None) -> None:
        super().__init__(len(tokens) + 1, eot_id=len(tokens), vocab_size=vocab_size)
        self.tokens = list(tokens)
        self.merges = [(left, right) for left, right in merges]
        self._engine = _engine(models.BPE({token: id_ for id_, token in enumerate(self.tokens)}, self.merges))

    def encode_array(self, text: str) -> np.ndarray:
        pieces = list(self.pieces(_valid(text), _PIECE))
        ids = [encoding.ids for encoding in self._engine.encode_batch_fast(pieces, add_special_tokens=False)]
        return np.concatenate([np.zeros(0, np.int64), *(np.array(part, np.int64) for part in ids)])

    def _decode(self, ids: list[int]) -> str:
        return self._engine.decode(ids) if ids else ""

    def pieces(self, text: str, length: int = 1 << 20) -> Iterator[str]:
        start = 0
        while start < len(text):
            cut = _CUT.search(text, min(start + length, len(text)))
            stop = cut.start() if cut else len(text)
            yield text[start:stop]
            start = stop

    def state(self) -> dict[str, Any]:
        return {
            "kind": self.kind,
            "tokens": self.tokens,
            "merges": [list(pair) for pair in self.merges],
            "vocab_size": self.vocab_size,
        }


def train_bpe(train: list[str], vocab_size: int | None) -> BPETokenizer:
    """Learn merges (pairs seen twice or more) from the training documents; `vocab_size` counts eot too.

    A short text gives fewer; the vocabulary keeps the size that was asked for, its last ids unused.

    Raises:
        UsageError: `vocab_size` is not given or below 257.
    """
    if vocab_size is None:
        raise UsageError("data.tokenizer=bpe needs data.vocab_size, for example data.vocab_size=4096")
    if vocab_size < _SMALLEST:
        raise UsageError(
            f"data.vocab_size={vocab_size} is too small: data.tokenizer=bpe needs at least {_SMALLEST}, "
            "the bytes and end of text"
        )
    engine = _engine(models.BPE())
    trainer = trainers.BpeTrainer(
        vocab_size=vocab_size - 1,
        min_frequency=2,
        initial_alphabet=pre_tokenizers.ByteLevel.alphabet(),
        special_tokens=[],
        show_progress=False,
    )
    bare = BPETokenizer(sorted(pre_tokenizers.ByteLevel.alphabet()), [])
    engine.train_from_iterator((part for text in train for part in bare.pieces(_valid(text), _PIECE)), trainer)
    learned = engine.get_vocab()
    merges = json.loads(engine.to_str())["model"]["merges"]
    return BPETokenizer(sorted(learned, key=learned.__getitem__), merges, vocab_size)


def _engine(model: Any) -> Engine:
    engine = Engine(model)
    engine.pre_tokenizer = pre_tokenizers.ByteLevel(add_prefix_space=False, use_regex=True)
    engine.decoder = decoders.ByteLevel()
    return engine


def _valid(text: str) -> str:
    """A command line that was not UTF-8 brings lone surrogates, which the engine refuses."""
    return text.encode("utf-8", "surrogatepass").decode("utf-8", "replace")
