"""Training batches: a pure function of seed and step, in range, fair, the same for every split of a step."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from ablab.data.batches import Batches, batch_hash
from ablab.data.windows import IGNORE
from ablab.errors import UsageError

sizes = st.integers(1, 12).flatmap(lambda t: st.tuples(st.integers(t + 1, 150), st.just(t)))
orders = st.sampled_from(["shuffled", "sequential"])


@given(sizes, st.integers(1, 9), st.integers(0, 3), orders)
@settings(max_examples=200)
def test_targets_are_the_tokens_after_the_inputs(size, per_step, seed, order):
    batches = Batches(np.arange(1000, 1000 + size[0], dtype=np.uint16), size[1], per_step, seed, order)
    for step in range(4):
        x, y = batches.step(step)
        assert x.shape == y.shape == (per_step, size[1]) and x.dtype == y.dtype == np.int64
        assert x.min() >= 1000 and x.max() < 1000 + size[0]
        counted = y != IGNORE
        assert (y[counted] == x[counted] + 1).all() and counted[:, -1].all()
        assert (np.diff(x, axis=1) == 1).all()
        assert order == "sequential" or counted.all()


@given(sizes, st.integers(0, 5), st.integers(0, 3))
def test_a_shuffled_epoch_repeats_no_token_and_misses_at_most_one_window(size, seed, epoch):
    count, context = size
    batches = Batches(np.arange(count), context, 1, seed)
    epochs = range(epoch * batches.windows_per_epoch, (epoch + 1) * batches.windows_per_epoch)
    targets = [id_ for step in epochs for id_ in batches.step(step)[1][0]]
    assert len(targets) == len(set(targets)) == batches.windows_per_epoch * context
    assert count - 1 - len(targets) < 2 * context


@given(sizes, st.integers(0, 2))
def test_a_sequential_epoch_covers_each_token_once_as_target(size, epoch):
    count, context = size
    batches = Batches(np.arange(count), context, 1, order="sequential")
    epochs = range(epoch * batches.windows_per_epoch, (epoch + 1) * batches.windows_per_epoch)
    targets = np.concatenate([batches.step(step)[1][0] for step in epochs])
    assert targets[targets != IGNORE].tolist() == list(range(1, count))


@given(sizes, orders, st.integers(0, 3), st.sampled_from([(8, 1), (4, 2), (2, 4), (1, 8)]))
def test_the_same_windows_however_a_step_is_split(size, order, seed, split):
    tokens = np.arange(size[0])
    whole = Batches(tokens, size[1], 8, seed, order)
    part = Batches(tokens, size[1], split[0], seed, order)
    for step in range(3):
        micro = [part.step(step * split[1] + k) for k in range(split[1])]
        for axis in (0, 1):
            assert np.array_equal(np.concatenate([m[axis] for m in micro]), whole.step(step)[axis])


@pytest.mark.parametrize("order", ["shuffled", "sequential"])
def test_any_step_can_be_the_first_one_asked_for(order):
    tokens = np.arange(300)
    straight = Batches(tokens, 16, 5, 3, order)
    expected = [straight.step(i) for i in range(40)]  # many epochs
    for i in (39, 0, 17, 38, 3):
        for again in (straight, Batches(tokens, 16, 5, 3, order)):
            assert np.array_equal(again.step(i)[0], expected[i][0])
            assert np.array_equal(again.step(i)[1], expected[i][1])


def test_the_order_is_the_same_on_every_machine():
    """Fixed numbers: a run that resumes elsewhere, or under another numpy, must meet the same text."""
    batches = Batches(np.arange(100), 8, 3, seed=5)
    assert batches.windows_per_epoch == 11
    assert batches.step(0)[0][:, 0].tolist() == [61, 69, 37]
    assert batches.step(100)[0][:, 0].tolist() == [87, 39, 71]


def test_seeds_and_epochs_differ():
    tokens = np.arange(1000)
    first = [Batches(tokens, 10, 99, seed).step(0)[0][:, 0].tolist() for seed in range(3)]
    assert first[0] != first[1] != first[2]
    epochs = [Batches(tokens, 10, 99, 0).step(i)[0][:, 0] for i in range(30)]
    assert len({tuple(starts) for starts in epochs}) == 30
    assert {int(starts.min()) for starts in epochs} == set(range(10))  # every offset is met


def test_exactly_one_window_is_enough_for_any_batch():
    for order in ("shuffled", "sequential"):
        x, y = Batches(np.arange(17), 16, 4, 0, order).step(9)
        assert (x == np.arange(16)).all() and (y == np.arange(1, 17)).all()


@pytest.mark.parametrize("count", [0, 16])
def test_less_than_one_window_is_an_error(count):
    with pytest.raises(UsageError, match=rf"training split has {count} tokens, .*context_length=16 .*least 17"):
        Batches(np.zeros(count, np.uint16), 16, 4)


@pytest.mark.parametrize("per_step", [1, 4])
def test_inputs_and_targets_are_arrays_of_their_own(per_step):
    tokens = np.arange(18)
    x, y = Batches(tokens, 16, per_step, order="sequential").step(1)  # its targets begin with ignored ones
    assert not np.shares_memory(x, y) and (y == IGNORE).any() and (x != IGNORE).all()
    x[:] = 0
    assert tokens.tolist() == list(range(18))


def test_wrong_options_are_named():
    tokens = np.arange(50)
    with pytest.raises(UsageError, match=r"data\.order = 'random'.*sequential, shuffled"):
        Batches(tokens, 8, 1, 0, "random")
    with pytest.raises(UsageError, match=r"train\.grad_accum = 0"):
        Batches(tokens, 8, 0)
    with pytest.raises(UsageError, match=r"seeds\.data=-1"):
        Batches(tokens, 8, 1, -1)
    with pytest.raises(IndexError, match="step -1"):
        Batches(tokens, 8, 1).step(-1)


def test_the_hash_sees_every_token_and_the_order_but_not_the_type():
    x, y = Batches(np.arange(100), 8, 4, seed=1).step(0)
    start = batch_hash("", x, y)
    assert start == batch_hash("", x.astype(np.uint16), y.astype(np.int32)) and len(start) == 64
    seen = {start, batch_hash(start, x, y), batch_hash("", x[::-1], y[::-1])}
    for at in ((0, 0), (3, 7), (1, 4)):
        changed = x.copy()
        changed[at] += 1
        seen.add(batch_hash("", changed, y))
    last = y.copy()
    last[2, -1] += 1
    seen.add(batch_hash("", x, last))
    assert len(seen) == 7
