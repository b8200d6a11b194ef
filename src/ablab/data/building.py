"""From the config to token files that are ready: built once, shared by every run, found again by content."""

from __future__ import annotations

import hashlib
import json
import logging
import math
import os
import shutil
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock

from ..errors import UsageError
from .corpora import Split, read_corpus
from .token_data import FACTS, TOKENIZER, TokenData, open_data
from .tokenizer import Tokenizer, build_tokenizer, check_choice
from .tokens import write_tokens

log = logging.getLogger(__name__)
Progress = Callable[[int, int], None]  # characters done, characters in all

_FORMAT = 1  # part of the key: raise it when the same text and options would give other files


def prepare(cfg: Mapping[str, Any], cache_dir: Path, progress: Progress | None = None) -> TokenData:
    """Tokens of the corpus `cfg.choices.data` with the options `cfg.data`, built in `cache_dir` if new.

    The folder's name is made from the text itself and the tokenizer's options: a changed file gets a new
    folder. Several processes may call this at once; one builds and the others wait.

    Raises:
        UsageError: whatever is wrong with the options or the text; names the key or the file.
    """
    options = dict(cfg["data"])
    name = str(cfg["choices"]["data"])
    kind, vocab_size = str(options.get("tokenizer") or "char"), options.get("vocab_size")
    check_choice(kind, vocab_size)
    split = read_corpus(name, options)
    folder = Path(cache_dir) / "tokens" / f"{name}-{kind}-{_key(split, kind, vocab_size)[:16]}"
    if not folder.is_dir():
        _build_once(folder, split, {"corpus": name, "tokenizer": kind}, vocab_size, progress)
    data = open_data(folder)
    notes = (*split.notes, *data.notes)
    for note in notes:
        log.warning("data=%s: %s", name, note)
    return replace(data, facts={**data.facts, "held_out": split.held_out}, notes=notes)


def _key(split: Split, kind: str, vocab_size: int | None) -> str:
    digest = hashlib.sha256(json.dumps([_FORMAT, kind, vocab_size]).encode())
    for documents in (split.train, split.val):
        digest.update(b"%d documents;" % len(documents))
        for text in documents:
            raw = text.encode("utf-8")
            digest.update(b"%d bytes;" % len(raw))
            digest.update(raw)
    return digest.hexdigest()


def _build_once(
    folder: Path, split: Split, names: dict[str, str], vocab_size: int | None, progress: Progress | None
) -> None:
    try:
        folder.parent.mkdir(parents=True, exist_ok=True)
        with FileLock(folder.with_name(f"{folder.name}.lock"), mode=0o666):
            if folder.is_dir():
                return
            for stale in folder.parent.glob(f".{folder.name}.*"):  # of a build that was killed
                shutil.rmtree(stale)
            draft = folder.with_name(f".{folder.name}.{os.getpid()}")
            draft.mkdir()
            try:
                _build(draft, split, names, vocab_size, progress)
                draft.rename(folder)  # the folder is there whole or not at all
            except BaseException:
                shutil.rmtree(draft, ignore_errors=True)
                raise
    except OSError as error:
        raise UsageError(f"runs_dir: cannot write the token files to {folder.parent}: {error.strerror}") from error


def _build(
    folder: Path, split: Split, names: dict[str, str], vocab_size: int | None, progress: Progress | None
) -> None:
    tokenizer = build_tokenizer(names["tokenizer"], split.train, vocab_size)
    tokenizer.save(folder / TOKENIZER)
    total = sum(map(len, split.train)) + sum(map(len, split.val))
    done = 0

    def advance(characters: int) -> None:
        nonlocal done
        done += characters
        if progress is not None:
            progress(done, total)

    facts: dict[str, Any] = {**names, "vocab_size": tokenizer.vocab_size, "tokenizer_size": tokenizer.size}
    files, counts = {}, {}
    for part, documents in (("train", split.train), ("val", split.val)):
        counts[part] = np.zeros(tokenizer.size, np.int64)
        ids = _ids(tokenizer, documents, counts[part], advance)
        files[part] = write_tokens(folder / f"{part}.bin", ids, tokenizer.vocab_size)
        facts[part] = {
            "documents": len(documents),
            "characters": sum(map(len, documents)),
            "bytes": sum(len(text.encode("utf-8")) for text in documents),
            "tokens": files[part]["tokens"],
        }
    facts["unknown"] = 0 if tokenizer.unk_id is None else int(counts["val"][tokenizer.unk_id])
    facts["held_out"] = split.held_out
    facts["notes"] = _notes(tokenizer, split, facts["unknown"])
    facts["unigram_entropy"] = _unigram_entropy(counts["train"], counts["val"])
    content = [tokenizer.hash, files["train"], files["val"]]
    facts["hash"] = hashlib.sha256(json.dumps(content, sort_keys=True).encode()).hexdigest()
    (folder / FACTS).write_text(json.dumps(facts, indent=1), encoding="utf-8")


def _ids(
    tokenizer: Tokenizer, documents: list[str], counts: np.ndarray, advance: Callable[[int], None]
) -> Iterator[np.ndarray]:
    """Ids of the documents joined by eot, piece by piece; adds how often each occurs to `counts`."""
    for number, text in enumerate(documents):
        if number > 0:
            counts[tokenizer.eot_id] += 1
            yield np.array([tokenizer.eot_id])
        for piece in tokenizer.pieces(text):
            ids = tokenizer.encode_array(piece)
            counts += np.bincount(ids, minlength=len(counts))
            yield ids
            advance(len(piece))


def _notes(tokenizer: Tokenizer, split: Split, unknown: int) -> list[str]:
    notes = []
    if unknown:
        new = "".join(sorted(set().union(*split.val) - set().union(*split.train)))
        shown = f"{new[:20]!r}{'...' if len(new) > 20 else ''}"
        notes.append(f"{unknown} characters of the validation text never occur in training and became <unk>: {shown}")
    if tokenizer.kind == "bpe" and tokenizer.size < tokenizer.vocab_size:
        found, asked = tokenizer.size, tokenizer.vocab_size
        notes.append(f"the text gave {found} of data.vocab_size={asked} tokens; the rest is unused")
    return notes


def _unigram_entropy(train: np.ndarray, val: np.ndarray) -> float:
    if not val.sum():
        return 0.0
    surprise = math.log(train.sum() + len(train)) - np.log(train + 1)
    return float((val * surprise).sum() / val.sum())
