"""Tokens per second of a whole sweep, start-up, evaluations, checkpoints and report included.

    python benchmarks/sweep.py

Eight demo cells by the default command, beside the bare training rate of the fastest peer with all cores, measured
before and after the sweep (the mean counts). `--steps 100` makes the cells shorter, which favours the peer.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

from peers.sizes import SIZES
from throughput import CONTESTANTS, measure

ROOT = Path(__file__).resolve().parents[1]
GRID = ("norm=rms,layer", "ffn=swiglu,relu", "position=rope,none")
CELLS, STEPS = 8, 290


def peer_rate(threads: int, rounds: int) -> tuple[str, float]:
    """The fastest contestant that is not Ablab."""
    names = [name for name in CONTESTANTS if name not in ("ablab", "bare")]
    results = [r for r in measure("demo", "fp32", "eager", threads, "cpu", names, rounds, 4) if r.absent is None]
    best = max(results, key=lambda r: r.rate)
    return best.name, best.rate


def sweep_seconds(words: Sequence[str], folder: Path) -> float:
    """Wall clock of the sweep as typed in a fresh folder."""
    start = time.perf_counter()
    done = subprocess.run(
        [sys.executable, str(ROOT / "run.py"), "-m", *GRID, *words], cwd=folder, capture_output=True, text=True
    )
    if done.returncode:
        raise RuntimeError(done.stdout[-2000:] + done.stderr[-2000:])
    return time.perf_counter() - start


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--steps", type=int, default=STEPS)
    parser.add_argument("--rounds", type=int, default=5, help="rounds of the peers, before and after")
    parser.add_argument("overrides", nargs="*", help="more words of the sweep, e.g. jobs=1")
    asked = parser.parse_intermixed_args(arguments)
    cores = len(os.sched_getaffinity(0)) if hasattr(os, "sched_getaffinity") else os.cpu_count() or 1
    name, before = peer_rate(cores, asked.rounds)
    words = [*asked.overrides, f"train.steps={asked.steps}"]
    with tempfile.TemporaryDirectory(prefix="ablab-sweep-") as place:
        seconds = sweep_seconds(words, Path(place))
    other, after = peer_rate(cores, asked.rounds)
    rate = CELLS * asked.steps * SIZES["demo"].tokens / seconds
    peer = (before + after) / 2
    print(f"sweep: {CELLS} cells of {asked.steps} steps in {seconds:.0f} s: {rate:,.0f} tokens/s, all included")
    print(
        f"fastest peer, {cores} threads: {name} {before:,.0f} before, {other} {after:,.0f} after: {peer:,.0f} tokens/s"
    )
    print(f"sweep / peer: {rate / peer:.3f}")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
