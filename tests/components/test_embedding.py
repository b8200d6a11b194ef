from __future__ import annotations

import pytest
import torch
from torch import nn

from ablab import UsageError
from ablab.components.embedding import Tied, Untied


@pytest.mark.parametrize("cls", [Untied, Tied])
def test_reads_rows_and_predicts_by_inner_products(cls):
    parts = cls(11, 6)
    ids, x = torch.tensor([[0, 10, 3]]), torch.randn(2, 4, 6)
    torch.testing.assert_close(parts.table(ids), parts.table.weight[ids])
    torch.testing.assert_close(parts.head(x), x @ parts.head.weight.T)


def test_tied_has_one_matrix_and_its_gradient_is_the_sum_of_both_uses():
    parts = Tied(11, 6)
    assert parts.head.weight is parts.table.weight
    assert not isinstance(parts.head, nn.Module)
    ids, x, weights = torch.tensor([[1, 1, 5]]), torch.randn(3, 6), torch.randn(3, 11)
    ((parts.head(x) * weights).sum() + parts.table(ids).sum()).backward()
    want = weights.T @ x
    want[1] += 2
    want[5] += 1
    torch.testing.assert_close(parts.table.weight.grad, want)


def test_untied_has_two_matrices():
    parts = Untied(11, 6)
    assert parts.head.weight.data_ptr() != parts.table.weight.data_ptr()
    assert parts.head.bias is None


@pytest.mark.parametrize("bad", [11, -1, 2**40, -(2**40)])
def test_an_id_outside_the_vocabulary_is_named_with_its_size(bad):
    table = Untied(11, 6).table
    with pytest.raises(UsageError, match=rf"{bad} .*vocabulary of 11"):
        table(torch.tensor([[0, bad, 10]]))
