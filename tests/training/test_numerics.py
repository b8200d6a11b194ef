"""Optimiser steps: accumulation, clipping, precision, and what is written about them."""

from __future__ import annotations

import json
import math
from typing import Any

import numpy as np
import pytest
import torch
import torch.nn.functional as F
from support.tiny_cell import Cell, same

from ablab.data import Batches
from ablab.errors import UsageError
from ablab.model import build_model
from ablab.training import loop
from ablab.training.device import Runtime
from ablab.training.run import Run
from ablab.training.status import Status


@pytest.fixture
def ignored_targets(monkeypatch: pytest.MonkeyPatch) -> None:
    """Half of the targets of the first two sequences of every step do not count."""
    plain = Batches.step

    def step(self: Batches, i: int) -> tuple[np.ndarray, np.ndarray]:
        x, y = plain(self, i)
        y = y.copy()
        y[:2, ::2] = -100
        return x, y

    monkeypatch.setattr(Batches, "step", step)


@pytest.mark.usefixtures("ignored_targets")
def test_accumulation_equals_the_big_batch(cell: Cell) -> None:
    options = {"train__steps": 3, "train__log_every": 1, "train__eval_every": 1}
    for batch, accum in ((8, 1), (2, 4), (1, 8), (4, 2)):
        cell.train(f"{batch}x{accum}", cell.cfg(train__batch_size=batch, train__grad_accum=accum, **options))
    big = cell.last("8x1")
    for name in ("2x4", "1x8", "4x2"):
        other = cell.last(name)
        for key, weight in big["model"].items():
            torch.testing.assert_close(other["model"][key], weight, rtol=0, atol=1e-6)
        assert other["batch_hash"] == big["batch_hash"]
        for a, b in zip(cell.rows(name), cell.rows("8x1"), strict=True):
            assert (a["step"], a["tokens"], a.get("lr")) == (b["step"], b["tokens"], b.get("lr"))
            for key in ("train/loss", "train/grad_norm", "val/loss"):
                assert a.get(key) == (pytest.approx(b[key], abs=2e-6) if key in b else None)


@pytest.mark.usefixtures("ignored_targets")
def test_steps_equal_plain_torch_on_the_mean_over_targets(cell: Cell) -> None:
    cfg = cell.cfg(train__steps=3, train__log_every=1, train__batch_size=1, train__grad_accum=4, train__grad_clip=0.5)
    cell.train("run", cfg)
    rows = [row for row in cell.rows("run") if "train/loss" in row]
    model = build_model(cfg, cell.data.vocab_size)
    decay = [p for p in model.parameters() if p.ndim > 1]
    rest = [p for p in model.parameters() if p.ndim < 2]
    optimizer = torch.optim.AdamW(
        [{"params": decay}, {"params": rest, "weight_decay": 0.0}], betas=(0.9, 0.95), weight_decay=0.1, fused=False
    )
    batches = Batches(cell.data.train, 16, 4, cfg.seeds.data)
    for i in range(3):
        x, y = (torch.from_numpy(a) for a in batches.step(i))
        loss = F.cross_entropy(model(x).flatten(0, 1), y.flatten(), ignore_index=-100)
        optimizer.zero_grad()
        loss.backward()
        norm = torch.nn.utils.clip_grad_norm_(model.parameters(), 0.5)
        for group in optimizer.param_groups:
            group["lr"] = rows[i]["lr"]
        optimizer.step()
        assert rows[i]["train/loss"] == pytest.approx(loss.item(), abs=2e-6)
        assert rows[i]["train/grad_norm"] == pytest.approx(norm.item(), rel=1e-5)
        assert norm > 0.5 and rows[i]["train/clip_fraction"] == 1
    for name, weight in cell.last("run")["model"].items():
        torch.testing.assert_close(weight, model.state_dict()[name], rtol=0, atol=2e-6)


def test_without_clipping_the_norm_is_logged_all_the_same(cell: Cell) -> None:
    first = {}
    for clip in (None, 0, 1e9, 0.1):
        name = f"clip{clip}"
        cell.train(name, cell.cfg(train__grad_clip=clip, train__log_every=1, train__steps=2))
        first[clip] = cell.rows(name)[1]
    assert len({row["train/grad_norm"] for row in first.values()}) == 1
    assert [row["train/clip_fraction"] for row in first.values()] == [0, 0, 0, 1]
    assert same(cell.last("clipNone")["model"], cell.last("clip0")["model"])
    assert same(cell.last("clipNone")["model"], cell.last("clip1000000000.0")["model"])


@pytest.mark.parametrize("key", [*loop.COUNTS, "grad_clip"])
def test_numbers_out_of_range_are_refused_by_name_before_anything_is_written(cell: Cell, key: str) -> None:
    cfg = cell.cfg()
    for value in (0, -1, None) if key != "grad_clip" else (-1.0, math.nan):
        broken = cell.cfg()
        broken.train = {**cfg.train, key: value}  # past the type of the key
        with pytest.raises(UsageError, match=f"train.{key}={value}"):
            cell.train("refused", broken)
    assert not (cell.folder / "refused").exists()


def test_logged_loss_is_the_mean_over_the_targets_since_the_last_line(cell: Cell) -> None:
    cell.train("each", cell.cfg(train__log_every=1, train__steps=7))
    cell.train("some", cell.cfg(train__log_every=3, train__steps=7))
    each = {row["step"]: row["train/loss"] for row in cell.rows("each") if "train/loss" in row}
    some = {row["step"]: row["train/loss"] for row in cell.rows("some") if "train/loss" in row}
    assert sorted(some) == [3, 6, 7]
    assert some[3] == pytest.approx((each[1] + each[2] + each[3]) / 3)
    assert some[6] == pytest.approx((each[4] + each[5] + each[6]) / 3)
    assert some[7] == pytest.approx(each[7])


@pytest.mark.parametrize(("steps", "every"), [(7, 3), (6, 3), (1, 1), (5, 10), (4, 1)])
def test_evaluated_at_the_start_every_interval_and_once_at_the_end(cell: Cell, steps: int, every: int) -> None:
    cfg = cell.cfg(train__steps=steps, train__eval_every=every, train__checkpoint_every=100)
    assert cell.train("run", cfg).state == "finished"
    rows = cell.rows("run")
    assert [r["step"] for r in rows if "val/loss" in r] == sorted({0, steps, *range(0, steps, every)})
    assert len({r["step"] for r in rows}) == len(rows)
    assert cell.last("run")["step"] == steps
    assert rows[-1]["step"] == steps and {"train/loss", "val/loss", "lr"} <= rows[-1].keys()
    assert rows[-1]["lr"] == pytest.approx(cfg.optimizer.lr * (cfg.schedule.min_lr_ratio))


def test_one_line_holds_training_and_validation(cell: Cell) -> None:
    cell.train("run", cell.cfg(train__log_every=1, train__eval_every=1))
    lines = (cell.folder / "run" / "metrics.jsonl").read_text().splitlines()
    rows = [json.loads(line) for line in lines]
    assert [row["step"] for row in rows] == list(range(7))
    assert [row["tokens"] for row in rows] == [32 * i for i in range(7)]
    values = {"step", "tokens", "seconds", "val/loss", "val/bits_per_byte", "val/perplexity"}
    assert rows[0].keys() == values
    for row in rows[1:]:
        more = {"train/loss", "train/grad_norm", "train/clip_fraction", "lr", "tokens_per_second"}
        assert row.keys() == values | more
        assert row["val/perplexity"] == pytest.approx(math.exp(row["val/loss"]))


def test_bf16_keeps_float32_weights_that_move(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    options: dict[str, Any] = {"optimizer__lr": 1e-4, "train__steps": 100, "train__log_every": 100,
                               "train__eval_every": 100, "train__checkpoint_every": 100}  # fmt: skip
    products = set()
    plain = F.linear

    def spy(x: torch.Tensor, w: torch.Tensor, b: torch.Tensor | None = None) -> torch.Tensor:
        out = plain(x, w, b)
        products.add(out.dtype)
        return out

    cell.train("fp32", cell.cfg(**options))
    monkeypatch.setattr(F, "linear", spy)
    cell.train("bf16", cell.cfg(train__precision="bf16", **options))
    assert products == {torch.bfloat16}
    weights = cell.last("bf16")["model"]
    assert {w.dtype for w in weights.values()} == {torch.float32}
    gains = torch.cat([w for n, w in weights.items() if w.ndim == 1])
    assert (gains != 1).float().mean() > 0.9
    losses = [cell.rows(name)[-1]["val/loss"] for name in ("fp32", "bf16")]
    assert losses[0] != losses[1] and losses[1] == pytest.approx(losses[0], rel=0.02)


def test_the_same_seed_is_the_same_run_and_each_seed_does_its_part(cell: Cell) -> None:
    changes: dict[str, dict[str, Any]] = {
        "a": {}, "again": {}, "init": {"seeds__init": 2}, "data": {"seeds__data": 2}, "salt": {"seeds__salt": 1}
    }  # fmt: skip
    for name, change in changes.items():
        cell.train(name, cell.cfg(model__dropout=0.1, train__log_every=1, **change))
    a = cell.last("a")
    assert cell.rows("a") == cell.rows("again") and same(cell.state("a"), cell.state("again"))
    for name, same_data in (("init", True), ("data", False), ("salt", True)):
        other = cell.last(name)
        assert not same(a["model"], other["model"])
        assert (other["batch_hash"] == a["batch_hash"]) is same_data
    assert cell.rows("a")[0] == cell.rows("data")[0] != cell.rows("salt")[0]


def test_every_variant_sees_the_same_data(cell: Cell) -> None:
    changes: list[dict[str, Any]] = [
        {}, {"choices__norm": "layer"}, {"choices__ffn": "relu"}, {"choices__embedding": "tied"},
        {"choices__position": "none", "position": {}}, {"choices__block": "post_norm"}, {"model__dropout": 0.4},
        {"train__precision": "bf16"}, {"train__eval_every": 1, "train__eval_batch_size": 1},
        {"choices__norm": "identity", "norm": {}},
    ]  # fmt: skip
    for i, change in enumerate(changes):
        cell.train(str(i), cell.cfg(**change))
    hashes = [cell.status(str(i))["batch_hash_at"] for i in range(len(changes))]
    assert len({h["3"] for h in hashes}) == len({h["6"] for h in hashes}) == 1
    assert hashes[0].keys() == {"0", "3", "6"} and len(set(hashes[0].values())) == 3


@pytest.mark.parametrize(
    ("ffn", "embedding", "norm"),
    [("swiglu", "untied", "rms"), ("relu", "untied", "rms"), ("swiglu", "tied", "layer"), ("relu", "tied", "rms")],
)
def test_status_counts_parameters_as_a_hand_does(cell: Cell, ffn: str, embedding: str, norm: str) -> None:
    cfg = cell.cfg(choices__ffn=ffn, choices__embedding=embedding, choices__norm=norm, train__steps=1)
    cell.train("run", cfg)
    width, layers, vocab = 32, 2, cell.data.vocab_size
    base = 96  # 8/3 of 32, rounded up to a multiple of 16
    feed_forward = 3 * width * base if ffn == "swiglu" else 2 * width * (base * 3 // 2)
    norms = (2 * layers + 1) * width * (1 if norm == "rms" else 2)
    inner = layers * (4 * width**2 + feed_forward) + norms
    tables = vocab * width * (1 if embedding == "tied" else 2)
    status = cell.status("run")
    assert status["parameters"] == inner + tables == sum(w.numel() for w in cell.last("run")["model"].values())
    assert status["non_embedding"] == inner
    assert status["flops_per_token"] == 3 * (2 * (inner - norms + vocab * width) + 4 * layers * 16 * width)


@pytest.mark.parametrize("clip", [1.0, None])
def test_nothing_in_a_step_waits_for_the_device(cell: Cell, clip: float | None) -> None:
    """On the meta device there are no values: whatever looks at one raises."""
    cfg = cell.cfg(train__grad_accum=2, train__grad_clip=clip)
    run = Run(cfg, cell.folder, cell.data, Runtime(torch.device("meta"), "fp32"), Status(cell.folder), [], print)
    for _ in range(3):
        loop.take_step(run)
    assert run.state.step == 3
    with pytest.raises(RuntimeError):  # the proof that looking raises
        run.look()
