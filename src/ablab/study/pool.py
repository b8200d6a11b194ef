"""The pool of runs: what is done, what can be resumed, who may write where."""

from __future__ import annotations

import glob
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from filelock import FileLock, Timeout

from .. import runfolder
from ..errors import UsageError


def cache_dir(runs_dir: Path) -> Path:
    """Where token files and locks of a pool lie."""
    return runs_dir / runfolder.CACHE


@contextmanager
def owned(runs_dir: Path, run_id: str) -> Iterator[bool]:
    """Own a run while in this context, if nobody else does: yields whether that is so.

    The lock is the operating system's: it ends with the process that holds it, however that dies.
    """
    folder = cache_dir(runs_dir) / "locks"
    folder.mkdir(parents=True, exist_ok=True)
    lock = FileLock(folder / f"{run_id}.lock", blocking=False)
    try:
        lock.acquire()
    except Timeout:
        yield False
        return
    try:
        yield True
    finally:
        lock.release()


def writable(runs_dir: Path) -> None:
    """Raise a UsageError unless run folders can be made in `runs_dir`."""
    probe = runs_dir / f".probe-{time.time_ns()}"
    try:
        runs_dir.mkdir(parents=True, exist_ok=True)
        probe.write_text("")
        probe.unlink()
    except OSError as error:
        raise UsageError(f"runs_dir={runs_dir} cannot be written: {error.strerror or error}") from error


def set_aside(run_dir: Path) -> Path | None:
    """Rename a run folder to the first free `<name>.1`, `.2`, ...; returns the new path, or None if there was none."""
    if not run_dir.exists():
        return None
    number = 1
    while (kept := run_dir.with_name(f"{run_dir.name}.{number}")).exists():
        number += 1
    run_dir.rename(kept)
    return kept


def tracker_id(run_dir: Path, run_id: str) -> str:
    """Id of a run at a tracker: the one it was started under, else its own with a number that no run which it took the
    place of had there."""
    known = (runfolder.read_status(run_dir) or {}).get("tracker_id")
    if known:
        return str(known)
    kept = list(run_dir.parent.glob(f"{glob.escape(run_dir.name)}.[0-9]*"))
    used = [str((runfolder.read_status(old) or {}).get("tracker_id") or run_id) for old in kept]
    number = max(
        [len(kept), *(int(n) + 1 for one in used if (n := one.rpartition("-")[2]).isdigit() and one != run_id)]
    )
    return f"{run_id}-{number}" if number else run_id


def size(path: Path) -> int:
    """Bytes in the files below a folder."""
    return sum(file.stat().st_size for file in path.rglob("*") if file.is_file() and not file.is_symlink())


def human(count: float) -> str:
    """A number of bytes for people: `3.2 MB`."""
    for unit in ("B", "kB", "MB", "GB"):
        if count < 1000:
            return f"{count:.0f} {unit}" if unit == "B" else f"{count:.1f} {unit}"
        count /= 1000
    return f"{count:.1f} TB"


def mark_lost(runs_dir: Path, run_dir: Path, run_id: str, reason: str) -> None:
    """Write `failed` into the status of a run whose process died without a word; not if somebody else took it over."""
    with owned(runs_dir, run_id) as mine:
        if not mine:
            return
        status = runfolder.read_status(run_dir) or {}
        if status.get("state") in (*runfolder.OUTCOMES, "failed"):
            return
        run_dir.mkdir(parents=True, exist_ok=True)
        status |= {"state": "failed", "reason": reason, "heartbeat": time.time()}
        rows = runfolder.read_metrics(run_dir)
        status["step"] = max(status.get("step") or 0, rows[-1]["step"] if rows else 0)  # the last heartbeat is old
        runfolder.write_json_atomic(run_dir / runfolder.STATUS, status)
