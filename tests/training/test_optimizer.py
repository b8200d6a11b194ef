from __future__ import annotations

from itertools import product
from typing import Any

import pytest
import torch
from support.tiny_cell import Cell

from ablab.errors import UsageError
from ablab.model import build_model
from ablab.training.optimizer import AdamW, parameter_groups


@pytest.mark.parametrize(
    ("norm", "ffn", "embedding"),
    product(["rms", "layer", "identity"], ["swiglu", "relu"], ["tied", "untied"]),
)
def test_every_parameter_is_in_one_group_and_only_matrices_decay(
    cell: Cell, norm: str, ffn: str, embedding: str
) -> None:
    options = {} if norm == "identity" else {"eps": 1e-5}
    cfg = cell.cfg(choices__norm=norm, choices__ffn=ffn, choices__embedding=embedding, norm=options)
    model = build_model(cfg, 30)
    optimizer = AdamW(parameter_groups(model), weight_decay=0.1)
    decay = {name: g["weight_decay"] for g in optimizer.param_groups for name in g["names"]}
    ids = [id(p) for g in optimizer.param_groups for p in g["params"]]
    assert len(ids) == len(set(ids)) == len(list(model.parameters()))
    assert decay.keys() == dict(model.named_parameters()).keys()
    assert {name for name, d in decay.items() if d == 0} == {
        n for n in decay if "norm" in n or n.split(".")[-2] in ("ln1", "ln2", "ln_final")
    }
    assert ("lm_head.weight" in decay) == (embedding == "untied")
    assert len(optimizer.param_groups) == (1 if norm == "identity" else 2)


def test_decay_shrinks_matrices_by_rate_times_decay_and_leaves_gains(cell: Cell) -> None:
    model = build_model(cell.cfg(), 30)
    before = {n: p.detach().clone() for n, p in model.named_parameters()}
    optimizer = AdamW(parameter_groups(model), lr=0.1, weight_decay=0.5)
    for p in model.parameters():
        p.grad = torch.zeros_like(p)
    optimizer.step()
    for name, p in model.named_parameters():
        torch.testing.assert_close(p.detach(), before[name] * (0.95 if p.ndim >= 2 else 1.0))


def test_takes_the_steps_of_the_published_formula() -> None:
    torch.manual_seed(0)
    w = torch.nn.Parameter(torch.randn(3, 4))
    lr, decay, (b1, b2), eps = 1e-2, 0.1, (0.9, 0.95), 1e-8
    optimizer = AdamW([{"params": [w]}], lr=lr, weight_decay=decay, betas=(b1, b2), eps=eps)
    x, m, v = w.detach().double(), 0.0, 0.0
    for t in range(1, 6):
        g = torch.randn(3, 4)
        w.grad = g.clone()
        optimizer.step()
        m, v = b1 * m + (1 - b1) * g.double(), b2 * v + (1 - b2) * g.double() ** 2
        x = x - lr * decay * x - lr * (m / (1 - b1**t)) / ((v / (1 - b2**t)).sqrt() + eps)
    torch.testing.assert_close(w.detach().double(), x, rtol=0, atol=1e-6)


@pytest.mark.parametrize(
    ("key", "value"),
    [("lr", -1.0), ("lr", float("nan")), ("weight_decay", -0.1), ("eps", 0.0), ("betas", (0.9, 1.0)),
     ("betas", (0.9,))],
)  # fmt: skip
def test_values_out_of_range_are_named(key: str, value: Any) -> None:
    with pytest.raises(UsageError, match=f"optimizer.{key}="):
        AdamW([{"params": [torch.nn.Parameter(torch.zeros(2))]}], **{key: value})
