"""Byte pairs: learned from training text alone, the same every time, exact for every text."""

from __future__ import annotations

import os
import subprocess
import sys

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablab.data.bpe import BPETokenizer, train_bpe
from ablab.data.tokenizer import EOT, REPLACEMENT, load_tokenizer
from ablab.errors import UsageError

TEXT = "the quick brown fox jumps over the lazy dog; the dogs' quickness isn't lazy.\n" * 30
TOKENIZER = train_bpe([TEXT], 290)
SPACED = train_bpe(["a \n  b\n\n\n\tc    d \n\n\n e's  \t f" * 20], 290)  # merges white space of several kinds

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)
gaps = st.text(st.sampled_from("a  \n\n\t"), max_size=30)
spaced = gaps | st.text(st.sampled_from("ab' \n\t\r\x1c\u00a0\u3000é1.s"), max_size=80)


@given(texts | spaced)
def test_every_text_comes_back(text):
    ids = TOKENIZER.encode(text)
    assert all(0 <= id_ < TOKENIZER.eot_id for id_ in ids)
    assert TOKENIZER.decode(ids) == text


@given(texts | spaced, st.integers(1, 20))
@settings(max_examples=300)
def test_pieces_give_the_ids_of_the_whole(text, length):
    for tokenizer in (TOKENIZER, SPACED):
        pieces = list(tokenizer.pieces(text, length))
        assert "".join(pieces) == text
        assert [id_ for piece in pieces for id_ in tokenizer.encode(piece)] == tokenizer.encode(text)


def test_merges_are_learned_and_the_vocabulary_has_the_size_asked_for():
    assert (TOKENIZER.vocab_size, TOKENIZER.size, TOKENIZER.eot_id) == (290, 290, 289)
    assert len(TOKENIZER.merges) == 290 - 257
    assert len(TOKENIZER.encode(TEXT)) < len(TEXT) / 2


def test_a_short_text_leaves_ids_unused():
    tokenizer = train_bpe(["aaaa aaaa"], 400)
    assert tokenizer.vocab_size == 400 and 257 < tokenizer.size < 270
    assert tokenizer.decode([tokenizer.eot_id, 399]) == EOT + REPLACEMENT
    assert train_bpe([], 257).encode("é") != []


def test_end_of_text_written_in_the_text_is_text():
    ids = TOKENIZER.encode(f"a{EOT}b")
    assert TOKENIZER.eot_id not in ids and TOKENIZER.decode(ids) == f"a{EOT}b"
    assert TOKENIZER.decode([TOKENIZER.eot_id, *TOKENIZER.encode("the")]) == EOT + "the"


def test_a_command_line_that_was_not_utf8_is_encoded_all_the_same():
    assert TOKENIZER.decode(TOKENIZER.encode("a\udc92")).startswith("a" + REPLACEMENT)


def test_save_and_load(tmp_path):
    TOKENIZER.save(tmp_path / "t.json")
    loaded = load_tokenizer(tmp_path / "t.json")
    assert isinstance(loaded, BPETokenizer)
    assert loaded.hash == TOKENIZER.hash and loaded.encode(TEXT) == TOKENIZER.encode(TEXT)


@pytest.mark.parametrize("threads", ["1", "4"])
def test_learning_is_the_same_in_another_process(threads):
    code = (
        "from ablab.data.bpe import train_bpe\n"
        f"print(train_bpe([{TEXT!r}], 290).hash, train_bpe([{TEXT!r} * 3, 'zebra zebra'], 290).hash)"
    )
    environment = {**os.environ, "RAYON_NUM_THREADS": threads, "PYTHONHASHSEED": threads}
    out = subprocess.run([sys.executable, "-c", code], env=environment, capture_output=True, text=True)
    assert out.stdout.split() == [TOKENIZER.hash, train_bpe([TEXT * 3, "zebra zebra"], 290).hash], out.stderr


def test_too_small_a_vocabulary_is_refused():
    with pytest.raises(UsageError, match=r"data\.vocab_size=256 .*at least 257"):
        train_bpe([TEXT], 256)
    with pytest.raises(UsageError, match=r"bpe needs data\.vocab_size"):
        train_bpe([TEXT], None)
