"""A run that was cut off goes on bit for bit; another run's checkpoint is taken as a whole or refused."""

from __future__ import annotations

import json
import logging
from collections.abc import Callable
from contextlib import suppress
from itertools import pairwise
from typing import Any

import pytest
import torch
import torch._dynamo
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from support.tiny_cell import Cell, Killed, after, kill, same

from ablab.errors import UsageError
from ablab.training import device

Stops = Callable[[int], Callable[[], str | None]]
#: everything that has a state of its own: dropout, accumulation, bf16, several epochs (7 windows of 16 tokens each)
KINDS: dict[str, dict[str, Any]] = {
    "plain": {},
    "dropout": {"model__dropout": 0.3},
    "accumulation": {"train__grad_accum": 3, "model__dropout": 0.1},
    "bf16": {"train__precision": "bf16", "model__dropout": 0.1},
    "epochs": {"train__batch_size": 64},
    "tied": {"choices__embedding": "tied", "choices__norm": "layer"},
    "compiled": {"train__compile": True, "model__dropout": 0.1, "model__n_layers": 1},
}
STEPS = 11
CADENCE = {"train__steps": STEPS, "train__log_every": 4, "train__eval_every": 3, "train__checkpoint_every": 5}


@pytest.fixture(autouse=True)
def quick_compiler(monkeypatch: pytest.MonkeyPatch) -> None:
    """Everything of torch.compile but its code generator and C++ compiler, which take half a minute."""
    monkeypatch.setattr(device, "BACKEND", "eager")
    monkeypatch.setattr(torch._dynamo, "reset", lambda: None)  # the same blocks again: no need to trace anew


@pytest.mark.parametrize("kind", KINDS)
def test_stopped_at_any_step_it_goes_on_bit_for_bit(cell: Cell, stop_after: Stops, kind: str) -> None:
    """Stops in training, in an evaluation, in the middle of a line's interval; several in one run."""
    cfg = cell.cfg(**CADENCE, **KINDS[kind])
    cell.train("whole", cfg)
    for stops in {"plain": ((0, 1, 2, 3), (4, 5)), "compiled": ((3,),)}.get(kind, ((1, 2, 4),)):
        name = "stopped" + "-".join(map(str, stops))
        for steps in stops:
            outcome = cell.train(name, cfg, stop=stop_after(steps))
            assert (outcome.state, outcome.reason) == ("interrupted", "SIGTERM")
            assert cell.status(name)["state"] == "interrupted" and cell.last(name)["step"] == outcome.step
        assert outcome.step == sum(stops)
        assert cell.train(name, cfg).state == "finished"
        assert cell.rows(name) == cell.rows("whole")
        assert same(cell.state(name), cell.state("whole"))
        assert same(cell.last(name, "best.pt"), cell.last("whole", "best.pt"))
        assert cell.status(name)["batch_hash_at"] == cell.status("whole")["batch_hash_at"]


@settings(max_examples=5, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    kills=st.lists(st.integers(1, 9), min_size=1, max_size=2), log=st.integers(1, 6), evaluate=st.integers(1, 6),
    save=st.integers(1, 6),
)  # fmt: skip
def test_killed_at_any_step_it_goes_on_from_its_checkpoint(
    cell: Cell, kills: list[int], log: int, evaluate: int, save: int
) -> None:
    every = {"train__log_every": log, "train__eval_every": evaluate, "train__checkpoint_every": save}
    cfg = cell.cfg(model__dropout=0.2, train__steps=9, **every)
    case = f"{log}-{evaluate}-{save}-{'-'.join(map(str, kills))}"
    cell.train(f"whole{case}", cfg)
    name = f"killed{case}"
    for steps in kills:
        with after(steps, kill), suppress(Killed):
            cell.train(name, cfg)
    assert cell.train(name, cfg).state == "finished"
    assert cell.rows(name) == cell.rows(f"whole{case}")
    assert same(cell.state(name), cell.state(f"whole{case}"))


def test_killed_in_an_evaluation(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    cell.train("whole")
    asked = 0

    def stop() -> None:
        nonlocal asked
        asked += 1
        if asked == 10:  # 2 batches at step 0, then 3 steps; the evaluation at step 3 is under way
            raise Killed

    with pytest.raises(Killed):
        cell.train("killed", stop=stop)
    assert cell.train("killed").state == "finished"
    assert cell.rows("killed") == cell.rows("whole") and same(cell.state("killed"), cell.state("whole"))


def test_rows_that_the_checkpoint_does_not_know_and_torn_lines_are_cut(cell: Cell, stop_after: Stops) -> None:
    cell.train("whole")
    cell.train("run", stop=stop_after(4))
    path = cell.folder / "run" / "metrics.jsonl"
    kept = path.read_bytes()
    path.write_bytes(kept + b'{"step": 5, "tokens": 160, "train/loss": 1}\n{"step": 6, "tok')
    cell.train("run")
    assert path.read_bytes().startswith(kept)
    assert cell.rows("run") == cell.rows("whole")


def test_a_finished_run_is_left_as_it_is(cell: Cell) -> None:
    cell.train("run")
    before = cell.state("run"), (cell.folder / "run" / "metrics.jsonl").read_bytes()
    assert cell.train("run").state == "finished"
    assert same(cell.state("run"), before[0]) and (cell.folder / "run" / "metrics.jsonl").read_bytes() == before[1]


def test_own_checkpoint_of_another_config_is_refused_and_the_folder_left_untouched(cell: Cell) -> None:
    cell.train("run", cell.cfg(train__steps=4))
    before = {p: p.read_bytes() for p in (cell.folder / "run").rglob("*") if p.is_file()}
    with pytest.raises(UsageError) as error:
        cell.train("run", cell.cfg(optimizer__lr=2e-3, choices__norm="layer"))
    for part in ("optimizer.lr: 0.001 -> 0.002", "choices.norm: rms -> layer", "train.steps: 4 -> 6"):
        assert part in str(error.value)
    assert before == {p: p.read_bytes() for p in (cell.folder / "run").rglob("*") if p.is_file()}


# --- train.resume_from


def rates(cell: Cell, name: str) -> list[float]:
    return [row["lr"] for row in cell.rows(name) if "lr" in row]


@pytest.fixture
def half(cell: Cell, stop_after: Stops) -> Any:
    """Config of 12 steps, run whole in `whole` and up to step 6 in `half`."""
    cfg = cell.cfg(train__steps=12, train__log_every=1, schedule__warmup_steps=3, model__dropout=0.1)
    cell.train("whole", cfg)
    cell.train("half", cfg, stop=stop_after(6))
    return cfg


def test_the_same_config_continues_as_if_uninterrupted(cell: Cell, half: Any) -> None:
    for i, source in enumerate(("half", "half/checkpoints", "half/checkpoints/last.pt")):
        cfg = half.copy()
        cfg.train.resume_from = str(cell.folder / source)
        shown: list[dict[str, Any]] = []
        sink = type("Sink", (), {"log": lambda self, row, shown=shown: shown.append(dict(row))})()
        cell.train(f"on{i}", cfg, sinks=[sink])
        assert cell.rows(f"on{i}") == cell.rows("whole")
        assert [row["step"] for row in shown] == list(range(13))
        assert same(cell.last(f"on{i}")["model"], cell.last("whole")["model"])
        assert same(cell.last(f"on{i}", "best.pt")["model"], cell.last("whole", "best.pt")["model"])
    assert cell.last("half")["step"] == 6  # the source is only read


@pytest.mark.parametrize("at", [2, 6, 12])
def test_more_steps_follow_the_stated_rule(
    cell: Cell, stop_after: Stops, caplog: pytest.LogCaptureFixture, at: int
) -> None:
    """min(new schedule, rate of the step before) from a checkpoint past the warm-up; never negative, never up again."""
    cfg = cell.cfg(train__steps=12, train__log_every=1, schedule__warmup_steps=4)
    cell.train("short", cfg, stop=stop_after(at))
    longer = cell.cfg(train__steps=24, train__log_every=1, schedule__warmup_steps=4)
    cell.train("never short", longer)
    longer.train.resume_from = str(cell.folder / "short")
    with caplog.at_level(logging.WARNING):
        cell.train("longer", longer, stop=stop_after(5))
        cell.train("longer", longer)  # the rule outlives an interruption
    assert "12 -> 24" in caplog.text
    found, new = rates(cell, "longer"), rates(cell, "never short")
    assert len(found) == 24 and min(found) >= 0
    peak = found.index(max(found))
    assert peak == 3 and all(a >= b for a, b in pairwise(found[peak:]))
    expected = found[:at]
    for rate in new[at:]:
        expected.append(min(rate, expected[-1]) if at > 3 else rate)
    assert found == expected


def test_harmless_options_may_differ(cell: Cell, half: Any) -> None:
    cfg = half.copy()
    cfg.train.update(log_every=2, eval_every=4, checkpoint_every=1, eval_batch_size=3, device="auto",
                     resume_from=str(cell.folder / "half"))  # fmt: skip
    cfg.note, cfg.runs_dir, cfg.study.name = "other", "elsewhere", "other"
    cfg.train.device = "cpu"
    cell.train("on", cfg)
    assert [row["step"] for row in cell.rows("on") if "train/loss" in row] == [1, 2, 3, 4, 5, 6, 8, 10, 12]
    torch.testing.assert_close(dict(cell.last("on")["model"]), dict(cell.last("whole")["model"]))


REFUSED: list[tuple[dict[str, Any], str]] = [
    ({"choices__norm": "layer"}, "choices.norm: rms -> layer"),
    ({"model__d_model": 64}, "model.d_model: 32 -> 64"),
    ({"model__n_heads": 4}, "model.n_heads: 2 -> 4"),
    ({"seed": 2}, "seed: 1 -> 2"),
    ({"seeds__data": 2}, "seeds.data: 1 -> 2"),
    ({"optimizer__lr": 2e-3}, "optimizer.lr: 0.001 -> 0.002"),
    ({"train__batch_size": 4}, "train.batch_size: 2 -> 4"),
    ({"train__precision": "bf16"}, "train.precision: fp32 -> bf16"),
    ({"schedule__min_lr_ratio": 0.2}, "schedule.min_lr_ratio: 0.1 -> 0.2"),
    ({"data__order": "sequential"}, "data.order: shuffled -> sequential"),
    ({"train__steps": 8}, "train.steps: 12 -> 8"),
    ({"norm": {"eps": 1e-5, "more": 1}}, "norm.more: (none) -> 1"),
]


def test_anything_else_is_refused_by_name(cell: Cell, half: Any) -> None:
    for change, key in REFUSED:
        cfg = cell.cfg(**{"train__steps": 12, "schedule__warmup_steps": 3, "model__dropout": 0.1} | change)
        cfg.train.resume_from = str(cell.folder / "half")
        with pytest.raises(UsageError) as error:
            cell.train("on", cfg)
        assert key in str(error.value) and str(error.value).count(" -> ") == 1
        assert "train.resume_from=" in str(error.value)
    assert not (cell.folder / "on").exists()


def test_other_data_is_refused_by_hash_and_path(cell: Cell, half: Any) -> None:
    from ablab.data import prepare

    other = cell.folder / "other.txt"
    other.write_text("pack my box with five dozen liquor jugs\n" * 50)
    cfg = half.copy()
    cfg.data.path, cfg.train.resume_from = str(other), str(cell.folder / "half")
    with pytest.raises(UsageError, match=r"data\.path: .*tiny\.txt -> .*other\.txt; data \(hash"):
        cell.train("on", cfg, data=prepare(cfg, cell.folder / "cache"))


def test_what_is_no_whole_checkpoint_is_refused(cell: Cell, half: Any) -> None:
    (cell.folder / "junk.pt").write_bytes(b"junk" * 100)
    (cell.folder / "empty").mkdir()
    for source, message in {
        "nowhere": "no such run folder", "junk.pt": "cannot read", "empty": "no readable checkpoint",
        "whole/checkpoints/best.pt": "weights only",
    }.items():  # fmt: skip
        cfg = half.copy()
        cfg.train.resume_from = str(cell.folder / source)
        with pytest.raises(UsageError, match=message) as error:
            cell.train("on", cfg)
        assert "train.resume_from" in str(error.value)
    assert not (cell.folder / "on").exists()


def test_rows_in_the_copied_file_are_strict_json(cell: Cell, half: Any) -> None:
    cfg = half.copy()
    cfg.train.resume_from = str(cell.folder / "half")
    cell.train("on", cfg)
    for line in (cell.folder / "on" / "metrics.jsonl").read_text().splitlines():
        json.loads(line, parse_constant=pytest.fail)
