"""The flat folder `<runs_dir>/wandb` as the client leaves it, and what to do with it afterwards.

A run has one folder per attempt, `offline-run-<time>-<id>` or `run-<time>-<id>`, with `run-<id>.wandb` in
it. The client marks an uploaded file with an empty `.synced` file beside it. Needs no client.
"""

from __future__ import annotations

import json
import logging
import os
import re
import shlex
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Iterable
from pathlib import Path
from typing import Any

from ablab.errors import UsageError
from ablab.tracking.names import safe_id

log = logging.getLogger(__name__)

#: marks the folder of an online attempt whose upload did not end in time
INCOMPLETE = "upload-incomplete"


def attempts(runs_dir: Path, run_id: str) -> list[Path]:
    """Folders of one run, oldest first."""
    return [path for path in _folders(runs_dir, run_id) if data_file(path, run_id).exists()]


def _folders(runs_dir: Path, run_id: str) -> list[Path]:
    folder = runs_dir / "wandb"
    if not folder.is_dir():
        return []
    # The client adds `-1` to a second folder of the same second; its file keeps the plain id.
    name = re.compile(rf"(offline-)?run-\d{{8}}_\d{{6}}-{re.escape(safe_id(run_id))}(-\d+)?")
    every = [path for path in folder.iterdir() if name.fullmatch(path.name)]
    return sorted(every, key=lambda path: path.name.removeprefix("offline-"))


def drop_new(runs_dir: Path, run_id: str, known: list[Path]) -> None:
    """Remove what a start left that the server refused: it holds no rows."""
    for path in _folders(runs_dir, run_id):
        if path not in known and set(path.glob("*.wandb")) <= {data_file(path, run_id)}:
            shutil.rmtree(path, ignore_errors=True)


def data_file(attempt: Path, run_id: str) -> Path:
    """The file with the attempt's data."""
    return attempt / f"run-{safe_id(run_id)}.wandb"


def waiting(attempt: Path, run_id: str) -> bool:
    """Whether the attempt holds data that is not on the server."""
    if attempt.name.startswith("offline-"):
        return not _synced(attempt, run_id).exists()
    return (attempt / INCOMPLETE).exists()


def _synced(attempt: Path, run_id: str) -> Path:
    file = data_file(attempt, run_id)
    return file.with_name(file.name + ".synced")


def supersede(attempt: Path, run_id: str) -> None:
    """Keep an attempt from being uploaded: its rows are in a newer one, or it was started anew."""
    (attempt / INCOMPLETE).unlink(missing_ok=True)
    _synced(attempt, run_id).touch()


def recorded(attempt: Path, run_id: str) -> dict[str, Any]:
    """`{"step": last W&B step, "summary": {...}}` of an attempt, empty if it holds no rows.

    Asks the client's own inspector: the format of the file is not public.
    """
    command = [sys.executable, "-m", "wandb", "leet", "inspect", "--summary", "--json"]
    command.append(str(data_file(attempt, run_id)))
    try:
        done = subprocess.run(command, capture_output=True, stdin=subprocess.DEVNULL, timeout=60, check=True)
        told = json.loads(done.stdout)
    except (OSError, subprocess.SubprocessError, ValueError) as error:
        log.warning("cannot read what %s holds (%s): some rows may be shown twice", attempt, error)
        return {}
    summary = told.get("summary") or {}
    return {"step": int(told["step"]), "summary": summary} if "_step" in summary else {}


def how_to_look(runs_dir: Path, run_ids: Iterable[str] = ()) -> str:
    """The command that shows the runs side by side in a terminal, without an account."""
    return f"wandb leet {shlex.quote(str(runs_dir / 'wandb'))}"


def how_to_upload(runs_dir: Path, run_ids: Iterable[str]) -> str | None:
    """The one command that uploads what the runs still hold back, or None if nothing is held back.

    Where nothing but these runs waits in the folder it names the folder, otherwise each attempt.
    """
    ids = list(dict.fromkeys(run_ids))
    folder = runs_dir / "wandb"
    held = [path for run_id in ids for path in attempts(runs_dir, run_id) if waiting(path, run_id)]
    if not held:
        return None
    others = [
        path
        for path in folder.glob("*run-*")
        if path not in held
        and not path.is_symlink()
        and (path.name.startswith("offline-") or (path / INCOMPLETE).exists())
        and not list(path.glob("*.synced"))
    ]
    if all(path.name.startswith("offline-") for path in held) and not others:
        return f"wandb sync --yes {shlex.quote(str(folder))}"
    paths = " ".join(shlex.quote(str(path)) for path in held)
    online = "" if all(path.name.startswith("offline-") for path in held) else "--include-online "
    return f"wandb sync --yes {online}{paths}"


def require_writable(folder: Path) -> None:
    """Make `folder` and prove that a file can be written there. Raises `UsageError`.

    The client would go on in the system's temporary folder, where nobody looks.
    """
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.TemporaryFile(dir=folder):
            pass
    except OSError as error:
        reason = os.strerror(error.errno) if error.errno else str(error)
        raise UsageError(f"runs_dir={folder.parent}: cannot write to {folder} ({reason})") from None
