"""The tidy table: one row per run and step, labels as text, numbers as numbers, nothing dropped."""

from __future__ import annotations

from pathlib import Path

import pandas as pd
import pytest

from ablab.analysis.collect import collect, main, read_curves, write

FIRST = ["run", "label", "state", "seed", "step", "tokens"]


def test_one_row_per_run_and_step_with_the_columns_in_order(pool) -> None:
    pool.run({"norm": "rms", "ffn": "relu", "data": "kjv"}, 0, config={"optimizer": {"lr": 1e-3, "eps": 1e-8}})
    pool.run({"norm": "layer", "ffn": "relu", "data": "kjv"}, 1, config={"optimizer": {"lr": 3e-5, "eps": 1e-8}})
    curves = collect([pool.root])
    assert list(curves.columns[:8]) == [*FIRST, "norm", "optimizer.lr"]
    assert {"train/loss", "val/loss", "lr"} <= set(curves.columns[8:])
    assert "ffn" not in curves and "optimizer.eps" not in curves
    assert len(curves) == 2 * 13 and not curves.duplicated(["run", "step"]).any()
    assert curves["tokens"].tolist() == (curves["step"] * 64).tolist()


@pytest.mark.parametrize("ending", ["csv", "parquet"])
def test_labels_that_look_like_nothing_stay_text(pool, tmp_path: Path, ending: str) -> None:
    options = ["none", "null", "NA", "nan", "off", "rope"]
    for option in options:
        pool.run({"position": option})
    out = tmp_path / f"curves.{ending}"
    write(collect([pool.root]), out)
    back = read_curves(out)

    assert set(back["position"]) == set(options)
    assert all(isinstance(option, str) for option in back["position"])
    assert back.groupby("position", dropna=False).size().sum() == len(back)


def test_rates_in_exponent_form_are_numbers_and_sort_as_numbers(pool, tmp_path: Path) -> None:
    for number, written in enumerate(["1e-4", "3e-5", "1e-3"]):
        folder = pool.run({"norm": "rms"}, name=f"r{number}")
        (folder / "config.yaml").write_text(f"choices: {{norm: rms}}\nseed: 0\noptimizer: {{lr: {written}}}\n")
    out = tmp_path / "curves.csv"
    write(collect([pool.root]), out)
    plain = pd.read_csv(out, keep_default_na=False)
    assert plain["optimizer.lr"].dtype == float
    assert sorted(plain["optimizer.lr"].unique()) == [3e-5, 1e-4, 1e-3]


def test_absent_values_are_empty_fields(pool, tmp_path: Path) -> None:
    pool.run({"norm": "rms"}, config={"norm": {"eps": 1e-5}})
    pool.run({"norm": "identity"}, config={"norm": {}})
    out = tmp_path / "curves.csv"
    write(collect([pool.root]), out)
    text = pd.read_csv(out, dtype=str, keep_default_na=False)
    assert set(text.loc[text["norm"] == "identity", "norm.eps"]) == {""}
    assert set(text.loc[text["norm"] == "rms", "norm.eps"]) == {"1e-05"}
    assert set(text.loc[text["step"] == "5", "val/loss"]) == {""}


def test_keys_logged_at_different_steps_keep_their_rows(pool) -> None:
    rows = [{"step": step, "train/loss": 2.0} for step in range(1, 8)] + [
        {"step": step, "val/loss": 2.5} for step in (3, 6)
    ]
    pool.run({"norm": "rms"}, rows=rows)
    curves = collect([pool.root])
    assert curves["train/loss"].notna().sum() == 7 and curves["val/loss"].notna().sum() == 2
    assert curves["step"].tolist() == [1, 2, 3, 4, 5, 6, 7]


def test_a_study_reads_its_runs_from_the_pool(pool) -> None:
    cells = [
        {"factors": {"norm": norm}, "seed": 0, "folder": pool.run({"norm": norm, "ffn": "relu"}).name}
        for norm in ("rms", "layer")
    ]
    pool.run({"norm": "rms", "ffn": "swiglu"}, name="of-another-study")
    study = pool.study("s", cells, {"norm": ["rms", "layer"]})
    curves = collect([study])
    assert sorted(set(curves["label"])) == ["norm=layer", "norm=rms"]
    assert "of-another-study" not in set(curves["run"])


def test_the_result_does_not_need_the_trackers_folder(pool) -> None:
    pool.run({"norm": "rms"})
    pool.run({"norm": "layer"})
    tracked = pool.root / "wandb" / "offline-run-1"
    tracked.mkdir(parents=True)
    before = collect([pool.root])
    tracked.rmdir()
    tracked.parent.rmdir()
    pd.testing.assert_frame_equal(before, collect([pool.root]))


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (["nowhere"], "nowhere is no folder"),
        (["."], "no runs in"),
        ([], "give either PATHs or --wandb"),
        (["runs", "--wandb", "a/b"], "give either PATHs or --wandb"),
        (["runs", "--out", "curves.xls"], "must end in .csv or .parquet"),
    ],
)
def test_bad_calls_say_what_is_wrong(pool, monkeypatch, capsys, arguments: list[str], message: str) -> None:
    pool.run({"norm": "rms"})
    monkeypatch.chdir(pool.root.parent)
    assert main(arguments) != 0
    assert message in capsys.readouterr().err
    assert not Path("curves.csv").exists()


def test_the_command_writes_the_table(pool, monkeypatch, capsys) -> None:
    pool.run({"norm": "rms"})
    monkeypatch.chdir(pool.root.parent)
    assert main(["runs"]) == 0
    assert "13 rows of 1 runs" in capsys.readouterr().out
    assert len(read_curves(Path("curves.csv"))) == 13
