"""What was typed, checked and brought into Hydra's form."""

from __future__ import annotations

import pytest

from ablab import UsageError
from ablab.commandline import group_options, known_keys, prepare


def test_what_is_swept_fixed_and_explicit() -> None:
    command = prepare(["norm=rms,layer", "seed=0,1", "model.d_model=64", "jobs=2"], multirun=True)
    assert command.swept == ("norm", "seed")
    assert command.explicit == {"norm", "seed", "model.d_model", "jobs"}
    assert command.experiment is None


def test_options_of_components_get_past_the_default_component() -> None:
    words = ["ffn=swiglu,relu", "ffn.d_ff=128", "norm.eps=1e-6,1e-5", "model.d_model=64", "tracker.mode=offline"]
    wrapped = prepare(words, multirun=True).overrides
    assert wrapped[1] == "ffn.d_ff=choice(128)" and wrapped[4] == "tracker.mode=choice(offline)"
    assert [wrapped[0], wrapped[2], wrapped[3]] == [words[0], words[2], words[3]]
    assert prepare(["ffn.d_ff=128"], multirun=False).overrides == ("ffn.d_ff=128",)


def test_an_experiment_may_sweep_without_the_flag() -> None:
    command = prepare(["experiment=norm_ffn", "seed=0,1"], multirun=False)
    assert command.experiment == "norm_ffn" and command.swept == ("seed",)


@pytest.mark.parametrize("text", ["norm=rms,layer", "seed=range(3)", "norm=glob(*)", "optimizer.lr=choice(1,2)"])
def test_several_values_need_the_flag(text: str) -> None:
    with pytest.raises(UsageError, match="add -m"):
        prepare([text], multirun=False)
    prepare([text], multirun=True)


def test_every_key_of_the_contract_can_be_typed() -> None:
    keys = """model.d_model model.n_layers model.n_heads model.context_length model.dropout model.final_norm model.ffn_width
        train.steps train.tokens train.tokens_per_parameter train.flops train.minutes train.batch_size
        train.eval_batch_size train.grad_accum train.grad_clip train.log_every train.eval_every train.checkpoint_every
        train.precision train.compile train.device train.threads seed seeds.init seeds.data seeds.salt study.name
        study.baseline study.margin study.alpha runs_dir note jobs fresh plan status cell fail_fast norm.eps ffn.d_ff
        position.theta data.path data.tokenizer data.vocab_size data.val_fraction optimizer.lr optimizer.weight_decay
        schedule.warmup_steps schedule.min_lr_ratio tracker.mode tracker.project tracker.entity norm block ffn position
        embedding attention init data scale optimizer schedule tracker experiment"""
    assert set(keys.split()) <= known_keys()


def test_options_are_listed_default_first() -> None:
    assert group_options("norm")[:3] == ["rms", "layer", "identity"]
    assert group_options("data")[:3] == ["kjv", "shakespeare", "text"]
    assert group_options("tracker")[0] == "wandb"
    assert group_options("scale")[0] == "demo"
