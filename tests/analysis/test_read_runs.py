"""Run folders as they are met: options that look like values, torn lines, lines of one step, stale heartbeats."""

from __future__ import annotations

import json
import time
from pathlib import Path

import numpy as np
import pytest

from ablab.analysis import read
from ablab.errors import UsageError


@pytest.mark.parametrize("option", ["none", "null", "NA", "off", "no", "nan", "1", "true", "~"])
@pytest.mark.parametrize("style", ["{{position: {}}}", "\n  position: {}", "\n  position: '{}'"])
def test_an_option_is_the_text_that_was_written(tmp_path: Path, option: str, style: str) -> None:
    path = tmp_path / "config.yaml"
    path.write_text("seed: 3\nchoices: " + style.format(option) + "\nnorm: {eps: 1e-5}\n")
    choices, config = read.read_config(path)
    assert choices == {"position": option}
    assert config == {"seed": 3, "norm.eps": 1e-5}


@pytest.mark.parametrize(
    ("written", "value"),
    [
        ("1e-4", 1e-4),
        ("3.0e-05", 3e-5),
        ("1.5", 1.5),
        ("7", 7),
        ("null", None),
        ("true", True),
        ("2024-01-02", "2024-01-02"),
    ],
)
def test_values_are_read_as_they_were_meant(tmp_path: Path, written: str, value: object) -> None:
    path = tmp_path / "config.yaml"
    path.write_text(f"choices: {{norm: rms}}\noptimizer:\n  lr: {written}\n")
    assert read.read_config(path)[1] == {"optimizer.lr": value}


def test_a_broken_config_is_a_usage_error(tmp_path: Path) -> None:
    (tmp_path / "config.yaml").write_text("a: [1\n")
    with pytest.raises(UsageError, match=r"config\.yaml is no readable YAML"):
        read.read_config(tmp_path / "config.yaml")


def test_rows_of_one_step_are_one_row_and_the_later_value_wins(tmp_path: Path) -> None:
    rows = [{"step": 0, "val/loss": 4.0}, {"step": 5, "train/loss": 3.0}, {"step": 5, "val/loss": 2.9},
            {"step": 10, "train/loss": 2.0}, {"step": 5, "train/loss": 3.5}]  # fmt: skip
    path = tmp_path / "metrics.jsonl"
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    history = read.read_history(path)
    assert history["step"].tolist() == [0, 5, 10]
    np.testing.assert_array_equal(history["train/loss"], [np.nan, 3.5, 2.0])
    np.testing.assert_array_equal(history["val/loss"], [4.0, 2.9, np.nan])


@pytest.mark.parametrize("count", [3, 2000])  # the second is long enough for the fast reader
def test_a_torn_last_line_is_left_out_and_a_torn_middle_one_named(tmp_path: Path, count: int) -> None:
    path = tmp_path / "metrics.jsonl"
    lines = [json.dumps({"step": step, "val/loss": 2.0, "train/loss": None}) for step in range(count)]
    path.write_text("\n".join(lines) + '\n{"step": 99999, "val/l')
    history = read.read_history(path)
    assert len(history["step"]) == count and np.isnan(history["train/loss"]).all()
    path.write_text('{"step": 0\n' + "\n".join(lines) + "\n")
    with pytest.raises(ValueError, match=r"metrics.jsonl:1 is no JSON object"):
        read.read_history(path)


def test_both_readers_agree(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "metrics.jsonl"
    rows = [{"step": n, "tokens": n * 7, **({"val/loss": n / 3} if n % 4 == 0 else {}), "x": None} for n in range(900)]
    path.write_text("".join(json.dumps(row) + "\n" for row in rows))
    plain = read.read_history(path)
    monkeypatch.setattr(read, "LARGE", 0)
    fast = read.read_history(path)
    assert plain.keys() == fast.keys()
    for name in plain:
        np.testing.assert_array_equal(plain[name], fast[name])


@pytest.mark.parametrize("value", ["NaN", "Infinity", "null", '"words"', "[1]"])
def test_what_is_no_number_never_counts_as_one(tmp_path: Path, value: str) -> None:
    path = tmp_path / "metrics.jsonl"
    path.write_text(f'{{"step": 1, "val/loss": 2.0}}\n{{"step": 2, "val/loss": {value}}}\n')
    run = read.Run("r", None, {}, 0, {}, {}, "finished", read.read_history(path))
    assert run.last("val/loss") == 2.0
    assert run.points("val/loss")[0].tolist() == [1.0]


def test_a_running_state_without_a_heartbeat_is_interrupted(pool) -> None:
    old = pool.run({"norm": "rms"}, 0, state="running", status={"heartbeat": time.time() - 3600})
    new = pool.run({"norm": "rms"}, 1, state="running", status={"heartbeat": time.time()})
    assert read.read_run(old).state == "interrupted"
    assert read.read_run(new).state == "running"


def test_three_files_are_enough(tmp_path: Path) -> None:
    folder = tmp_path / "mine"
    folder.mkdir()
    (folder / "config.yaml").write_text("choices:\n  norm: rms\nseed: 4\n")
    (folder / "metrics.jsonl").write_text('{"step": 0, "val/loss": 3.0}\n')
    (folder / "status.json").write_text('{"state": "finished"}')
    run = read.read_run(folder)
    assert (run.choices, run.seed, run.state, run.last("val/loss")) == ({"norm": "rms"}, 4, "finished", 3.0)
