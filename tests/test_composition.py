"""`ablab.compose`: the config that run.py would use, from any folder."""

from __future__ import annotations

from itertools import product
from pathlib import Path

import pytest
from omegaconf import OmegaConf

import ablab
from ablab import UsageError, registry
from ablab.catalog import GROUPS, options
from ablab.commandline import group_options


def test_from_any_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    cfg = ablab.compose(["norm=layer", "ffn=relu", "model.d_model=64"])
    assert (cfg.choices.norm, cfg.choices.ffn, cfg.model.d_model) == ("layer", "relu", 64)
    assert list(tmp_path.iterdir()) == []


def test_defaults() -> None:
    cfg = ablab.compose()
    assert list(cfg.choices) == list(GROUPS)
    assert dict(cfg.choices) == {
        "norm": "rms", "block": "pre_norm", "ffn": "swiglu", "position": "rope", "embedding": "untied", "attention": "mha",
        "init": "gpt2", "optimizer": "adamw", "schedule": "cosine", "data": "kjv", "scale": "demo", "tracker": "wandb",
    }  # fmt: skip
    assert (cfg.study.margin, cfg.study.alpha) == (0.005, 0.05)
    assert (cfg.seed, cfg.seeds.init, cfg.seeds.data, cfg.seeds.salt) == (0, 0, 0, 0)
    assert not OmegaConf.missing_keys(cfg)


@pytest.mark.parametrize("group", [*registry.SLOTS, "scale", "tracker"])
def test_every_shipped_option_composes(group: str) -> None:
    for name in group_options(group):
        cfg = ablab.compose([f"{group}={name}"])
        assert cfg.choices[group] == name
        if group in registry.SLOTS:
            assert list(cfg[group]) == list(options(group)[name].keywords)


def test_seed_drives_two_seeds_and_each_can_be_set() -> None:
    cfg = ablab.compose(["seed=3"])
    assert (cfg.seeds.init, cfg.seeds.data, cfg.seeds.salt) == (3, 3, 0)
    cfg = ablab.compose(["seed=3", "seeds.data=9", "seeds.salt=1"])
    assert (cfg.seeds.init, cfg.seeds.data, cfg.seeds.salt) == (3, 9, 1)


def test_a_placement_without_norms_is_one_function() -> None:
    same = [ablab.compose(["norm=identity", f"block={block}"]) for block in ("pre_norm", "post_norm")]
    assert same[0] == same[1] and same[1].choices.block == "pre_norm"
    for norm, block in product(("rms", "layer"), ("pre_norm", "post_norm")):
        assert ablab.compose([f"norm={norm}", f"block={block}"]).choices.block == block


@pytest.mark.parametrize("budget", ["tokens=1e6", "tokens_per_parameter=20", "flops=1e12", "minutes=0.5"])
def test_another_budget_replaces_the_steps_of_the_scale(budget: str) -> None:
    cfg = ablab.compose([f"train.{budget}"])
    assert cfg.train.steps is None
    assert cfg.train[budget.partition("=")[0]] == float(budget.partition("=")[2])
    with pytest.raises(UsageError, match="set one budget"):
        ablab.compose([f"train.{budget}", "train.steps=5"])


def test_what_is_typed_wins_over_the_scale_in_any_order() -> None:
    for words in (["scale=cs336", "train.steps=7"], ["train.steps=7", "scale=cs336"]):
        cfg = ablab.compose(words)
        assert (cfg.train.steps, cfg.model.d_model) == (7, 512)


@pytest.mark.parametrize(("text", "value"), [("1e-4", 1e-4), ("3E-5", 3e-5), ("1", 1.0), (".5", 0.5)])
def test_numbers_are_numbers(text: str, value: float) -> None:
    cfg = ablab.compose([f"optimizer.lr={text}"])
    assert cfg.optimizer.lr == value and type(cfg.optimizer.lr) is float
    assert OmegaConf.create(OmegaConf.to_yaml(cfg)).optimizer.lr == value


@pytest.mark.parametrize(
    "note", ["50% @ a,b #1 naïve", "a: [b] {c}", "it's", "null", "1e-4", "日本語", "a | b", "${x}"]
)
def test_notes_stay_verbatim(note: str) -> None:
    quoted = note.replace("${", "\\${")
    assert ablab.compose([f'note="{quoted}"']).note == note


def test_labels_are_text() -> None:
    assert ablab.compose(["position=none"]).choices.position == "none"
    assert OmegaConf.create(OmegaConf.to_yaml(ablab.compose(["position=none"]))).choices.position == "none"


def test_several_values_are_refused() -> None:
    with pytest.raises(UsageError, match="several values"):
        ablab.compose(["norm=rms,layer"])


def test_errors_are_value_errors_with_the_cause() -> None:
    with pytest.raises(ValueError, match=r"norm\.eps.*abc") as caught:
        ablab.compose(["norm.eps=abc"])
    assert caught.value.__cause__ is not None


def test_compositions_do_not_touch_each_other() -> None:
    first = ablab.compose(["norm.eps=1e-3"])
    assert ablab.compose().norm.eps == 1e-5 and first.norm.eps == 1e-3
