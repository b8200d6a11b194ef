"""Token files: ids as little-endian uint16 or uint32, and a JSON beside each that says what the bytes are."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from pathlib import Path
from typing import Any

import numpy as np

from ..errors import UsageError

_CHUNK = 1 << 24  # tokens looked at together when a file is checked


def token_dtype(vocab_size: int) -> str:
    """The narrowest of "uint16" and "uint32" that holds every id below `vocab_size`."""
    if not 0 < vocab_size <= 1 << 32:
        raise UsageError(f"data.vocab_size={vocab_size} is out of range: 1 to {1 << 32}")
    return "uint16" if vocab_size <= 1 << 16 else "uint32"


def describe_path(path: Path) -> Path:
    """The JSON beside a token file."""
    return path.with_name(path.name + ".json")


def write_tokens(path: Path, chunks: Iterable[np.ndarray], vocab_size: int) -> dict[str, Any]:
    """Write ids, given in pieces, to `path` and their description beside it; returns the description.

    Raises:
        UsageError: an id is negative or not below `vocab_size` (names file, id and size); ids are no
        integers.
    """
    path = Path(path)
    dtype = token_dtype(vocab_size)
    digest, count = hashlib.sha256(), 0
    with open(path, "wb") as file:
        for chunk in map(np.asarray, chunks):
            if chunk.size and chunk.dtype.kind not in "iu":
                raise UsageError(f"{path}: token ids must be integers, not {chunk.dtype}")
            _check_ids(path, chunk, vocab_size)
            raw = chunk.astype(np.dtype(dtype).newbyteorder("<")).tobytes()
            digest.update(raw)
            file.write(raw)
            count += chunk.size
    facts = {"dtype": dtype, "vocab_size": vocab_size, "tokens": count, "sha256": digest.hexdigest()}
    describe_path(path).write_text(json.dumps(facts), encoding="utf-8")
    return facts


def open_tokens(path: Path, vocab_size: int | None = None) -> np.ndarray:
    """Memory-map a token file, shape (tokens,), checked against its JSON in one pass over the bytes.

    Raises:
        UsageError: no description, another `vocab_size` or dtype than recorded, a size that is no whole
        number of
            tokens, an id outside the vocabulary (names file, id and size), or changed content.
    """
    path = Path(path)
    facts = _facts(path)
    if vocab_size is not None and facts["vocab_size"] != vocab_size:
        raise UsageError(f"{path} was written for a vocabulary of {facts['vocab_size']}, not of {vocab_size}")
    if facts["dtype"] != token_dtype(facts["vocab_size"]):
        raise UsageError(
            f"{path} is recorded as {facts['dtype']}, but a vocabulary of {facts['vocab_size']} is stored as "
            f"{token_dtype(facts['vocab_size'])}"
        )
    dtype = np.dtype(facts["dtype"]).newbyteorder("<")
    size = path.stat().st_size
    if size != facts["tokens"] * dtype.itemsize:
        part = f", no multiple of {dtype.itemsize}" if size % dtype.itemsize else ""
        raise UsageError(
            f"{path} holds {size} bytes{part}; {facts['tokens']} tokens of {facts['dtype']} take "
            f"{facts['tokens'] * dtype.itemsize}"
        )
    if size == 0:  # nothing to map
        return np.zeros(0, dtype)
    tokens = np.memmap(path, dtype=dtype, mode="r")
    digest = hashlib.sha256()
    for start in range(0, len(tokens), _CHUNK):
        chunk = np.asarray(tokens[start : start + _CHUNK])
        _check_ids(path, chunk, facts["vocab_size"])
        digest.update(chunk.data)
    if digest.hexdigest() != facts["sha256"]:
        raise UsageError(f"{path} has changed since it was written; delete its folder to have it built again")
    return tokens


def _facts(path: Path) -> dict[str, Any]:
    try:
        facts = json.loads(describe_path(path).read_text(encoding="utf-8"))
        known = {"dtype": str, "vocab_size": int, "tokens": int, "sha256": str}
        if all(isinstance(facts[key], kind) for key, kind in known.items()) and path.is_file():
            return facts
    except (OSError, ValueError, KeyError, TypeError) as error:
        raise UsageError(f"{path} has no readable description beside it ({describe_path(path).name})") from error
    raise UsageError(f"{path} is missing, or its description {describe_path(path).name} is damaged")


def _check_ids(path: Path, ids: np.ndarray, vocab_size: int) -> None:
    if not ids.size:
        return
    for extreme in (int(ids.max()), int(ids.min())):
        if not 0 <= extreme < vocab_size:
            raise UsageError(
                f"{path} holds token id {extreme}, outside the vocabulary of {vocab_size} (0 to {vocab_size - 1})"
            )
