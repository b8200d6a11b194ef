from __future__ import annotations

import copy

import pytest
import torch
from torch import Tensor

from ablab import UsageError
from ablab.components.position import NoPosition, RoPE, turn_complex, turn_real

HEADS, WIDTH, LENGTH = 3, 8, 40


def plain(x: Tensor, positions: Tensor, theta: float = 10000.0) -> Tensor:
    """Rotation matrices, pair by pair, for x (B, T, H, K)."""
    out = torch.empty_like(x, dtype=torch.float64)
    for t, m in enumerate(positions.tolist()):
        for i in range(x.shape[-1] // 2):
            angle = torch.tensor(m * theta ** (-2 * i / x.shape[-1]), dtype=torch.float64)
            turn = torch.stack([torch.stack([angle.cos(), -angle.sin()]), torch.stack([angle.sin(), angle.cos()])])
            out[:, t, :, 2 * i : 2 * i + 2] = x[:, t, :, 2 * i : 2 * i + 2].double() @ turn.T
    return out


def rope(**options: float) -> RoPE:
    return RoPE(HEADS * WIDTH, HEADS, LENGTH, **options)


@pytest.mark.parametrize("turn", [turn_complex, turn_real])
@pytest.mark.parametrize(
    ("dtype", "error"), [(torch.float64, 1e-6), (torch.float32, 1e-5), (torch.bfloat16, 2e-2), (torch.float16, 2e-3)]
)
def test_both_forms_turn_interleaved_pairs(turn, dtype, error):
    x = torch.randn(2, LENGTH, HEADS, WIDTH).to(dtype)
    positions = torch.arange(LENGTH)
    y = turn(x, rope().tables(positions))
    assert y.dtype == dtype
    torch.testing.assert_close(y.double(), plain(x, positions), rtol=error, atol=error)


def test_queries_and_keys_are_turned_alike_and_position_zero_not_at_all():
    q, k = torch.randn(2, 2, LENGTH, HEADS, WIDTH)
    position = rope(theta=500.0)
    tables = position.tables(torch.arange(LENGTH))
    turned = position.rotate(q, k, tables)
    for before, after in zip((q, k), turned, strict=True):
        torch.testing.assert_close(after.double(), plain(before, torch.arange(LENGTH), 500.0), rtol=1e-5, atol=1e-5)
        torch.testing.assert_close(after[:, 0], before[:, 0], rtol=0, atol=0)
        torch.testing.assert_close(after.norm(dim=-1), before.norm(dim=-1))


def test_scores_depend_on_the_distance_alone():
    q, k = torch.randn(2, 1, 1, HEADS, WIDTH, dtype=torch.float64)
    position = rope()

    def score(i: int, j: int) -> Tensor:
        left = position.rotate(q, k, position.tables(torch.tensor([i])))[0]
        right = position.rotate(q, k, position.tables(torch.tensor([j])))[1]
        return (left * right).sum(-1)

    for shift in (1, 17, 30):
        torch.testing.assert_close(score(9, 4), score(9 + shift, 4 + shift), rtol=1e-5, atol=1e-6)
    assert not torch.allclose(score(9, 4), score(9, 5))


def test_rows_may_have_positions_of_their_own():
    x = torch.randn(2, 3, HEADS, WIDTH)
    positions = torch.tensor([[0, 1, 2], [5, 6, 7]])
    position = rope()
    together = position.rotate(x, x, position.tables(positions))[0]
    for row in range(2):
        alone = position.rotate(x[row : row + 1], x[row : row + 1], position.tables(positions[row]))[0]
        torch.testing.assert_close(together[row : row + 1], alone)


def test_tables_stay_float32_in_a_bfloat16_model():
    position = RoPE(16, 2, 300).bfloat16()
    tables = position.tables(torch.tensor([256, 257]))
    assert tables.dtype == torch.float32
    assert not torch.equal(tables[0], tables[1])


def test_tables_follow_the_device_and_survive_a_copy():
    with torch.device("meta"):
        position = rope()
    assert position.tables(torch.arange(4, device="meta")).is_meta
    position.to_empty(device="cpu")
    expected = rope().tables(torch.arange(LENGTH))
    torch.testing.assert_close(position.tables(torch.arange(LENGTH)), expected, rtol=0, atol=0)
    torch.testing.assert_close(copy.deepcopy(position).tables(torch.arange(LENGTH)), expected, rtol=0, atol=0)


def test_there_is_nothing_to_save_and_nothing_to_train():
    for position in (rope(), NoPosition(24, 3, 40)):
        assert not position.state_dict() and not list(position.parameters())


def test_none_changes_nothing():
    position, x = NoPosition(24, 3, 40), torch.randn(1, 4, 3, 8)
    assert position.rotate(x, x, position.tables(torch.arange(4))) == (x, x)
    assert position.embed(x, torch.arange(4)) is x


def test_an_odd_head_size_names_its_numbers():
    with pytest.raises(UsageError, match=r"d_model=36 .*n_heads=4 gives 9"):
        RoPE(36, 4, 16)


@pytest.mark.parametrize("theta", [0.0, -1.0, float("inf"), float("nan")])
def test_a_theta_that_is_not_positive_is_refused(theta):
    with pytest.raises(UsageError, match=r"position\.theta"):
        rope(theta=theta)
