"""Text to tokens on disk to batches. Numpy only: training moves the arrays to its device."""

from .batches import Batches, batch_hash
from .building import prepare
from .corpora import CORPORA, Split, corpus
from .token_data import TokenData, check_length, open_data
from .tokenizer import Tokenizer, load_tokenizer
from .tokens import open_tokens, write_tokens
from .windows import EvalWindows, eval_windows

__all__ = [
    "CORPORA",
    "Batches",
    "EvalWindows",
    "Split",
    "TokenData",
    "Tokenizer",
    "batch_hash",
    "check_length",
    "corpus",
    "eval_windows",
    "load_tokenizer",
    "open_data",
    "open_tokens",
    "prepare",
    "write_tokens",
]
