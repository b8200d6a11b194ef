"""Kill a sweep's cells again and again, restart it by the same command until it is done, and compare.

    python benchmarks/soak.py --kills 200

Every final curve must be bit-equal to the undisturbed sweep's, no step missing or double, no temporary file left.
Prints one line per restart and a closing table; exits 1 on any difference.
"""

from __future__ import annotations

import argparse
import collections
import json
import os
import random
import signal
import subprocess
import sys
import tempfile
import time
from pathlib import Path

from safetensors.numpy import load_file

ROOT = Path(__file__).resolve().parents[1]
SIZES = [
    "model.d_model=32",
    "model.n_layers=2",
    "model.n_heads=2",
    "model.context_length=16",
    "model.dropout=0.1",
    "data=text",
    "train.batch_size=2",
    "train.grad_accum=2",
    "train.device=cpu",
    "train.eval_every=10",
    "train.checkpoint_every=10",
    "train.log_every=3",
    "tracker=none",
]
SWEEP = ["norm=rms,layer", "embedding=untied,tied"]
TIMED = ("seconds", "tokens_per_second")


def command(runs: Path, text: Path, steps: int, seeds: int) -> list[str]:
    return [sys.executable, str(ROOT / "run.py"), "-m", *SIZES, *SWEEP, f"train.steps={steps}", f"seed={','.join(map(str, range(seeds)))}", f"data.path={text}",
            f"runs_dir={runs}"]  # fmt: skip


def curves(runs: Path) -> dict[str, list[dict]]:
    """Run folder name -> its rows without the columns that tell time."""
    found = {}
    for file in sorted(runs.glob("*/metrics.jsonl")):
        rows = [json.loads(line) for line in file.read_text().splitlines()]
        found[file.parent.name] = [{k: v for k, v in row.items() if k not in TIMED} for row in rows]
    return found


def hashes(runs: Path) -> dict[str, str]:
    return {f.parent.name: json.loads(f.read_text())["batch_hash"] for f in sorted(runs.glob("*/status.json"))}


def weights(runs: Path) -> dict[str, dict[str, bytes]]:
    """Run folder name -> tensor -> its bytes (the order of a file's metadata means nothing)."""
    files = sorted(runs.glob("*/checkpoints/model.safetensors"))
    return {f.parents[1].name: {k: v.tobytes() for k, v in load_file(f).items()} for f in files}


def restart(
    words: list[str], environment: dict[str, str], dice: random.Random, kills: Path, limit: int
) -> tuple[int, bool]:
    """Run the sweep once, and now and then kill its parent; returns (exit code, whether the parent was killed)."""
    process = subprocess.Popen(words, env=environment, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL,
                               start_new_session=True)  # fmt: skip
    hit = dice.random() < 0.2 and len(list(kills.iterdir())) < limit
    if hit:
        try:
            process.wait(timeout=dice.uniform(6, 12))
            hit = False
        except subprocess.TimeoutExpired:
            name = dice.choice(("SIGKILL", "SIGTERM"))
            (kills / f"parent-{name}-{time.time_ns()}").touch()
            process.send_signal(getattr(signal, name))
    return process.wait(), hit


def main() -> int:
    parser = argparse.ArgumentParser(description=__doc__.partition("\n")[0])
    parser.add_argument("--kills", type=int, default=200)
    parser.add_argument("--steps", type=int, default=200)
    parser.add_argument("--seeds", type=int, default=2, help="of every variant; four cells each")
    parser.add_argument("--chance", type=float, default=0.004, help="of dying at one optimiser step")
    parser.add_argument("--seed", type=int, default=0)
    args = parser.parse_args()
    dice = random.Random(args.seed)
    with tempfile.TemporaryDirectory(prefix="ablab-soak-") as place:
        folder = Path(place)
        text = folder / "text.txt"
        text.write_text("".join(f"line {i}: the quick brown fox jumps over the lazy dog\n" for i in range(200)))
        calm, storm, kills = folder / "calm", folder / "storm", folder / "kills"
        kills.mkdir()
        subprocess.run(command(calm, text, args.steps, args.seeds), check=True, stdout=subprocess.DEVNULL)
        environment = os.environ | {
            "PYTHONPATH": os.pathsep.join([str(ROOT / "benchmarks" / "soak_faults"), os.environ.get("PYTHONPATH", "")]),
            "SOAK_FOLDER": str(kills), "SOAK_CHANCE": str(args.chance), "SOAK_LIMIT": str(args.kills),
        }  # fmt: skip
        begun, restarts, rounds = time.monotonic(), 0, 0
        equal = True
        while len(list(kills.iterdir())) < args.kills:
            # One round trains the whole sweep to its end; rounds go on until there were enough kills.
            rounds += 1
            target = folder / f"storm{rounds}"
            while True:
                restarts += 1
                code, hit = restart(command(target, text, args.steps, args.seeds), environment, dice, kills, args.kills)
                print(f"round {rounds} restart {restarts}: exit {code}{' (parent killed)' if hit else ''}, "
                      f"{len(list(kills.iterdir()))} kills", flush=True)  # fmt: skip
                if code == 0:
                    break
            storm = target
            equal &= report(calm, storm)
        counted = collections.Counter("-".join(p.name.split("-")[:2]) for p in kills.iterdir())
        print(f"{sum(counted.values())} kills, {restarts} starts, {rounds} rounds of {len(curves(calm))} cells, "
              f"{time.monotonic() - begun:.0f} s")  # fmt: skip
        for name, count in sorted(counted.items()):
            print(f"  {name:20} {count}")
        print("every curve, hash and weight bit-equal; no step missing or double; no temporary file" if equal
              else "DIFFERENCES FOUND")  # fmt: skip
        return 0 if equal else 1


def report(calm: Path, storm: Path) -> bool:
    """Compare two pools; says what differs."""
    wrong = []
    if curves(calm) != curves(storm):
        wrong.append("curves")
    if hashes(calm) != hashes(storm):
        wrong.append("batch hashes")
    if weights(calm) != weights(storm):
        wrong.append("final weights")
    for name, rows in curves(storm).items():
        steps = [row["step"] for row in rows]
        if steps != sorted(set(steps)):
            wrong.append(f"steps of {name}")
    wrong += [f"left over: {p.relative_to(storm)}" for p in storm.rglob("*.tmp")]
    for item in wrong:
        print(f"  DIFFERENT: {item}")
    return not wrong


if __name__ == "__main__":
    raise SystemExit(main())
