"""Does training work, and how fast is it, on the GPU at hand? Needs no network; under five minutes on one H200.

    python benchmarks/gpu_check.py

Trains every variant a few hundred steps in bf16 with compiled blocks and again in plain fp32, both by the loop that
runs use, then times the peers that are installed, and seeds trained as one batched model. Prints a table of speed,
share of the maker's peak, memory and losses, and ends with 1 if a variant failed or its bf16 loss is off. `--budget`
seconds after the start no new training begins; what was left out is said.
"""

from __future__ import annotations

import argparse
import statistics
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

HERE = Path(__file__).resolve().parent
sys.path[:0] = [str(HERE), str(HERE.parent / "src")]

import seeds_together  # noqa: E402
import throughput  # noqa: E402
import torch  # noqa: E402

import ablab  # noqa: E402
from ablab.costs import costs  # noqa: E402
from ablab.data import TokenData, prepare  # noqa: E402
from ablab.runfolder import read_metrics  # noqa: E402
from ablab.training import train  # noqa: E402
from ablab.training.environment import peak_memory  # noqa: E402

VARIANTS = (
    "", "norm=layer", "norm=identity", "block=post_norm", "ffn=relu", "position=none", "embedding=tied",
)  # fmt: skip
SCALE = ("scale=cs336", "data.tokenizer=char", "data.vocab_size=null", "train.batch_size=64", "optimizer.lr=5e-4")
TINY = (
    "model.d_model=32", "model.n_layers=2", "model.n_heads=2", "model.context_length=16", "train.batch_size=4",
)  # fmt: skip
#: nats per token by which the bf16 loss may differ from the fp32 loss of the same seed after so short a training
ROOM = 0.05


@dataclass
class Trained:
    """One training. rate: tokens per second after the first rows; memory: bytes; first: seconds to the first row."""

    rate: float
    loss: float
    memory: int
    seconds: float
    state: str


def run(words: Sequence[str], data: TokenData | None, cache: Path) -> tuple[Trained, Any, TokenData]:
    """Train a config in a folder of its own."""
    cfg = ablab.compose(list(words))
    data = prepare(cfg, cache) if data is None else data
    cuda = torch.device(cfg.train.device).type == "cuda"
    if cuda:
        torch.cuda.empty_cache()
        torch.cuda.reset_peak_memory_stats()
    start = time.perf_counter()
    with tempfile.TemporaryDirectory(prefix="ablab-gpu-") as folder:
        outcome = train(cfg, Path(folder), data)
        rows = read_metrics(Path(folder))
    rates = [row["tokens_per_second"] for row in rows if row.get("tokens_per_second")]
    loss = [row["val/loss"] for row in rows if row.get("val/loss") is not None][-1]
    memory = peak_memory(torch.device(cfg.train.device)) or 0
    settled = rates[len(rates) // 3 :]  # the first rows pay for compiling and warming up
    return (
        Trained(statistics.median(settled), loss, memory, time.perf_counter() - start, outcome.state),
        cfg,
        data,
    )


def peak(precision: str) -> float | None:
    """The maker's FLOP/s of this GPU, None if it is not in the table."""
    name = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    found = next((rates for key, rates in throughput.PEAKS.items() if key in name), None)
    return None if found is None else found[precision] * 1e12


def share(rate: float, flops: int, precision: str) -> str:
    most = peak(precision)
    return "" if most is None else f"{rate * flops / most:.0%}"


def main(arguments: Sequence[str] | None = None) -> int:
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--device", default="cuda")
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--budget", type=float, default=240.0, help="seconds after which nothing new begins")
    parser.add_argument("--variants", type=int, default=len(VARIANTS), help="how many of them")
    parser.add_argument("--eager", action="store_true", help="bf16 without compiling")
    parser.add_argument("--tiny", action="store_true", help="a tiny model: does the script work?")
    parser.add_argument("--no-peers", action="store_true")
    parser.add_argument("overrides", nargs="*", help="of every training, e.g. data.path=corpus.txt data=text")
    asked = parser.parse_intermixed_args(arguments)
    if asked.device == "cuda" and not torch.cuda.is_available():
        parser.error("no CUDA device here; --device cpu --tiny tries the script itself")
    begun = time.perf_counter()
    late = lambda: time.perf_counter() - begun > asked.budget  # noqa: E731
    name = torch.cuda.get_device_name() if asked.device == "cuda" else "CPU"
    print(f"{name}, torch {torch.__version__}, {asked.steps} steps each")
    every = max(1, asked.steps // 20)
    common = [
        *(TINY if asked.tiny else SCALE), "tracker=none", f"train.steps={asked.steps}", f"train.device={asked.device}",
        f"train.log_every={every}", f"train.eval_every={asked.steps}", f"train.checkpoint_every={asked.steps}",
        "schedule.warmup_steps=10", *asked.overrides,
    ]  # fmt: skip
    lines, left_out, wrong = [], [], []
    data: TokenData | None = None
    with tempfile.TemporaryDirectory(prefix="ablab-gpu-data-") as place:
        common.append(f"runs_dir={place}")
        for variant in VARIANTS[: asked.variants]:
            label = variant or "baseline"
            if late():
                left_out.append(label)
                continue
            words = common + ([variant] if variant else [])
            try:
                fast, cfg, data = run(
                    [*words, "train.precision=bf16", f"train.compile={not asked.eager}"], data, Path(place)
                )
                plain, _, _ = run([*words, "train.precision=fp32"], data, Path(place))
            except Exception as error:  # one broken variant must not hide the others
                wrong.append(f"{label}: {type(error).__name__}: {str(error)[:300]}")
                continue
            flops = costs(cfg, data.vocab_size).flops_per_token
            off = fast.loss - plain.loss
            if fast.state != plain.state or not abs(off) < ROOM:
                wrong.append(f"{label}: bf16 {fast.state} at {fast.loss:.3f}, fp32 {plain.state} at {plain.loss:.3f}")
            lines.append(
                f"| {label} | {fast.rate:,.0f} | {share(fast.rate, flops, 'bf16')} | {fast.memory / 1e6:,.0f} | "
                f"{fast.seconds:.0f} | {plain.rate:,.0f} | {share(plain.rate, flops, 'fp32')} | "
                f"{plain.memory / 1e6:,.0f} | {fast.loss:.4f} | {plain.loss:.4f} | {off:+.4f} |"
            )
            print(lines[-1], flush=True)
    print(
        "\n| | bf16 tokens/s | MFU | MB | seconds in all | fp32 tokens/s | MFU | MB | bf16 loss | fp32 loss | difference |\n"
        "|---|---:|---:|---:|---:|---:|---:|---:|---:|---:|---:|"
    )
    print("\n".join(lines))
    if asked.no_peers or late():
        left_out.append("peers")
    else:
        size, rounds, steps = ("tiny", 1, 2) if asked.tiny else ("cs336", 3, 50)
        names = ("ablab", "bare") if asked.tiny else throughput.CONTESTANTS
        results = throughput.measure(
            size, "bf16", "eager" if asked.eager else "compiled", 1, asked.device, names, rounds, steps
        )
        most = peak("bf16") or throughput.matmul_rate("bf16", 1, asked.device, quick=asked.tiny)
        for result in results:
            result.mfu = result.rate * throughput.flops_per_token(throughput.SIZES[size]) / most
        print("\n" + throughput.table(f"peers: {size}, bf16", results, most, "peak:"))
    if late():
        left_out.append("seeds together")
    else:
        setting = seeds_together.Setting(throughput.SIZES["tiny" if asked.tiny else "demo"], device=asked.device)
        found = seeds_together.compare(
            setting, replicas=2 if asked.tiny else 8, steps=2 if asked.tiny else 20, grid=False
        )
        print(
            f"seeds together, {setting.size.batch} sequences a step: one batched model is "
            f"{found['apart'] / found['together']:.2f} times as fast as its runs one after another (fp32, eager)"
        )
    if left_out:
        print(f"left out: {', '.join(left_out)}")
    for text in wrong:
        print(f"WRONG: {text}")
    print(f"{time.perf_counter() - begun:.0f} s in all; {'failed' if wrong else 'fine'}")
    return 1 if wrong else 0


if __name__ == "__main__":
    raise SystemExit(main())
