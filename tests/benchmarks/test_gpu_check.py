from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from support.commands import ROOT
from support.scripts import load

Check = Callable[..., tuple[int, str]]


@pytest.fixture
def check(tmp_path: Path, capsys: pytest.CaptureFixture[str], monkeypatch: pytest.MonkeyPatch) -> Check:
    """Runs the script on the CPU with a tiny model; its exit code and what it printed."""
    monkeypatch.syspath_prepend(str(ROOT / "benchmarks"))
    script = load("gpu_check")
    text = tmp_path / "text.txt"
    text.write_text("the quick brown fox jumps over the lazy dog\n" * 60)

    def run(*words: str) -> tuple[int, str]:
        common = ["--device", "cpu", "--tiny", "--eager", "--steps", "4", "data=text", f"data.path={text}"]
        code = script.main([*common, *words])
        return code, capsys.readouterr().out

    return run


def test_variants_are_trained_twice_and_peers_follow(check: Check) -> None:
    code, out = check("--variants", "2")
    assert code == 0, out
    for label in ("baseline", "norm=layer", "ablab", "bare"):
        rows = [line for line in out.splitlines() if line.startswith(f"| {label} |")]
        assert rows and float(rows[-1].split("|")[2].replace(",", "")) > 0, out
    assert "seeds together" in out and out.rstrip().endswith("fine")


def test_a_variant_that_cannot_be_trained_is_named_and_fails_the_check(check: Check) -> None:
    code, out = check("--variants", "1", "--no-peers", "model.n_heads=3")
    assert code == 1 and "WRONG: baseline" in out and "n_heads" in out
    assert out.rstrip().endswith("failed")


def test_what_no_time_is_left_for_is_said(check: Check) -> None:
    code, out = check("--variants", "2", "--budget", "0")
    assert code == 0 and "left out: baseline, norm=layer, peers, seeds together" in out
