"""Widths at equal cost."""

from __future__ import annotations

import pytest
from components.cells import VOCAB, config
from torch import nn

from ablab import registry
from ablab.costs import costs
from ablab.errors import UsageError
from ablab.matching import ffn_budget, resolved_d_ff


def with_model(cfg, **sizes):
    for key, value in sizes.items():
        cfg.model[key] = value
    return cfg


@pytest.mark.parametrize(
    "d_model, gated, plain", [(64, 192, 288), (128, 384, 576), (256, 704, 1056), (512, 1408, 2112), (768, 2048, 3072)]
)
def test_widths_match_to_the_last_parameter(d_model, gated, plain):
    swiglu, relu = (config(d_model=d_model, n_heads=4, ffn=name) for name in ("swiglu", "relu"))
    assert resolved_d_ff(swiglu, VOCAB) == gated
    assert resolved_d_ff(relu, VOCAB) == plain
    assert costs(swiglu, VOCAB).parameters == costs(relu, VOCAB).parameters


def test_ffn_width_sets_w_for_both_kinds():
    assert resolved_d_ff(with_model(config(d_model=512, n_heads=4), ffn_width=1344), VOCAB) == 1344
    assert resolved_d_ff(with_model(config(d_model=512, n_heads=4, ffn="relu"), ffn_width=1344), VOCAB) == 2016


def test_a_width_below_one_is_refused_by_name():
    with pytest.raises(UsageError, match=r"model\.ffn_width"):
        ffn_budget(with_model(config(), ffn_width=-3), VOCAB)


def test_matching_flops_leaves_biases_out():
    cfg = config(d_model=64, ffn="test_biased")
    by_parameters = resolved_d_ff(with_model(cfg, match="parameters"), VOCAB)
    by_flops = resolved_d_ff(with_model(cfg, match="flops"), VOCAB)
    assert by_flops == 288  # 2 D F = 3 D W in matrix products
    assert by_parameters < by_flops


def test_no_matching_leaves_the_width_to_the_class():
    assert resolved_d_ff(with_model(config(ffn="relu"), match="none"), VOCAB) is None


def test_tied_embeddings_can_give_their_parameters_back():
    tied = with_model(config(embedding="tied"), match_embedding=True)
    untied = with_model(config(), match_embedding=True)
    total_tied, total_untied = costs(tied, 1000).parameters, costs(untied, 1000).parameters
    per_width = 3 * tied.model.d_model * tied.model.n_layers  # parameters of one unit of d_ff in all layers
    assert abs(total_tied - total_untied) <= per_width / 2
    assert resolved_d_ff(untied, 1000) == resolved_d_ff(config(), 1000)
    assert isinstance(registry.get("embedding", "untied")(10, 4).head, nn.Linear)
