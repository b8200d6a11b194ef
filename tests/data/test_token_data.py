"""Opening prepared data, and texts that are too short for a window."""

from __future__ import annotations

import json

import numpy as np
import pytest

from ablab.data import check_length, open_data, prepare
from ablab.errors import UsageError


def data_of(tmp_path, text, **options):
    path = tmp_path / "a.txt"
    path.write_text(text)
    cfg = {"choices": {"data": "text"}, "data": {"path": str(path), "tokenizer": "char", **options}}
    return prepare(cfg, tmp_path / "cache")


@pytest.mark.parametrize(
    ("characters", "fraction", "split", "found"),
    [
        (0, 0.1, "training", 0),
        (1, 0.1, "training", 1),
        (10, 0.1, "training", 9),
        (90, 0.1, "validation", 9),
        (95, 0.1, "validation", 9),
        (32, 0.5, "training", 16),
        (33, 0.5, "validation", 16),
        (100, 0.9, "training", 10),
    ],
)
@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_a_text_shorter_than_a_window_names_split_found_and_needed(
    tmp_path, characters, fraction, split, found, tokenizer
):
    data = data_of(tmp_path, "x" * characters, val_fraction=fraction, tokenizer=tokenizer)
    message = rf"the {split} split of text has {found} tokens, .*context_length=16 needs at least 17"
    with pytest.raises(ValueError, match=message):
        check_length(data, 16)


def test_context_and_one_more_token_is_enough(tmp_path):
    data = data_of(tmp_path, "xy" * 17, val_fraction=0.5)
    assert len(data.train) == len(data.val) == 17
    check_length(data, 16)


def test_an_empty_text_is_prepared_and_has_no_entropy(tmp_path):
    data = data_of(tmp_path, "")
    assert len(data.train) == len(data.val) == 0 and data.unigram_entropy == 0.0


def test_the_folder_alone_is_enough(tmp_path):
    data = data_of(tmp_path, "some text, and more\n" * 20)
    (tmp_path / "a.txt").unlink()
    again = open_data(data.folder)
    assert again.describe() == data.describe() and again.tokenizer.hash == data.tokenizer.hash
    assert np.array_equal(again.train, data.train) and np.array_equal(again.val, data.val)
    assert json.loads(json.dumps(again.describe()))["hash"] == data.hash


def test_a_file_with_an_id_that_is_too_large_is_refused(tmp_path):
    data = data_of(tmp_path, "some text, and more\n" * 20)
    ids = np.array(data.val)
    ids[3] = 999
    folder = data.folder
    (folder / "val.bin").write_bytes(ids.tobytes())
    with pytest.raises(UsageError, match=rf"val\.bin holds token id 999, .*vocabulary of {data.vocab_size} "):
        open_data(folder)


def test_tokens_of_another_tokenizer_are_refused(tmp_path):
    first = data_of(tmp_path, "abc" * 50)
    other = data_of(tmp_path, "abcd" * 50)
    (first.folder / "tokenizer.json").write_bytes((other.folder / "tokenizer.json").read_bytes())
    with pytest.raises(UsageError, match=r"train\.bin was written for a vocabulary of 5, not of 6"):
        open_data(first.folder)


def test_a_folder_without_data_is_refused(tmp_path):
    with pytest.raises(UsageError, match="holds no prepared data"):
        open_data(tmp_path)
