"""metrics.jsonl, the local truth, and the running sums that feed it."""

from __future__ import annotations

import json
import math
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any

import torch

from ..runfolder import METRICS, write_text_atomic
from .device import Runtime


class MetricsFile:
    """Appends rows to metrics.jsonl, one JSON object per line, flushed line by line.

    Opening it cuts everything that a checkpoint does not know about: rows after `step`, and a torn last line.
    Lines that stay are kept byte for byte.
    """

    def __init__(self, run_dir: Path, keep: list[str]) -> None:
        self.path = Path(run_dir) / METRICS
        write_text_atomic(self.path, "".join(line + "\n" for line in keep))
        self._file = open(self.path, "a", encoding="utf-8")  # noqa: SIM115 - open for as long as the run

    def write(self, row: Mapping[str, Any]) -> dict[str, Any]:
        """Append a row and return it as written: numbers that are not finite are None."""
        clean = {k: None if isinstance(v, float) and not math.isfinite(v) else v for k, v in row.items()}
        self._file.write(json.dumps(clean, allow_nan=False) + "\n")
        self._file.flush()
        return clean

    def sync(self) -> None:
        """Force the rows to the disk, so that no checkpoint is newer than its rows."""
        os.fsync(self._file.fileno())

    def close(self) -> None:
        """Close the file."""
        self._file.close()


def lines_up_to(run_dir: Path, step: int) -> list[str]:
    """Lines of a metrics.jsonl whose step is at most `step`, verbatim; none where there is no file."""
    path = Path(run_dir) / METRICS
    if not path.is_file():
        return []
    kept = []
    for line in path.read_text(encoding="utf-8", errors="replace").splitlines():
        try:
            row = json.loads(line)
        except ValueError:  # torn when the process was killed
            break
        if isinstance(row, dict) and row.get("step", step + 1) <= step:
            kept.append(line)
    return kept


class Meter:
    """Sums since the last line, kept on the device so that no step waits for them; `read` is where the host waits.

    `first_bad` is the first step whose loss or gradient was not finite, 0 while there is none.
    """

    def __init__(self, runtime: Runtime) -> None:
        # loss sum, last gradient norm, clipped steps, first bad step
        self._sums = torch.zeros(4, dtype=runtime.sums, device=runtime.device)
        self._targets = 0
        self._steps = 0

    @torch.no_grad()
    def add(self, step: int, loss: torch.Tensor, targets: int, norm: torch.Tensor, clip: float | None) -> None:
        """Count one optimiser step: sum of token losses, number of targets, gradient norm before clipping."""
        total, _, clipped, bad = self._sums.unbind()
        norm = norm.to(total.dtype)
        fine = torch.isfinite(loss) & torch.isfinite(norm)
        over = (norm > clip).to(total.dtype) if clip else torch.zeros_like(total)
        first = torch.where((bad == 0) & ~fine, torch.full_like(bad, step), bad)
        self._sums = torch.stack([total + loss, norm, clipped + over, first])
        self._targets += targets
        self._steps += 1

    def read(self) -> tuple[dict[str, float], int]:
        """(numbers of the interval under their names in metrics.jsonl, first bad step); waits for the device."""
        total, norm, clipped, bad = self._sums.tolist()
        row = {
            "train/loss": total / max(self._targets, 1),
            "train/grad_norm": norm,
            "train/clip_fraction": clipped / max(self._steps, 1),
        }
        return row, int(bad)

    def restart(self) -> None:
        """Begin a new interval; a bad step is remembered."""
        keep = self._sums[3]
        self._sums = torch.zeros_like(self._sums)
        self._sums[3] = keep
        self._targets = self._steps = 0

    def state(self) -> dict[str, Any]:
        """The sums, for a checkpoint."""
        return {"sums": self._sums.cpu(), "targets": self._targets, "steps": self._steps}

    def load(self, state: Mapping[str, Any]) -> None:
        """Go on from `state`."""
        self._sums = state["sums"].to(self._sums)
        self._targets, self._steps = state["targets"], state["steps"]
