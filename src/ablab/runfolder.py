"""What a run leaves behind, and how it is read: the one description of a run folder that every room shares."""

from __future__ import annotations

import json
import os
import threading
import time
from pathlib import Path
from typing import Any

CONFIG, METRICS, STATUS, LOG, CHECKPOINTS = (
    "config.yaml",
    "metrics.jsonl",
    "status.json",
    "run.log",
    "checkpoints",
)
STUDY = "study.json"
STUDIES = "studies"
#: in the pool: token files, locks, compiled code
CACHE = ".cache"

#: seconds without a heartbeat after which a run that says "running" counts as interrupted
STALE_AFTER = 60.0
#: states that are outcomes: such a run is not trained again
OUTCOMES = ("finished", "diverged")
STATES = ("finished", "diverged", "failed", "interrupted", "running", "missing")


def write_text_atomic(path: Path, text: str) -> None:
    """Write a whole file or nothing: a reader, or a power cut, meets the old text or the new one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    temporary = path.with_name(f".{path.name}.{os.getpid()}-{threading.get_ident()}.tmp")
    try:
        with open(temporary, "w", encoding="utf-8") as file:
            file.write(text)
            file.flush()
            os.fsync(file.fileno())
        os.replace(temporary, path)
    except BaseException:
        temporary.unlink(missing_ok=True)
        raise


def write_json_atomic(path: Path, value: Any) -> None:
    """`write_text_atomic` of `value` as indented JSON; non-finite numbers are refused."""
    write_text_atomic(path, json.dumps(value, indent=1, ensure_ascii=False, allow_nan=False) + "\n")


def read_json(path: Path) -> dict[str, Any] | None:
    """The object in a JSON file, or None where there is no readable one."""
    try:
        value = json.loads(path.read_text(encoding="utf-8"))
    except (OSError, ValueError):
        return None
    return value if isinstance(value, dict) else None


def read_status(run: Path) -> dict[str, Any] | None:
    """`status.json` of a run folder, or None."""
    return read_json(run / STATUS)


def state(run: Path, now: float | None = None) -> str:
    """State of a run folder, one of `STATES`.

    A run that says "running" without a heartbeat in the last minute is interrupted: its process is gone.
    """
    status = read_status(run)
    if status is None:
        return "missing"
    if status.get("state") == "running":
        age = (time.time() if now is None else now) - float(status.get("heartbeat") or 0)
        return "running" if age <= STALE_AFTER else "interrupted"
    return str(status.get("state"))


def read_metrics(run: Path) -> list[dict[str, Any]]:
    """Rows of `metrics.jsonl`; a last line that was cut off while being written is left out.

    Raises:
        ValueError: a line before the last is no JSON object, naming the file and the line.
    """
    path = run / METRICS
    try:
        lines = path.read_bytes().split(b"\n")
    except FileNotFoundError:
        return []
    rows: list[dict[str, Any]] = []
    for number, line in enumerate(lines, 1):
        if not line.strip():
            continue
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number == len(lines):  # no newline after it: torn
                break
            raise ValueError(f"{path}:{number} is no JSON object") from None
    return rows
