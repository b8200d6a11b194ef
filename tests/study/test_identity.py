"""What is, and what is not, part of a run's identity."""

from __future__ import annotations

import pytest
from support.commands import SAFE_NAME

import ablab
from ablab.study.identity import folder_name, ingredients, run_id

BASE = ["train.steps=6"]


def identity(*words: str, data: str = "d", device: str = "cpu") -> str:
    return run_id(ingredients(ablab.compose([*BASE, *words]), data, device))


@pytest.mark.parametrize(
    "word",
    [
        "note=x", "runs_dir=elsewhere", "jobs=2", "fresh=true", "plan=true", "status=true", "cell=0", "fail_fast=true",
        "tracker=none", "tracker.project=other", "tracker.mode=offline", "train.log_every=3", "train.checkpoint_every=5",
        "train.eval_batch_size=8", "study.name=s", "study.margin=0.1", "study.question=why", "train.device=cpu",
    ],
)  # fmt: skip
def test_what_changes_no_result_is_not_in_it(word: str) -> None:
    assert identity(word) == identity()


@pytest.mark.parametrize(
    "word",
    [
        "norm=layer", "norm.eps=1e-6", "block=post_norm", "ffn=relu", "ffn.d_ff=64", "position=none", "position.theta=5",
        "embedding=tied", "init=cs336", "optimizer.lr=1e-4", "optimizer.weight_decay=0", "schedule.warmup_steps=2",
        "model.d_model=64", "model.n_layers=2", "model.n_heads=2", "model.context_length=32", "model.dropout=0.1",
        "train.steps=7", "train.batch_size=4", "train.grad_accum=2", "train.grad_clip=0.5", "train.precision=bf16",
        "train.eval_every=3", "train.threads=2", "seed=1", "seeds.init=1", "seeds.data=1", "seeds.salt=1",
        "data.order=sequential",
    ],
)  # fmt: skip
def test_what_changes_a_result_is_in_it(word: str) -> None:
    assert identity(word) != identity()


def test_the_text_counts_by_its_content() -> None:
    assert identity(data="e") != identity()
    assert identity("data=text", "data.path=pyproject.toml") == identity("data=text", "data.path=./pyproject.toml")
    assert identity(device="cuda") != identity()


def test_the_same_function_has_one_identity() -> None:
    assert identity("norm=identity", "block=post_norm") == identity("norm=identity", "block=pre_norm")


def test_ids_are_short_hex_and_stable() -> None:
    assert run_id({"a": 1, "b": {"c": 2}}) == run_id({"b": {"c": 2}, "a": 1})
    assert len(run_id({})) == 10 and int(run_id({}), 16) >= 0


@pytest.mark.parametrize(
    ("words", "label"),
    [
        ([], "rms-pre_norm-swiglu-rope-untied-seed0"),
        (["norm=layer", "seed=12"], "layer-pre_norm-swiglu-rope-untied-seed12"),
        (["data=shakespeare", "init=cs336"], "rms-pre_norm-swiglu-rope-untied-cs336-shakespeare-seed0"),
    ],
)
def test_folder_names_are_words_seed_and_id(words: list[str], label: str) -> None:
    assert folder_name(ablab.compose(words), "0123456789") == f"{label}-0123456789"


def test_folder_names_are_short_and_safe() -> None:
    cfg = ablab.compose(["seed=123456789"])
    for slot in ("norm", "block", "ffn", "position"):
        cfg.choices[slot] = "a long/odd näme " * 3
    name = folder_name(cfg, "0123456789")
    assert SAFE_NAME.fullmatch(name) and len(name) < 100
    assert name.endswith("-seed123456789-0123456789")
