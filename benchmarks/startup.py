"""Seconds that a user waits: for --help, for the answer to a typing error, for the first training step.

    python benchmarks/startup.py --repeats 5

Each command runs as typed, with prepared tokens (the first study of a text also tokenises it), in a folder of its own.
The first step counts as done when metrics.jsonl has its row; before it the untrained model is evaluated on the whole
validation split, whose row is timed, too. Shown are medians and extremes.
"""

from __future__ import annotations

import argparse
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[1]
RUN = [sys.executable, str(ROOT / "run.py")]


def answer(words: Sequence[str], folder: Path) -> float:
    """Seconds until a command has ended."""
    start = time.perf_counter()
    subprocess.run([*RUN, *words], cwd=folder, capture_output=True, check=False)
    return time.perf_counter() - start


def first_rows(words: Sequence[str], folder: Path, patience: float = 300.0) -> tuple[float, float]:
    """Seconds until the rows of step 0 and of step 1 are written."""
    start = time.perf_counter()
    process = subprocess.Popen(
        [*RUN, *words, "train.log_every=1", "train.steps=2", f"runs_dir={folder / 'runs'}", "fresh=true"],
        cwd=folder, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
    )  # fmt: skip
    seen: dict[int, float] = {}
    begun = time.time()
    try:
        while 1 not in seen and time.perf_counter() - start < patience:
            for path in (folder / "runs").glob("*/metrics.jsonl"):
                if path.stat().st_mtime < begun - 1:
                    continue
                for line in path.read_text().splitlines():
                    seen.setdefault(int(json.loads(line)["step"]), time.perf_counter() - start)
            if process.poll() is not None and 1 not in seen:
                break
            time.sleep(0.02)
    finally:
        process.wait()
    if 1 not in seen:
        raise RuntimeError(f"no step was trained: {' '.join(words)}")
    return seen[0], seen[1]


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=5)
    parser.add_argument("overrides", nargs="*", help="of the run that is started, e.g. tracker=none")
    asked = parser.parse_intermixed_args(arguments)
    found: dict[str, list[float]] = {"--help": [], "norm=rmss (refused)": [], "row of step 0": [], "row of step 1": []}
    with tempfile.TemporaryDirectory(prefix="ablab-startup-") as place:
        folder = Path(place)
        first_rows(asked.overrides, folder)  # tokens, byte code and the disk's cache
        for number in range(asked.repeats):
            found["--help"].append(answer(["--help"], folder))
            found["norm=rmss (refused)"].append(answer(["norm=rmss"], folder))
            zero, one = first_rows([*asked.overrides, f"seed={number + 1}"], folder)
            found["row of step 0"].append(zero)
            found["row of step 1"].append(one)
    print("| | median s | least | most |\n|---|---:|---:|---:|")
    for name, seconds in found.items():
        print(f"| {name} | {statistics.median(seconds):.2f} | {min(seconds):.2f} | {max(seconds):.2f} |")
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
