"""Evaluation windows: each token after the first is a target exactly once, whatever the sizes."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablab.data.windows import IGNORE, eval_windows
from ablab.errors import UsageError

sizes = st.integers(1, 20).flatmap(lambda t: st.tuples(st.integers(t + 1, 120), st.just(t)))


@given(sizes)
def test_every_token_after_the_first_is_a_target_once(size):
    count, context = size
    windows = eval_windows(np.arange(count, dtype=np.uint16), context)
    x, y = windows[:]
    assert x.shape == y.shape == (len(windows), context) and x.dtype == y.dtype == np.int64
    counted = y != IGNORE
    assert sorted(y[counted]) == list(range(1, count))
    assert (y[counted] == x[counted] + 1).all()


@given(sizes, st.integers(1, 7))
def test_slices_items_and_iteration_agree(size, step):
    windows = eval_windows(np.arange(size[0]), size[1])
    x, y = windows[:]
    parts = [windows[k : k + step] for k in range(0, len(windows), step)]
    assert np.array_equal(np.concatenate([part[1] for part in parts]), y)
    for k, (one_x, one_y) in enumerate(windows):
        assert one_x.shape == (size[1],)
        assert np.array_equal(one_x, x[k]) and np.array_equal(one_y, y[k])
    assert np.array_equal(windows[-1][1], y[-1])


@pytest.mark.parametrize("count", [0, 1, 15, 16])
def test_less_than_one_window_is_an_error_with_both_numbers(count):
    with pytest.raises(UsageError, match=rf"has {count} tokens, but model.context_length=16 needs at least 17"):
        eval_windows(np.zeros(count, np.uint16), 16)
    assert len(eval_windows(np.zeros(17, np.uint16), 16)) == 1


def test_a_window_of_nothing_is_refused():
    with pytest.raises(UsageError, match=r"model\.context_length=0"):
        eval_windows(np.zeros(5, np.uint16), 0)
