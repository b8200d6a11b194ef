"""The table of corpora: names, options, plug-ins."""

from __future__ import annotations

import pytest

from ablab.data.corpora import CORPORA, Split, corpus, get_corpus, read_corpus
from ablab.errors import UsageError


@pytest.fixture
def mine():
    @corpus("mine")
    def mine(*, colour: str = "red") -> Split:
        return Split([f"{colour} one"], [f"{colour} two"], "two")

    yield mine
    del CORPORA["mine"]


def test_shipped_corpora_are_listed_without_reading_any():
    for name in ("kjv", "shakespeare", "text"):
        assert callable(get_corpus(name))


def test_an_unknown_name_lists_the_choices():
    with pytest.raises(UsageError, match=r"data = 'kjw'.*did you mean 'kjv'.*kjv, shakespeare, text"):
        read_corpus("kjw", {})


def test_another_package_adds_a_corpus_with_options_of_its_own(mine):
    assert read_corpus("mine", {"colour": "blue", "tokenizer": "char"}).train == ["blue one"]
    assert read_corpus("mine", {"tokenizer": "char"}).val == ["red two"]


def test_a_name_taken_by_another_function_is_refused(mine):
    with pytest.raises(UsageError, match="data=mine is registered twice"):

        @corpus("mine")
        def other() -> Split:
            return Split([], [], "")

    assert corpus("mine")(mine) is mine  # the same module loaded again is no clash


def test_a_path_for_a_corpus_that_reads_none_is_refused():
    with pytest.raises(UsageError, match=r"data\.path is set, but data=kjv reads no file"):
        read_corpus("kjv", {"path": "my.txt"})
