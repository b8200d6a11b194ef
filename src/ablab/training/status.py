"""status.json: what a run is, how far it is, and that it is alive."""

from __future__ import annotations

import logging
import math
import threading
import time
from pathlib import Path
from types import TracebackType
from typing import Any

from ..runfolder import OUTCOMES, STATES, STATUS, read_status, write_json_atomic
from .outcome import Outcome

log = logging.getLogger(__name__)

#: seconds between heartbeats
BEAT = 10.0


class Status:
    """Writer of one run's status.json; use as a context: the heartbeat runs inside it.

        with Status(run_dir, seed=0, steps=300) as status:
            outcome = train(..., status=status)
            status.finish(outcome)

    Fields are set with `update` (kept until the next heartbeat, or written at once) and never lost by a
    resume: unknown fields of an earlier status.json stay. Numbers that are not finite become null. Leaving
    the context by an exception without `finish` writes `failed` with the exception as the reason.
    """

    def __init__(self, run_dir: Path, **fields: Any) -> None:
        self.path = Path(run_dir) / STATUS
        before = read_status(Path(run_dir)) or {}
        self._fields: dict[str, Any] = {"state": "running", "step": 0, "steps": None, "reason": None}
        self._fields |= {k: v for k, v in before.items() if k not in ("state", "reason")} | fields
        self._lock = threading.Lock()  # of the fields: held for moments, since every step updates them
        self._writing = threading.Lock()  # of the file: held while the disk is busy
        self._stop = threading.Event()
        self._thread: threading.Thread | None = None
        self._trouble = False

    def __enter__(self) -> Status:
        self.write()
        self._thread = threading.Thread(target=self._beat, name="heartbeat", daemon=True)
        self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._stop.set()
        if self._thread is not None:
            self._thread.join()
        if error is not None and self._fields["state"] == "running":
            self.finish(Outcome("failed", self._fields["step"], f"{type(error).__name__}: {error}".strip(": ")))

    def update(self, *, write: bool = False, **fields: Any) -> None:
        """Set fields; they reach the file with the next heartbeat, or now with `write`."""
        with self._lock:
            self._fields |= fields
        if write:
            self.write()

    def finish(self, outcome: Outcome) -> None:
        """Write the final state of the run; later heartbeats keep it."""
        if outcome.state not in STATES:
            raise ValueError(f"unknown state '{outcome.state}'; choices: {', '.join(STATES)}")
        self._stop.set()
        self.update(state=outcome.state, step=outcome.step, reason=outcome.reason, write=True)

    @property
    def done(self) -> bool:
        """Whether the run has an outcome."""
        return self._fields["state"] in OUTCOMES

    def write(self) -> None:
        """Write the file now, atomically, with the present time as heartbeat.

        Raises:
            OSError: the folder cannot be written.
        """
        with self._writing:
            with self._lock:
                self._fields["heartbeat"] = time.time()
                content = plain(self._fields)
            write_json_atomic(self.path, content)

    def _beat(self) -> None:
        while not self._stop.wait(BEAT):
            try:
                self.write()
                self._trouble = False
            except OSError as error:  # a full disk for a moment must not end training; a checkpoint will say it louder
                if not self._trouble:
                    log.warning("cannot write %s: %s", self.path, error)
                self._trouble = True


def plain(value: Any) -> Any:
    """The value as strict JSON holds it: floats that are not finite become None, keys become text."""
    if isinstance(value, dict):
        return {str(k): plain(v) for k, v in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(v) for v in value]
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value
