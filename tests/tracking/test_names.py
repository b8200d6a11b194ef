from __future__ import annotations

import re

from hypothesis import given, settings
from hypothesis import strategies as st

from ablab.tracking import names

LONG = st.text(alphabet=st.characters(codec="utf-8"), max_size=300)


@settings(deadline=None, max_examples=40)
@given(LONG, st.integers(20, 130))
def test_shortened_text_fits_on_one_line(text: str, limit: int) -> None:
    short = names.shorten(text, limit)
    assert len(short) <= limit
    assert short == short.strip() and not re.search(r"[\n\r\t]", short)


def test_short_text_stays_as_it_is() -> None:
    assert names.shorten("norm=rms ffn=relu", 128) == "norm=rms ffn=relu"
    assert names.safe_id("norm=rms_seed=0-1f2e3d") == "norm=rms_seed=0-1f2e3d"


@settings(deadline=None, max_examples=40)
@given(LONG)
def test_ids_are_what_servers_take(text: str) -> None:
    assert re.fullmatch(r"[A-Za-z0-9._=+-]{1,64}", names.safe_id(text))


def test_texts_that_differ_late_stay_different() -> None:
    texts = [f"{'optimizer.weight_decay=0.1,' * 10}seed={seed}" for seed in range(50)]
    for make in (lambda t: names.shorten(t, 128), names.safe_id):
        assert len({make(text) for text in texts}) == 50
    assert len({names.safe_id(text) for text in ("a/b", "a?b", "a b", "a_b")}) == 4


@settings(deadline=None, max_examples=40)
@given(st.lists(LONG, max_size=5))
def test_tags_fit_and_none_is_empty(tags: list[str]) -> None:
    safe = names.safe_tags(tuple(tags))
    assert all(1 <= len(tag) <= 64 for tag in safe)
    assert len(set(safe)) == len(safe)
