"""Training speed of Ablab beside other libraries: same sizes, same precision, same optimiser step.

    python benchmarks/throughput.py --sizes demo --precision fp32 --modes eager,compiled --threads 2

Every contestant trains in a process of its own, built once; then they take turns for a few steps at a time, in an order
that rotates, so that whatever else the machine does falls on all of them. Shown are medians over all steps, and the
median over the rounds of each round's ratio to Ablab; also in processor seconds, which do not count the time that
other programs took (with one thread: with more, they count waiting, too). Contestants whose library is missing are named and left out:
`pip install --no-deps transformers litgpt x-transformers` and what they import.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
from collections.abc import Sequence
from contextlib import ExitStack
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path.insert(0, str(HERE))
from peers.sizes import SIZES, Size  # noqa: E402

CONTESTANTS = ("ablab", "bare", "transformers", "litgpt", "x-transformers")
#: dense matrix products by the makers' data sheets, TFLOP/s
PEAKS = {
    "H200": {"bf16": 989.0, "fp32": 67.0},
    "H100": {"bf16": 989.0, "fp32": 67.0},
    "B200": {"bf16": 2250.0, "fp32": 75.0},
    "A100": {"bf16": 312.0, "fp32": 19.5},
    "L40S": {"bf16": 362.0, "fp32": 91.6},
    "L4": {"bf16": 121.0, "fp32": 30.3},
    "4090": {"bf16": 165.2, "fp32": 82.6},
}


class Worker:
    """A contestant's process, see peers/worker.py."""

    def __init__(self, name: str, size: str, precision: str, mode: str, threads: int, device: str) -> None:
        self.name, self.threads = name, threads
        path = os.pathsep.join([str(HERE), str(HERE.parent / "src"), os.environ.get("PYTHONPATH", "")])
        words = [sys.executable, "-m", "peers.worker", name, size, precision, mode, str(threads), device]
        self.process = subprocess.Popen(
            words, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE, text=True, bufsize=1,
            env={**os.environ, "PYTHONPATH": path, "OMP_NUM_THREADS": str(threads)},
        )  # fmt: skip
        try:
            self.facts = self._answer()
        except RuntimeError as error:
            self.facts = {"absent": str(error)}

    def ask(self, verb: str, count: int = 1) -> dict[str, Any]:
        assert self.process.stdin is not None
        self.process.stdin.write(f"{verb} {count}\n")
        self.process.stdin.flush()
        return self._answer()

    def _answer(self) -> dict[str, Any]:
        assert self.process.stdout is not None and self.process.stderr is not None
        line = self.process.stdout.readline()
        if not line:
            raise RuntimeError(f"{self.name} died: " + self.process.stderr.read()[-600:])
        return json.loads(line)  # type: ignore[no-any-return]

    def close(self) -> None:
        """End the process."""
        self.process.kill()
        self.process.communicate()


@dataclass
class Result:
    """One contestant in one setting. Rates are tokens per second."""

    name: str
    rate: float = 0.0
    ratio: float | None = None  # Ablab's rate over this one's
    first_step: float = 0.0  # seconds from the start of its process
    evaluation: float = 0.0  # tokens per second of an evaluation
    memory: int = 0  # bytes of the process at its peak; on CUDA of the device
    mfu: float | None = None
    loss: float = 0.0
    absent: str | None = None
    busy_ratio: float | None = None  # processor seconds of its step over those of Ablab's
    rounds: list[float] = field(default_factory=list)  # median seconds of a step, by round
    busy: list[float] = field(default_factory=list)  # processor seconds per step, by round


def measure(
    size: str, precision: str, mode: str, threads: int, device: str, names: Sequence[str], rounds: int, steps: int
) -> list[Result]:
    """Results of the contestants in one setting."""
    shape = SIZES[size]
    results: list[Result] = []
    with ExitStack() as stack:
        workers: list[tuple[Worker, Result]] = []
        for name in names:
            worker = Worker(name, size, precision, mode, threads, device)
            stack.callback(worker.close)
            result = Result(name, absent=worker.facts.get("absent"), first_step=worker.facts.get("first_step", 0.0))
            results.append(result)
            if result.absent is None:
                workers.append((worker, result))
                worker.ask("steps", min(2, steps))
        seconds: dict[str, list[float]] = {result.name: [] for _, result in workers}
        for number in range(rounds):
            for worker, result in workers[number % len(workers) :] + workers[: number % len(workers)]:
                answer = worker.ask("steps", steps)
                seconds[result.name] += answer["seconds"]
                result.rounds.append(statistics.median(answer["seconds"]))
                result.busy.append(answer["busy"])
                result.loss = answer["loss"]
        sequences = 64 if size != "gpt2_small" else 1
        for worker, result in workers:
            result.rate = shape.tokens / statistics.median(seconds[result.name])
            answer = worker.ask("evaluate", sequences)
            answer = worker.ask("evaluate", sequences)
            result.evaluation = sequences * shape.length / answer["seconds"]
            result.memory = worker.ask("memory")["peak"]
    ours = next((r for r in results if r.name == "ablab" and r.absent is None), None)
    for result in results:
        if ours is not None and result.absent is None:
            result.ratio = statistics.median(b / a for a, b in zip(ours.rounds, result.rounds, strict=True))
            result.busy_ratio = statistics.median(b / a for a, b in zip(ours.busy, result.busy, strict=True))
    return results


def flops_per_token(size: Size) -> int:
    """Training FLOPs of the shared model: 3 (2 N + 4 L T D), N the weights in matrix products."""
    layer = 4 * size.width**2 + 3 * size.width * size.hidden
    return 3 * (2 * (size.layers * layer + size.vocab * size.width) + 4 * size.layers * size.length * size.width)


def matmul_rate(precision: str, threads: int, device: str, quick: bool = False) -> float:
    """FLOP/s of square matrix products here, in a process of their own; the best of a few widths."""
    worker = Worker("matmul", "tiny", precision, "eager", threads, device)
    try:
        # A CPU without bfloat16 instructions would take minutes for a large product.
        widths = (
            (64,) if quick else (4096, 8192) if device == "cuda" else (256,) if precision == "bf16" else (1024, 2048)
        )
        return max(worker.ask("matmul", width)["flops"] for width in widths)
    finally:
        worker.close()


def table(title: str, results: list[Result], peak: float, peak_name: str) -> str:
    """Markdown."""
    lines = [
        f"### {title}",
        "",
        f"{peak_name} {peak / 1e9:,.0f} GFLOP/s",
        "",
        "| | tokens/s | Ablab ÷ it | by processor time | MFU | peak memory MB | first step s | evaluation tokens/s |",
        "|---|---:|---:|---:|---:|---:|---:|---:|",
    ]
    for r in results:
        if r.absent is not None:
            lines.append(f"| {r.name} | absent: {r.absent.splitlines()[-1][:80]} | | | | | | |")
            continue
        ratio = "" if r.ratio is None else f"{r.ratio:.3f} | {r.busy_ratio:.3f}"
        lines.append(
            f"| {r.name} | {r.rate:,.0f} | {ratio} | {(r.mfu or 0):.0%} | {r.memory / 1e6:,.0f} | {r.first_step:.1f} | "
            f"{r.evaluation:,.0f} |"
        )
    return "\n".join([*lines, ""])


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--sizes", default="demo", help=f"of {', '.join(SIZES)}")
    parser.add_argument("--precision", default="fp32", help="of fp32, bf16")
    parser.add_argument("--modes", default="eager", help="of eager, compiled")
    parser.add_argument("--threads", default="2", help="CPU threads, e.g. 1,2")
    parser.add_argument("--device", default="cpu", help="cpu or cuda")
    parser.add_argument("--contestants", default=",".join(CONTESTANTS))
    parser.add_argument("--rounds", type=int, default=7)
    parser.add_argument("--steps", type=int, default=4, help="steps of a contestant in one round")
    parser.add_argument("--quick", action="store_true", help="a tiny size, one round, two contestants: does it work?")
    parser.add_argument("--json", type=Path, help="write all figures to this file")
    asked = parser.parse_args(arguments)
    if asked.quick:
        asked.sizes, asked.contestants, asked.threads, asked.rounds, asked.steps = "tiny", "ablab,bare", "1", 1, 2
    found = []
    for precision in asked.precision.split(","):
        for threads in map(int, asked.threads.split(",")):
            rate = matmul_rate(precision, threads, asked.device, asked.quick)
            for size in asked.sizes.split(","):
                for mode in asked.modes.split(","):
                    results = measure(
                        size, precision, mode, threads, asked.device, asked.contestants.split(","), asked.rounds,
                        asked.steps,
                    )  # fmt: skip
                    for result in results:
                        result.mfu = result.rate * flops_per_token(SIZES[size]) / rate
                    title = f"{size}, {precision}, {mode}, {threads} threads, {asked.device}"
                    print(table(title, results, rate, "matrix products measured here:"), flush=True)
                    found.append({"setting": title, "matmul": rate, "results": [asdict(r) for r in results]})
    if asked.json:
        asked.json.write_text(json.dumps(found, indent=1))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
