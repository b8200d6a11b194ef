from __future__ import annotations

import gc
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import torch
from support.tiny_cell import Cell

from ablab.errors import UsageError
from ablab.model import build_model
from ablab.training import device
from ablab.training.device import compiled, quiet_gc, resolve_device, runtime


def test_auto_takes_the_fastest_that_is_there(monkeypatch: pytest.MonkeyPatch) -> None:
    for cuda, mps, expected in ((True, True, "cuda"), (False, True, "mps"), (False, False, "cpu")):
        monkeypatch.setattr(torch.cuda, "is_available", lambda there=cuda: there)
        monkeypatch.setattr(torch.backends.mps, "is_available", lambda there=mps: there)
        assert resolve_device("auto").type == expected
        assert resolve_device("cpu").type == "cpu"


@pytest.mark.parametrize("name", ["cuda", "mps", "tpu", ""])
def test_a_device_that_is_not_there_is_refused_by_name(monkeypatch: pytest.MonkeyPatch, name: str) -> None:
    monkeypatch.setattr(torch.cuda, "is_available", lambda: False)
    monkeypatch.setattr(torch.backends.mps, "is_available", lambda: False)
    with pytest.raises(UsageError, match=f"train.device={name}: .*cpu"):
        resolve_device(name)


def test_an_unknown_precision_is_refused_by_name() -> None:
    with pytest.raises(UsageError, match=r"train\.precision=fp16: choices: fp32, bf16"), runtime("cpu", 1, "fp16"):
        pytest.fail("entered")


def test_threads_and_tf32_are_set_for_the_run_and_put_back(cell: Cell) -> None:
    flags = torch.backends.cuda.matmul
    before = torch.get_num_threads(), flags.allow_tf32, torch.backends.cudnn.allow_tf32
    torch.backends.cudnn.allow_tf32 = flags.allow_tf32 = True
    seen: list[Any] = []

    def spy() -> None:
        seen.append((torch.get_num_threads(), flags.allow_tf32, torch.backends.cudnn.allow_tf32))

    try:
        cell.train("run", cell.cfg(train__threads=2, train__steps=1), stop=spy)
        assert set(seen) == {(2, False, False)}
        assert (flags.allow_tf32, torch.backends.cudnn.allow_tf32) == (True, True)
        assert torch.get_num_threads() == before[0]
    finally:
        flags.allow_tf32, torch.backends.cudnn.allow_tf32 = before[1:]


def test_no_garbage_collection_inside_and_as_before_outside() -> None:
    for was_on in (True, False):
        (gc.enable if was_on else gc.disable)()
        try:
            with pytest.raises(RuntimeError), quiet_gc():
                assert not gc.isenabled() and gc.get_freeze_count() > 0
                raise RuntimeError
            assert gc.isenabled() is was_on
        finally:
            gc.enable()
    assert gc.get_freeze_count() == 0


def test_blocks_are_compiled_in_place_and_the_model_is_put_back(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    graphs = []

    def backend(graph: torch.fx.GraphModule, inputs: list[Any]) -> Any:
        graphs.append(graph)
        return graph.forward

    monkeypatch.setattr(device, "BACKEND", backend)
    model = build_model(cell.cfg(model__n_layers=3), 30).eval()
    keys, ids = list(model.state_dict()), torch.arange(16)[None]
    with torch.no_grad():
        plain = model(ids)
        with compiled(model, True):
            torch.testing.assert_close(model(ids), plain)
            assert len(graphs) == 1  # one graph serves all layers
            assert list(model.state_dict()) == keys
        model(ids[:, :5])
        assert len(graphs) == 1
        with compiled(model, False):
            model(ids[:, :6])
        assert len(graphs) == 1


def test_too_many_recompilations_are_an_error_and_not_silent_eager(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "BACKEND", "eager")
    monkeypatch.setattr(device, "RECOMPILES", 1)
    model = build_model(cell.cfg(model__n_layers=1), 30).eval()
    with torch.no_grad(), compiled(model, True):
        model(torch.arange(16)[None])
        with pytest.raises(Exception, match=r"(?i)recompile"):
            model(torch.arange(8)[None])


def test_a_block_that_cannot_be_compiled_whole_is_an_error(cell: Cell, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(device, "BACKEND", "eager")
    model = build_model(cell.cfg(model__n_layers=1), 30)
    plain = model.layers[0].ffn.forward

    def broken(x: torch.Tensor) -> torch.Tensor:
        torch._dynamo.graph_break()
        return plain(x)

    monkeypatch.setattr(model.layers[0].ffn, "forward", broken)
    with compiled(model, True), pytest.raises(torch._dynamo.exc.Unsupported):
        model(torch.arange(16)[None])


@pytest.mark.skipif(not sys.platform.startswith("linux"), reason="the C library has no such setting")
def test_memory_that_is_freed_is_used_again_without_asking_the_system() -> None:
    code = (
        "import resource, torch; from ablab.training.device import runtime\n"
        "with runtime('cpu', 1, 'fp32'):\n"
        "    for n in range(60):\n"
        "        if n == 10: before = resource.getrusage(resource.RUSAGE_SELF).ru_minflt\n"
        "        blocks = [torch.ones(2**20) for _ in range(4)]\n"
        "        del blocks\n"
        "print(resource.getrusage(resource.RUSAGE_SELF).ru_minflt - before)"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert int(done.stdout) < 1000  # 200,000 pages of 4 KiB otherwise


def test_compiled_code_is_kept_where_the_sweep_finds_it(
    cell: Cell, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.delenv("TORCHINDUCTOR_CACHE_DIR", raising=False)
    model = build_model(cell.cfg(model__n_layers=1), 30)
    with compiled(model, True, tmp_path):
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == str(tmp_path)
    assert os.environ.get("TORCHINDUCTOR_CACHE_DIR") != str(tmp_path)
    elsewhere = str(tmp_path / "elsewhere")
    monkeypatch.setenv("TORCHINDUCTOR_CACHE_DIR", elsewhere)
    with compiled(model, True, tmp_path):
        assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == elsewhere
    assert os.environ["TORCHINDUCTOR_CACHE_DIR"] == elsewhere
