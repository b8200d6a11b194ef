"""A prepared corpus as training sees it, opened from the folder that building.py made."""

from __future__ import annotations

import json
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError
from .tokenizer import Tokenizer, load_tokenizer
from .tokens import open_tokens
from .windows import check_window

FACTS, TOKENIZER = "data.json", "tokenizer.json"  # files of the folder, beside train.bin and val.bin


@dataclass(frozen=True)
class TokenData:
    """A prepared corpus.

    train, val: ids, memory-mapped, shape (tokens,), documents joined by eot. val_bytes, train_bytes: UTF-8
    bytes of the text. hash: hex, of tokens, tokenizer and split. unigram_entropy: nats per validation token
    of the best guess without context, the training frequencies (plus one, so that an unseen token has some).
    """

    train: np.ndarray
    val: np.ndarray
    tokenizer: Tokenizer
    hash: str
    train_bytes: int
    val_bytes: int
    unigram_entropy: float
    folder: Path
    facts: dict[str, Any]
    notes: tuple[str, ...] = ()

    @property
    def vocab_size(self) -> int:
        return self.tokenizer.vocab_size

    def describe(self) -> dict[str, Any]:
        """Names, sizes and what was held out, as JSON."""
        return {
            **self.facts,
            "hash": self.hash,
            "unigram_entropy": self.unigram_entropy,
            "notes": list(self.notes),
        }


def open_data(folder: Path) -> TokenData:
    """Open the folder that `prepare` built, checking its files; the source text is not needed any more."""
    folder = Path(folder)
    try:
        facts = json.loads((folder / FACTS).read_text(encoding="utf-8"))
    except (OSError, ValueError) as error:
        raise UsageError(f"{folder} holds no prepared data; delete it to have it built again") from error
    tokenizer = load_tokenizer(folder / TOKENIZER)
    return TokenData(
        train=open_tokens(folder / "train.bin", tokenizer.vocab_size),
        val=open_tokens(folder / "val.bin", tokenizer.vocab_size),
        tokenizer=tokenizer,
        hash=facts.pop("hash"),
        train_bytes=facts["train"]["bytes"],
        val_bytes=facts["val"]["bytes"],
        unigram_entropy=facts.pop("unigram_entropy"),
        folder=folder,
        notes=tuple(facts.pop("notes")),
        facts=facts,
    )


def check_length(data: TokenData, context_length: int) -> None:
    """A UsageError, naming the split and the tokens found and needed, unless both splits hold one window."""
    for split, tokens in (("training", data.train), ("validation", data.val)):
        check_window(len(tokens), context_length, f"the {split} split of {data.facts['corpus']}")
