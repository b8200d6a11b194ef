from __future__ import annotations

import pytest
import torch
from components.cells import CELLS, VOCAB, config, name
from torch.nn.attention import SDPBackend, sdpa_kernel
from torch.utils.flop_counter import FlopCounterMode

from ablab import build_model
from ablab.costs import Costs, costs, norm_modules


def test_the_known_counts_of_the_cs336_model():
    found = costs(config("cs336"), 10_000)
    assert found == Costs(
        parameters=22_696_448,
        non_embedding=12_456_448,
        matmul=17_571_840,
        flops_per_token=111_722_496,
        d_ff=1344,
        ffn_residual=0.0,
        gains=9 * 512,
        biases=0,
    )
    assert costs(config("cs336", ffn="relu"), 10_000).d_ff == 2016


@pytest.mark.parametrize("cell", CELLS, ids=name)
def test_counts_by_hand(cell):
    found = costs(config(**cell), VOCAB)
    width, layers, norms = 32, 2, 5 if cell["block"] == "pre_norm" else 4
    d_ff = 96 if cell["ffn"] == "swiglu" else 144
    gains = 0 if cell["norm"] == "identity" else norms * width
    biases = norms * width if cell["norm"] == "layer" else 0
    inner = layers * (4 * width**2 + 3 * width * 96)
    tables = VOCAB * width * (2 if cell["embedding"] == "untied" else 1)
    assert (found.gains, found.biases, found.d_ff, found.ffn_residual) == (gains, biases, d_ff, 0.0)
    assert found.parameters == inner + gains + biases + tables
    assert found.non_embedding == inner + gains + biases
    assert found.matmul == inner + VOCAB * width
    assert found.flops_per_token == 3 * (2 * found.matmul + 4 * layers * 16 * width)
    assert found.parameters == sum(p.numel() for p in build_model(config(**cell), VOCAB).parameters())


@pytest.mark.parametrize("changes", [*CELLS[::9], {"ffn": "test_biased"}], ids=str)
def test_flops_agree_with_the_counter_of_pytorch(changes):
    cfg = config("demo", **changes)
    with torch.device("meta"), sdpa_kernel(SDPBackend.MATH):
        model = build_model(cfg, 84)
        ids = torch.zeros(2, 128, dtype=torch.long)
        with FlopCounterMode(display=False) as counter:
            model(ids).sum().backward()
    assert counter.get_total_flops() / ids.numel() == pytest.approx(costs(cfg, 84).flops_per_token, rel=1e-3)


def test_a_width_that_does_not_match_is_told():
    assert costs(config(ffn={"d_ff": 97}), VOCAB).ffn_residual == pytest.approx(1 / 96)
    odd = costs(config(ffn="relu", ffn_width=5), VOCAB)
    assert odd.d_ff in (7, 8) and odd.ffn_residual == pytest.approx((2 * odd.d_ff - 15) / 15)


def test_a_users_parameters_count_where_they_belong():
    found = costs(config(ffn="test_biased"), VOCAB)
    plain = costs(config(), VOCAB)
    ffn = 2 * 32 * found.d_ff + found.d_ff + 32 + 32  # matrices, two biases, the gain
    assert found.parameters - plain.parameters == 2 * (ffn - 3 * 32 * 96)
    assert abs(found.ffn_residual) < 0.005
    assert found.biases == 2 * (found.d_ff + 32)
    assert found.gains == plain.gains
    assert found.matmul == plain.matmul + 2 * (2 * 32 * found.d_ff - 3 * 32 * 96)


def test_norm_modules_are_listed():
    assert norm_modules(build_model(config(), VOCAB)) == [
        "layers.0.ln1",
        "layers.0.ln2",
        "layers.1.ln1",
        "layers.1.ln2",
        "ln_final",
    ]
    assert norm_modules(build_model(config(norm="identity"), VOCAB)) == []
