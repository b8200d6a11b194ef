"""Checkpoint files: whole or not there, found to be broken when they are, readable by others."""

from __future__ import annotations

import errno
import logging
import os
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import torch
import torch._dynamo
from omegaconf import OmegaConf
from safetensors.torch import load_file
from support.tiny_cell import Cell, same

from ablab.errors import UsageError
from ablab.model import build_model
from ablab.training import checkpoint, device
from ablab.training.checkpoint import CheckpointError

Stops = Callable[[int], Callable[[], str | None]]
WEIGHTS = {"model": {"w": torch.arange(1000.0)}}


def test_a_finished_run_keeps_last_best_and_weights_and_nothing_half_written(cell: Cell) -> None:
    (cell.folder / "run" / "checkpoints").mkdir(parents=True)
    (cell.folder / "run" / "checkpoints" / "last.pt.tmp").write_bytes(b"half")
    (cell.folder / "run" / ".status.json.0-1.tmp").write_bytes(b"half")
    cell.train("run")
    assert cell.files("run") == {"last.pt", "best.pt", "model.safetensors"}
    assert not list((cell.folder / "run").rglob("*.tmp"))


def test_killed_inside_torch_save_the_checkpoint_before_still_serves(cell: Cell, tmp_path: Path) -> None:
    """A child process dies with half of a checkpoint written, at its fifth save."""
    steps = 5
    OmegaConf.save(cell.cfg(train__checkpoint_every=1), tmp_path / "cfg.yaml")
    script = f"""
import io, os, sys, torch
from pathlib import Path
from omegaconf import OmegaConf
from ablab.data import open_data
from ablab.training import train
plain, calls = torch.save, 0
def save(content, path, **options):
    global calls
    calls += "last.pt" in str(path)
    if calls < {steps}:
        return plain(content, path, **options)
    whole = io.BytesIO()
    plain(content, whole)
    Path(path).write_bytes(whole.getvalue()[: len(whole.getvalue()) // 2])
    os._exit(9)
torch.save = save
train(OmegaConf.load({str(tmp_path / "cfg.yaml")!r}), Path({str(tmp_path / "run")!r}), open_data(Path({str(cell.data.folder)!r})))
"""
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, timeout=300)
    assert done.returncode == 9, done.stderr
    assert "last.pt.tmp" in cell.files("run")
    assert cell.last("run")["step"] == steps - 2  # the first save is at step 0
    cfg = cell.cfg(train__checkpoint_every=1)
    assert cell.train("run", cfg).state == "finished"
    cell.train("whole", cfg)
    assert cell.rows("run") == cell.rows("whole") and same(cell.state("run"), cell.state("whole"))
    assert not any(name.endswith(".tmp") for name in cell.files("run"))


def damage(path: Path, how: str) -> None:
    whole = path.read_bytes()
    if how == "flipped":
        at = whole.index(b"data/0") + 2000  # inside the numbers, where unpickling notices nothing
        path.write_bytes(whole[:at] + bytes([whole[at] ^ 1]) + whole[at + 1 :])
    elif how == "other":
        torch.save({"some": 1}, path)
    else:
        path.write_bytes(whole[: int(how)] if int(how) >= 0 else whole[: len(whole) + int(how)])


def test_a_broken_last_checkpoint_falls_back_to_the_one_before_and_says_so(
    cell: Cell, stop_after: Stops, caplog: pytest.LogCaptureFixture
) -> None:
    cfg = cell.cfg(train__checkpoint_every=2)
    cell.train("whole", cfg)
    cell.train("stopped", cfg, stop=stop_after(5))
    assert cell.files("stopped") == {"last.pt", "previous.pt", "best.pt"}
    for how in ("0", "1", "500", "20000", "-1", "flipped", "other"):
        shutil.copytree(cell.folder / "stopped", cell.folder / how)
        damage(cell.folder / how / "checkpoints" / "last.pt", how)
        caplog.clear()
        with caplog.at_level(logging.WARNING):
            cell.train(how, cfg, stop=stop_after(1))
        for part in ("cannot read", "last.pt", "the one before"):
            assert part in caplog.text, how
        assert cell.last(how)["step"] == 5
        assert cell.last(how, "previous.pt")["step"] == 4  # not the broken one
        cell.train(how, cfg)
        assert cell.rows(how) == cell.rows("whole") and same(cell.state(how), cell.state("whole")), how


def test_without_any_readable_checkpoint_the_run_starts_again(
    cell: Cell, stop_after: Stops, caplog: pytest.LogCaptureFixture
) -> None:
    cell.train("run", stop=stop_after(5))
    for name in ("last.pt", "previous.pt"):
        (cell.folder / "run" / "checkpoints" / name).write_bytes(b"")
    with caplog.at_level(logging.WARNING):
        cell.train("run")
    assert "again from step 0" in caplog.text
    cell.train("whole")
    assert cell.rows("run") == cell.rows("whole")


@pytest.mark.parametrize(
    "error", [OSError(errno.ENOSPC, "No space left on device"), RuntimeError("unexpected pos 5 vs 3")]
)
def test_a_full_disk_is_a_clear_error_and_harms_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, error: Exception
) -> None:
    path = tmp_path / "last.pt"
    checkpoint.write(path, WEIGHTS)

    def full(content: Any, target: str) -> None:
        Path(target).write_bytes(b"half")
        raise error

    monkeypatch.setattr(torch, "save", full)
    with pytest.raises(CheckpointError, match=r"cannot write .*last\.pt: .*(No space|unexpected pos).*free space"):
        checkpoint.write(path, {"model": {}}, keep=tmp_path / "previous.pt")
    assert [p.name for p in tmp_path.iterdir()] == ["last.pt"]
    assert same(checkpoint.read(path), WEIGHTS)


def test_a_folder_that_cannot_be_made_is_a_clear_error(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("in the way")
    for write in (checkpoint.write, lambda p, c: checkpoint.write_weights(p, c["model"], {})):
        with pytest.raises(CheckpointError, match="cannot write"):
            write(tmp_path / "file" / "last.pt", WEIGHTS)


def test_an_error_while_saving_ends_the_run_and_leaves_it_resumable(
    cell: Cell, monkeypatch: pytest.MonkeyPatch
) -> None:
    plain, calls = torch.save, 0

    def third(content: Any, target: str) -> None:
        nonlocal calls
        calls += "last.pt" in str(target)
        if calls == 2:
            raise OSError(errno.ENOSPC, "No space left on device")
        plain(content, target)

    with monkeypatch.context() as patch:
        patch.setattr(torch, "save", third)
        with pytest.raises(CheckpointError):
            cell.train("run")
    assert cell.status("run")["state"] == "failed" and "No space left" in cell.status("run")["reason"]
    cell.train("run")
    cell.train("whole")
    assert cell.rows("run") == cell.rows("whole")


def test_files_are_as_open_to_others_as_their_folder(cell: Cell) -> None:
    (cell.folder / "run" / "checkpoints").mkdir(parents=True)
    (cell.folder / "run" / "checkpoints").chmod(0o770)
    cell.train("run")
    for path in (cell.folder / "run" / "checkpoints").iterdir():
        assert path.stat().st_mode & 0o777 == 0o660


@pytest.mark.parametrize("embedding", ["tied", "untied"])
def test_others_can_load_what_is_left(cell: Cell, embedding: str) -> None:
    cfg = cell.cfg(choices__embedding=embedding)
    cell.train("run", cfg)
    last = cell.last("run")
    expected = build_model(cfg, cell.data.vocab_size).state_dict().keys()
    weights = load_file(cell.folder / "run" / "checkpoints" / "model.safetensors")
    assert last["model"].keys() == weights.keys() == expected
    assert ("lm_head.weight" in expected) == (embedding == "untied")
    assert all(torch.equal(weights[name], last["model"][name]) for name in weights)
    model = build_model(cfg, cell.data.vocab_size)
    model.load_state_dict(last["model"], strict=True)
    tied = model.lm_head.weight.data_ptr() == model.token_embeddings.weight.data_ptr()
    assert tied == (embedding == "tied")
    assert OmegaConf.create(last["config"]) == cfg
    assert (last["data_hash"], last["tokenizer_hash"]) == (cell.data.hash, cell.data.tokenizer.hash)


def test_weights_that_share_storage_are_exported_whole(tmp_path: Path) -> None:
    one = torch.randn(3, 4)
    checkpoint.write_weights(tmp_path / "w.safetensors", {"a": one, "b": one, "c": one.T}, {})
    loaded = load_file(tmp_path / "w.safetensors")
    assert torch.equal(loaded["a"], one) and torch.equal(loaded["b"], one) and torch.equal(loaded["c"], one.T)


def test_compiled_and_plain_runs_load_each_other(
    cell: Cell, stop_after: Stops, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(device, "BACKEND", "eager")
    monkeypatch.setattr(torch._dynamo, "reset", lambda: None)
    cfg = cell.cfg(model__n_layers=1)
    cell.train("whole", cfg)
    for name, first, then in (("away", True, False), ("to", False, True)):
        one = cfg.copy()
        one.train.compile = first
        cell.train(f"{name}1", one, stop=stop_after(3))
        assert not any("_orig_mod" in key for key in cell.last(f"{name}1")["model"])
        two = cfg.copy()
        two.train.compile, two.train.resume_from = then, str(cell.folder / f"{name}1")
        cell.train(f"{name}2", two)
        for key, weight in cell.last("whole")["model"].items():
            torch.testing.assert_close(cell.last(f"{name}2")["model"][key], weight, rtol=0, atol=1e-5)


def test_an_optimiser_over_other_parameters_is_refused(cell: Cell, stop_after: Stops) -> None:
    cell.train("run", stop=stop_after(2))
    content = cell.last("run")
    content["optimizer"]["param_groups"][0]["names"].reverse()
    checkpoint.write(cell.folder / "run" / "checkpoints" / "last.pt", content)
    with pytest.raises(UsageError, match="other parameters"):
        cell.train("run")


def test_the_disk_is_asked_to_keep_the_bytes_before_the_name_changes(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    events: list[str] = []
    replace = os.replace
    monkeypatch.setattr(os, "fsync", lambda handle: events.append("fsync"))
    monkeypatch.setattr(os, "replace", lambda a, b: (events.append(f"rename {Path(b).name}"), replace(a, b)))
    checkpoint.write(tmp_path / "last.pt", WEIGHTS, keep=tmp_path / "previous.pt")
    checkpoint.write(tmp_path / "last.pt", WEIGHTS, keep=tmp_path / "previous.pt")
    first = ["fsync", "rename last.pt", "fsync"]
    assert events == [*first, "fsync", "rename previous.pt", "rename last.pt", "fsync"]
