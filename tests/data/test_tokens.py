"""Token files: no id wraps, and a file that is not what its description says is refused."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ablab.data.tokens import describe_path, open_tokens, token_dtype, write_tokens
from ablab.errors import UsageError


@pytest.mark.parametrize(
    ("ids", "vocab_size", "dtype"),
    [
        ([0, 65535], 65536, "uint16"),
        ([0, 65535, 65536, 70000], 70001, "uint32"),
        ([0, 65536], 65537, "uint32"),
        ([2**32 - 1], 2**32, "uint32"),
        ([0], 1, "uint16"),
    ],
)
def test_round_trip_at_the_edges_of_the_types(tmp_path, ids, vocab_size, dtype):
    path = tmp_path / "x.bin"
    facts = write_tokens(path, [np.array(ids[:1]), np.array(ids[1:])], vocab_size)
    assert facts["dtype"] == dtype == json.loads(describe_path(path).read_text())["dtype"]
    tokens = open_tokens(path, vocab_size)
    assert tokens.tolist() == ids and tokens.dtype == np.dtype(dtype)
    assert isinstance(tokens, np.memmap) and not tokens.flags.writeable


@pytest.mark.parametrize(("bad", "vocab_size"), [(65536, 65536), (70000, 65536), (-1, 100), (60, 60)])
def test_an_id_outside_the_vocabulary_is_not_written(tmp_path, bad, vocab_size):
    with pytest.raises(UsageError, match=rf"x\.bin holds token id {bad}, .*vocabulary of {vocab_size} "):
        write_tokens(tmp_path / "x.bin", [np.array([0, bad, 1])], vocab_size)


def test_ids_that_are_no_integers_are_not_written(tmp_path):
    with pytest.raises(UsageError, match="integers, not float64"):
        write_tokens(tmp_path / "x.bin", [np.array([1.5])], 10)


def test_an_empty_file_is_an_empty_array(tmp_path):
    write_tokens(tmp_path / "x.bin", [], 10)
    assert open_tokens(tmp_path / "x.bin", 10).shape == (0,)


@pytest.fixture
def written(tmp_path):
    path = tmp_path / "x.bin"
    write_tokens(path, [np.arange(60)], 65)
    return path


def rewrite(path, **changes):
    facts = json.loads(describe_path(path).read_text())
    describe_path(path).write_text(json.dumps({**facts, **changes}))


def test_an_id_put_into_the_file_later_is_named(written):
    ids = np.arange(60, dtype="<u2")
    ids[7] = 999
    written.write_bytes(ids.tobytes())
    with pytest.raises(UsageError, match=r"x\.bin holds token id 999, outside the vocabulary of 65"):
        open_tokens(written)


def test_another_vocabulary_than_the_files_is_refused(written):
    with pytest.raises(UsageError, match=r"x\.bin was written for a vocabulary of 65, not of 60"):
        open_tokens(written, 60)


@pytest.mark.parametrize(("extra", "said"), [(b"\x00", "no multiple of 2"), (b"\x00\x00", "122 bytes; 60 tokens")])
def test_a_size_that_does_not_fit_the_description_is_refused(written, extra, said):
    with open(written, "ab") as file:
        file.write(extra)
    with pytest.raises(UsageError, match=said):
        open_tokens(written)


def test_the_recorded_dtype_must_fit_vocabulary_and_file(written):
    rewrite(written, dtype="uint32")
    with pytest.raises(UsageError, match="recorded as uint32, but a vocabulary of 65 is stored as uint16"):
        open_tokens(written)
    rewrite(written, dtype="uint32", vocab_size=70001)
    with pytest.raises(UsageError, match="holds 120 bytes; 60 tokens of uint32 take 240"):
        open_tokens(written)


def test_changed_content_is_noticed_though_every_id_is_valid(written):
    written.write_bytes(np.arange(60, dtype="<u2")[::-1].tobytes())
    with pytest.raises(UsageError, match="has changed since it was written"):
        open_tokens(written)


@pytest.mark.parametrize("damage", ["{", "{}", "[]", '{"dtype": 1, "vocab_size": 1, "tokens": 1, "sha256": ""}'])
def test_a_damaged_description_is_refused(written, damage):
    describe_path(written).write_text(damage)
    with pytest.raises(UsageError, match="description"):
        open_tokens(written)


def test_a_missing_file_or_description_is_refused(written):
    content = written.read_bytes()
    written.unlink()
    with pytest.raises(UsageError, match=r"x\.bin is missing"):
        open_tokens(written)
    written.write_bytes(content)
    describe_path(written).unlink()
    with pytest.raises(UsageError, match=r"no readable description beside it \(x\.bin\.json\)"):
        open_tokens(written)


@pytest.mark.parametrize("size", [0, -1, 2**32 + 1])
def test_a_vocabulary_that_no_file_can_hold_is_refused(size):
    with pytest.raises(UsageError, match=r"data\.vocab_size"):
        token_dtype(size)
