"""Time and memory of a report over many runs: `python benchmarks/report_scale.py [--runs 1000] [--points 1000]`.

Makes run folders of forty variants (two norms and none, two placements, two FFNs, two positions, two embeddings),
builds the report in a process of its own, and prints wall time, CPU time and peak memory.
"""

from __future__ import annotations

import argparse
import itertools
import json
import math
import random
import resource
import subprocess
import sys
import tempfile
import time
from pathlib import Path

FACTORS = {
    "norm": ("rms", "layer", "identity"),
    "block": ("pre_norm", "post_norm"),
    "ffn": ("swiglu", "relu"),
    "position": ("rope", "none"),
    "embedding": ("untied", "tied"),
}
EFFECT = {"layer": 0.002, "identity": 0.05, "post_norm": 0.01, "relu": 0.03, "none": 0.08, "tied": 0.02}
CONFIG = """\
choices: {{{choices}, attention: mha, init: gpt2, data: kjv, scale: demo, optimizer: adamw, schedule: cosine, tracker: wandb}}
norm: {{eps: 1.0e-05}}
block: {{}}
ffn: {{d_ff: null}}
position: {{theta: 10000.0}}
embedding: {{}}
attention: {{}}
init: {{std: 0.02}}
optimizer: {{lr: 0.001, weight_decay: 0.1, betas: [0.9, 0.95], eps: 1.0e-08}}
schedule: {{warmup_steps: 30, min_lr_ratio: 0.1}}
data: {{path: null, tokenizer: char, vocab_size: null, val_fraction: 0.1, order: shuffled, verse_numbers: false}}
model: {{d_model: 128, n_layers: 4, n_heads: 4, context_length: 128, dropout: 0.0, final_norm: null, ffn_width: null}}
train:
  steps: {steps}
  batch_size: 32
  grad_clip: 1.0
  log_every: 1
  eval_every: 20
  precision: fp32
  device: auto
seed: {seed}
seeds: {{init: {seed}, data: {seed}, salt: 0}}
runs_dir: runs
note: null
"""


def variants() -> list[dict[str, str]]:
    """The forty variants: without a norm there is no placement."""
    grid = [dict(zip(FACTORS, point, strict=True)) for point in itertools.product(*FACTORS.values())]
    return [choices for choices in grid if choices["norm"] != "identity" or choices["block"] == "pre_norm"]


def make_run(folder: Path, choices: dict[str, str], seed: int, points: int) -> None:
    """One finished run folder with `points` rows, every twentieth with a validation loss."""
    folder.mkdir(parents=True)
    shown = ", ".join(f"{group}: {option}" for group, option in choices.items())
    (folder / "config.yaml").write_text(CONFIG.format(choices=shown, steps=points, seed=seed))
    draw = random.Random(f"{shown}{seed}")
    final = (
        1.45
        + sum(EFFECT.get(option, 0.0) for option in choices.values())
        + 0.01 * math.sin(seed)
        + draw.gauss(0, 0.003)
    )
    rows = []
    for step in range(points + 1):
        loss = final + 2.8 * math.exp(-6 * step / points)
        row: dict[str, float] = {"step": step, "tokens": step * 4096}
        if step:
            row |= {"train/loss": loss + draw.gauss(0, 0.02), "train/grad_norm": 0.8 + draw.gauss(0, 0.05), "lr": 1e-3,
                    "tokens_per_second": 20000 + draw.gauss(0, 300), "seconds": step * 0.2}  # fmt: skip
        if step % 20 == 0 or step == points:
            row |= {"val/loss": loss, "val/bits_per_byte": loss / math.log(2)}
        rows.append(json.dumps(row))
    (folder / "metrics.jsonl").write_text("\n".join(rows) + "\n")
    status = {"state": "finished", "step": points, "steps": points, "reason": None, "heartbeat": 1.7e9, "seed": seed,
              "data_hash": "d" * 64, "batch_hash": f"{seed:064d}", "parameters": 812_032, "flops_per_token": 5_603_328,
              "unigram_entropy": 3.1, "seconds": points * 0.2}  # fmt: skip
    (folder / "status.json").write_text(json.dumps(status))


def main() -> int:
    """Make the folders, build the report, print what it took; non-zero if it took more than promised."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--runs", type=int, default=1000)
    parser.add_argument("--points", type=int, default=1000)
    parser.add_argument("--keep", type=Path, help="folder to make the runs in, and to leave them (default: temporary)")
    options = parser.parse_args()
    with tempfile.TemporaryDirectory() as temporary:
        root = options.keep or Path(temporary)
        grid = variants()
        if not (root / "runs").is_dir():
            for number in range(options.runs):
                choices, seed = grid[number % len(grid)], number // len(grid)
                make_run(root / "runs" / f"{'-'.join(choices.values())}-seed{seed}", choices, seed, options.points)
        started = time.perf_counter()
        code = "import sys; from ablab.analysis.report import main; sys.exit(main(sys.argv[1:]))"
        done = subprocess.run([sys.executable, "-c", code, str(root / "runs"), "--out", str(root / "report")],
                              stdout=subprocess.DEVNULL)  # fmt: skip
        wall = time.perf_counter() - started
        used = resource.getrusage(resource.RUSAGE_CHILDREN)
        unit = 1 if sys.platform == "darwin" else 1024
        peak = used.ru_maxrss * unit / 2**30
        size = sum(file.stat().st_size for file in (root / "report").rglob("*.html"))
        print(f"report over {options.runs} runs x {options.points} points: {wall:.1f} s wall, "
              f"{used.ru_utime + used.ru_stime:.1f} s CPU, {peak:.2f} GiB peak, report.html {size / 1e6:.1f} MB")  # fmt: skip
    return done.returncode or int(wall > 20 or peak * 2**30 > 1.5e9)


if __name__ == "__main__":
    sys.exit(main())
