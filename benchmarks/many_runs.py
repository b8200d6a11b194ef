"""Twenty runs in one sweep: does anything grow, and what does a run cost beside its steps?

    python benchmarks/many_runs.py

Prints memory, open files and child processes of the sweep's process after every run, and the seconds that a run of
one optimiser step takes from start to end.
"""

from __future__ import annotations

import argparse
import os
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
SIZES = [
    "model.d_model=32",
    "model.n_layers=1",
    "model.n_heads=2",
    "model.context_length=16",
    "data=text",
    "train.batch_size=2",
    "train.steps=1",
    "train.eval_every=1",
    "train.device=cpu",
    "jobs=1",
]


def look(pid: int) -> tuple[int, int, int]:
    """(memory in MB, open files, children) of a process."""
    status = Path(f"/proc/{pid}/status").read_text()
    memory = int(next(line for line in status.splitlines() if line.startswith("VmRSS")).split()[1]) // 1024
    children = Path(f"/proc/{pid}/task/{pid}/children").read_text().split()
    return memory, len(os.listdir(f"/proc/{pid}/fd")), len(children)


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--runs", type=int, default=20)
    parser.add_argument("--tracker", default="wandb")
    args = parser.parse_args()
    with tempfile.TemporaryDirectory(prefix="ablab-many-") as place:
        folder = Path(place)
        (folder / "text.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 50)
        seeds = ",".join(map(str, range(args.runs)))
        words = [sys.executable, str(ROOT / "run.py"), "-m", *SIZES, "data.path=text.txt", f"seed={seeds}",
                 f"tracker={args.tracker}", "tracker.mode=offline" if args.tracker == "wandb" else "note=none"]  # fmt: skip
        process = subprocess.Popen(words, cwd=folder, stdout=subprocess.DEVNULL)
        done, last, spent = 0, 0.0, []
        print(f"{'runs':>4} {'MB':>5} {'files':>5} {'children':>8} {'seconds':>8}")
        while process.poll() is None:
            finished = sum('"finished"' in f.read_text() for f in (folder / "runs").glob("*/status.json"))
            if finished > done:
                now = time.monotonic()
                if done:
                    spent.append((now - last) / (finished - done))
                done, last = finished, now
                print(
                    "{:>4} {:>5} {:>5} {:>8} {}".format(done, *look(process.pid), f"{spent[-1]:8.2f}" if spent else "")
                )
            time.sleep(0.05)
        size = sum(
            f.stat().st_size for f in (folder / "runs").rglob("*") if f.is_file() and "checkpoints" not in f.parts
        )
        print(f"exit {process.returncode}; median {sorted(spent)[len(spent) // 2]:.2f} s a run; "
              f"{size / args.runs / 1e3:.0f} kB a run without checkpoints")  # fmt: skip
    return process.returncode


if __name__ == "__main__":
    raise SystemExit(main())
