"""Characters and bytes: round trips, unknown characters, vocabularies that are too small."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablab.data.tokenizer import (
    EOT,
    REPLACEMENT,
    ByteTokenizer,
    CharTokenizer,
    build_tokenizer,
    load_tokenizer,
)
from ablab.errors import UsageError

texts = st.text(st.characters(exclude_categories=["Cs"]), max_size=60)


@given(texts)
def test_round_trip(text):
    for tokenizer in (CharTokenizer(text), ByteTokenizer()):
        ids = tokenizer.encode(text)
        assert all(isinstance(id_, int) and 0 <= id_ < tokenizer.eot_id for id_ in ids)
        assert tokenizer.decode(ids) == text


def test_ids_are_in_order_of_code_points_whatever_the_order_of_the_text():
    tokenizer = CharTokenizer("b😀aé漢a")
    assert tokenizer.encode("abé漢😀") == [0, 1, 2, 3, 4]
    assert (tokenizer.eot_id, tokenizer.unk_id, tokenizer.vocab_size) == (5, 6, 7)
    assert CharTokenizer("éa漢b😀").hash == tokenizer.hash


def test_a_character_never_trained_on_is_unknown():
    tokenizer = CharTokenizer("ab")
    assert tokenizer.encode("a\x00c\U0010ffff\udc92b") == [0, 3, 3, 3, 3, 1]
    assert tokenizer.decode([0, 3, 1]) == f"a{REPLACEMENT}b"
    assert CharTokenizer("").encode("x") == [1]


def test_end_of_text_is_an_id_and_never_a_piece_of_text():
    for tokenizer in (CharTokenizer(EOT), ByteTokenizer()):
        assert tokenizer.eot_id not in tokenizer.encode(EOT)
        assert tokenizer.decode([*tokenizer.encode("e"), tokenizer.eot_id]) == "e" + EOT


def test_bytes_split_between_tokens_decode_together():
    assert ByteTokenizer().decode("é".encode()) == "é"
    assert ByteTokenizer().decode([0xC3, 256, 0xA9]) == f"{REPLACEMENT}{EOT}{REPLACEMENT}"


@pytest.mark.parametrize("kind", ["char", "byte"])
def test_a_vocabulary_may_be_padded_but_not_too_small(kind):
    train = ["".join(chr(65 + i) for i in range(63))]  # 63 characters, eot and unk: 65 ids
    size = {"char": 65, "byte": 257}[kind]
    padded = build_tokenizer(kind, train, size + 35)
    assert (padded.size, padded.vocab_size) == (size, size + 35)
    assert padded.decode([0, size + 34, 0])[1:-1] == REPLACEMENT
    assert build_tokenizer(kind, train, size).vocab_size == size
    with pytest.raises(UsageError, match=rf"data\.vocab_size=60 .* {kind} .* up to {size - 1}.*least {size}"):
        build_tokenizer(kind, train, 60)


@pytest.mark.parametrize("bad", [-1, 7, 999])
def test_an_id_outside_the_vocabulary_is_named(bad):
    with pytest.raises(UsageError, match=rf"token id {bad} .*vocabulary of 7"):
        CharTokenizer("abcde").decode([0, bad])


@pytest.mark.parametrize("tokenizer", [CharTokenizer("é漢😀\n", 99), ByteTokenizer(300)])
def test_save_and_load(tmp_path, tokenizer):
    tokenizer.save(tmp_path / "t.json")
    loaded = load_tokenizer(tmp_path / "t.json")
    assert loaded.state() == tokenizer.state() and loaded.hash == tokenizer.hash
    assert loaded.encode("é漢") == tokenizer.encode("é漢")


@pytest.mark.parametrize(
    "content", ["", "[]", "{}", '{"kind": "word"}', '{"kind": "char"}', '{"kind": "byte", "vocab_size": 5}']
)
def test_a_file_that_is_no_tokenizer_is_refused(tmp_path, content):
    (tmp_path / "t.json").write_text(content)
    with pytest.raises(UsageError, match=r"t\.json is no tokenizer file"):
        load_tokenizer(tmp_path / "t.json")


def test_wrong_choices_are_refused():
    with pytest.raises(UsageError, match=r"data\.tokenizer = 'chars'.*did you mean 'char'.*bpe, byte, char"):
        build_tokenizer("chars", ["a"], None)
    for bad in (0, -5, 2**33, 2.5, "12", True):
        with pytest.raises(UsageError, match=r"data\.vocab_size="):
            build_tokenizer("char", ["a"], bad)
