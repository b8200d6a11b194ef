"""Runs in TensorBoard files: a local dashboard for people without W&B. Needs the extra `tensorboard`."""

from __future__ import annotations

import logging
import math
import struct
import time
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

from ablab.errors import UsageError, unknown
from ablab.tracking.sink import RunInfo

log = logging.getLogger(__name__)

FOLDER = "tensorboard"
PIP_LINE = "pip install 'ablab[tensorboard]'"


class TensorBoardSink:
    """One run as event files in `<runs_dir>/tensorboard/<run>/`; TensorBoard shows all runs of the folder."""

    def __init__(self, cfg: Mapping[str, Any]) -> None:
        """Raises `UsageError` if the package is missing or `cfg` holds a key (there are none)."""
        for key in cfg:
            raise unknown("key of tracker=tensorboard", f"tracker.{key}", [])
        try:
            from tensorboard.summary.writer import event_file_writer
        except ImportError:
            raise UsageError(f"tracker=tensorboard needs the package tensorboard: {PIP_LINE}") from None
        self._writer_class = event_file_writer.EventFileWriter
        self._writer: Any = None
        self._begun = False

    def start(self, info: RunInfo) -> None:
        """Open a new event file. Raises `UsageError` if the folder cannot be written."""
        from tensorboard.plugins.hparams import summary_v2

        folder = info.runs_dir / FOLDER / info.run_dir.name
        try:
            self._writer = self._writer_class(str(folder))
        except OSError as error:
            raise UsageError(f"runs_dir={info.runs_dir}: cannot write to {folder} ({error.strerror})") from None
        self._begun = False
        if not info.resumed:
            self._begin(0)
        self._write(summary_v2.hparams_pb(dict(_flat(info.config)), trial_id=info.id), 0)
        about = {"group": info.group, "studies": ", ".join(info.tags), "notes": info.notes or ""}
        self.log_text("run", "\n\n".join(f"{key}: {value}" for key, value in about.items()), 0)

    def _begin(self, step: int) -> None:
        """Tell TensorBoard to forget what an earlier attempt showed from `step` on."""
        from tensorboard.compat.proto import event_pb2

        start = event_pb2.SessionLog(status=event_pb2.SessionLog.START)
        self._writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, session_log=start))
        self._begun = True

    def _write(self, summary: Any, step: int) -> None:
        from tensorboard.compat.proto import event_pb2

        if self._writer is not None:
            self._writer.add_event(event_pb2.Event(wall_time=time.time(), step=step, summary=summary))

    def log(self, row: Mapping[str, object]) -> None:
        """Scalars at the optimiser step; a number that was not finite (None) is shown as nan."""
        if self._writer is None:
            return
        from tensorboard.compat.proto import summary_pb2

        step = int(str(row["step"]))
        if not self._begun:
            self._begin(step)
        summary = summary_pb2.Summary()
        for key, value in row.items():
            if key != "step" and (value is None or isinstance(value, int | float)):
                summary.value.add(tag=key, simple_value=math.nan if value is None else float(value))
        self._write(summary, step)
        self._flush()

    def log_text(self, key: str, text: str, step: int) -> None:
        """A text, shown as Markdown."""
        from tensorboard.plugins.text import summary_v2

        self._write(summary_v2.text_pb(key, text), step)

    def log_figure(self, key: str, path: Path, step: int) -> None:
        """A PNG file."""
        from tensorboard.compat.proto import summary_pb2

        data = path.read_bytes()
        width, height = struct.unpack(">II", data[16:24])  # the sizes in the header of a PNG
        image = summary_pb2.Summary.Image(width=width, height=height, colorspace=4, encoded_image_string=data)
        self._write(summary_pb2.Summary(value=[summary_pb2.Summary.Value(tag=key, image=image)]), step)

    def log_artifact(self, name: str, kind: str, paths: list[Path]) -> None:
        """TensorBoard keeps no files."""

    def _flush(self) -> None:
        try:
            self._writer.flush()
        except OSError as error:  # a full disk: the training goes on
            log.warning("TensorBoard's files cannot be written any more (%s)", error)
            self._writer = None

    def finish(self, state: str, summary: Mapping[str, object]) -> None:
        """Close the file; the outcome is the text `outcome` and the session's status."""
        if self._writer is None:
            return
        from tensorboard.compat.proto import summary_pb2
        from tensorboard.plugins.hparams import api_pb2, metadata, plugin_data_pb2

        self.log_text("outcome", "\n\n".join([state, *(f"{k}: {v}" for k, v in summary.items())]), 0)
        # The library's own function for this record needs TensorFlow.
        status = api_pb2.STATUS_SUCCESS if state == "finished" else api_pb2.STATUS_FAILURE
        ended = plugin_data_pb2.SessionEndInfo(status=status, end_time_secs=time.time())
        about = metadata.create_summary_metadata(plugin_data_pb2.HParamsPluginData(session_end_info=ended))
        record = summary_pb2.Summary()
        record.value.add(tag=metadata.SESSION_END_INFO_TAG, metadata=about, tensor=metadata.NULL_TENSOR)
        self._write(record, 0)
        writer, self._writer = self._writer, None
        try:
            writer.close()
        except OSError as error:
            log.warning("TensorBoard's files are not complete (%s)", error)


def _flat(config: Mapping[str, Any], above: str = "") -> Iterator[tuple[str, bool | int | float | str]]:
    """`("norm.eps", 1e-05), ...`: TensorBoard's table knows no nested values."""
    for key, value in config.items():
        if isinstance(value, Mapping):
            yield from _flat(value, f"{above}{key}.")
        else:
            yield f"{above}{key}", value if isinstance(value, bool | int | float | str) else str(value)
