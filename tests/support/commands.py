"""Commands as a user types them: each in a process of its own, in a folder of its own."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from dataclasses import dataclass
from pathlib import Path
from typing import Any

ROOT = Path(__file__).parents[2]
FAULTS = Path(__file__).parent / "faults"
SECONDS = 180
TEXT = "the quick brown fox jumps over the lazy dog\n" * 50
TINY = [
    "train.device=cpu", "model.d_model=32", "model.n_layers=2", "model.n_heads=2", "model.context_length=16",
    "data=text", "data.path=tiny.txt", "train.batch_size=2", "train.steps=6", "train.eval_every=3",
    "train.checkpoint_every=3", "seed=1",
]  # fmt: skip
SAFE_NAME = re.compile(r"[A-Za-z0-9._=+-]{1,100}")


@dataclass(frozen=True)
class Done:
    """How a command ended and what it printed."""

    code: int
    out: str
    err: str

    @property
    def text(self) -> str:
        return self.out + self.err


@dataclass(frozen=True)
class Lab:
    """A folder where commands are typed, and the checkout they come from.

    Attributes:
        source: folder with run.py, src, conf, experiments, analysis.
        folder: current folder of the commands; holds tiny.txt.
        home: an empty home.
        settings: environment variables of every command.
    """

    source: Path
    folder: Path
    home: Path
    settings: dict[str, str]

    def env(self, **extra: str) -> dict[str, str]:
        drop = ("WANDB_", "ABLAB_", "FAULT", "HYDRA_")
        own = {k: v for k, v in os.environ.items() if not k.startswith(drop) and not k.lower().endswith("_proxy")}
        path = os.pathsep.join([str(FAULTS), str(self.source / "src")])
        fixed = {"PYTHONPATH": path, "HOME": str(self.home), "WANDB_ERROR_REPORTING": "false"}
        fixed |= {"WANDB_BASE_URL": "http://127.0.0.1:9", "OMP_NUM_THREADS": "1", "COLUMNS": "160"}
        return own | fixed | self.settings | extra

    def start(self, *words: str, script: str = "run.py", **env: str) -> subprocess.Popen[str]:
        """`python run.py WORDS` in a process group of its own, without a terminal."""
        command = [sys.executable, str(self.source / script), *words]
        return subprocess.Popen(
            command, cwd=self.folder, env=self.env(**env), text=True, stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE, stderr=subprocess.PIPE, start_new_session=True,
        )  # fmt: skip

    def run(self, *words: str, script: str = "run.py", **env: str) -> Done:
        """`python run.py WORDS`, waited for."""
        return finished(self.start(*words, script=script, **env))

    def tiny(self, *words: str, sweep: bool = True, **env: str) -> Done:
        """A tiny training command; without a tracker or a report unless asked for."""
        return self.run(*tiny(*words, sweep=sweep), **env)

    @property
    def runs(self) -> Path:
        return self.folder / "runs"

    def cells(self) -> list[Path]:
        """Run folders of the pool, set-aside ones included."""
        return sorted(p for p in self.runs.glob("*") if (p / "config.yaml").exists() or (p / "status.json").exists())

    def study(self, name: str | None = None) -> dict[str, Any]:
        """study.json of the named study, or of the only one."""
        files = list((self.runs / "studies").glob(f"{name or '*'}/study.json"))
        if len(files) != 1:
            raise LookupError(f"{len(files)} studies in {self.runs}")
        return load(files[0])

    def state(self, cell: dict[str, Any]) -> dict[str, Any]:
        """status.json of a cell of a study."""
        return load(self.runs / cell["folder"] / "status.json")

    def states(self, name: str | None = None) -> list[str]:
        """State of every cell of a study in order; `missing` where it never started."""
        folders = [self.runs / cell["folder"] for cell in self.study(name)["cells"]]
        return [load(f / "status.json")["state"] if (f / "status.json").exists() else "missing" for f in folders]


def tiny(*words: str, sweep: bool = True) -> list[str]:
    """Words of a tiny training command."""
    tracker = [] if any(word.startswith("tracker") for word in words) else ["tracker=none"]
    return [*(["-m"] if sweep else []), *TINY, *tracker, *words]


def finished(process: subprocess.Popen[str]) -> Done:
    """Wait for a command."""
    try:
        out, err = process.communicate(timeout=SECONDS)
    except subprocess.TimeoutExpired:
        process.kill()
        raise
    return Done(process.returncode, out, err)


def load(path: Path) -> Any:
    """A JSON file."""
    return json.loads(path.read_text(encoding="utf-8"))


def rows(run: Path) -> list[dict[str, Any]]:
    """metrics.jsonl of a run folder."""
    return [json.loads(line) for line in (run / "metrics.jsonl").read_text().splitlines()]


def curve(run: Path) -> list[dict[str, Any]]:
    """Rows of a run without what a clock or a memory gauge put there."""
    kept = ("step", "tokens", "train/loss", "train/grad_norm", "lr", "val/loss", "val/bits_per_byte")
    return [{key: row[key] for key in kept if key in row} for row in rows(run)]


def files(folder: Path) -> dict[str, int]:
    """Every file below a folder with the time of its last change in nanoseconds."""
    return {str(p.relative_to(folder)): p.stat().st_mtime_ns for p in sorted(folder.rglob("*")) if p.is_file()}


def alive(group: int) -> list[str]:
    """Commands of the living processes in a process group."""
    listing = subprocess.run(["ps", "-eo", "pgid,stat,args"], capture_output=True, text=True, check=True).stdout
    lines = [line.split(None, 2) for line in listing.splitlines()[1:]]
    return [args for pgid, stat, args in lines if int(pgid) == group and not stat.startswith("Z")]
