"""Reads an offline `.wandb` file: a LevelDB log (32 KiB blocks) of protocol buffers.

The client has no public Python reader; its message classes are used, its storage code is not.
"""

from __future__ import annotations

import json
import struct
import zlib
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from wandb.proto import wandb_internal_pb2

_BLOCK = 32768
_FILE_HEADER = 7  # ":W&B", a magic number and a version
_CHUNK_HEADER = struct.Struct("<IHB")  # checksum, length, type
_FULL, _LAST = 1, 4


def records(path: Path) -> Iterator[Any]:
    """The records of a file in order; a tail that was torn by a kill ends the iteration."""
    data = path.read_bytes()
    if data[:4] != b":W&B":
        raise ValueError(f"{path} is no .wandb file")
    position, body = _FILE_HEADER, b""
    while position + _CHUNK_HEADER.size <= len(data):
        left = _BLOCK - position % _BLOCK
        if left < _CHUNK_HEADER.size:
            position += left
            continue
        checksum, length, kind = _CHUNK_HEADER.unpack_from(data, position)
        if kind == 0:  # zeros fill up a block
            position += left
            continue
        start = position + _CHUNK_HEADER.size
        chunk = data[start : start + length]
        if len(chunk) < length:
            return
        if zlib.crc32(bytes([kind]) + chunk) != checksum:
            raise ValueError(f"{path}: wrong checksum at byte {position}")
        position = start + length
        body += chunk
        if kind in (_FULL, _LAST):
            yield wandb_internal_pb2.Record.FromString(body)
            body = b""


@dataclass
class OfflineRun:
    """What one file says about its run."""

    path: Path
    id: str = ""
    name: str = ""
    project: str = ""
    entity: str = ""
    group: str = ""
    job_type: str = ""
    notes: str = ""
    tags: list[str] = field(default_factory=list)
    config: dict[str, Any] = field(default_factory=dict)
    history: list[dict[str, Any]] = field(default_factory=list)
    summary: dict[str, Any] = field(default_factory=dict)
    metrics: dict[str, Any] = field(default_factory=dict)
    artifacts: list[tuple[str, str]] = field(default_factory=list)
    exit_code: int | None = None
    preempting: bool = False


def _place(tree: dict[str, Any], item: Any) -> None:
    keys = list(item.nested_key) or [item.key]
    for key in keys[:-1]:
        inner = tree.get(key)
        tree[key] = inner if isinstance(inner, dict) else {}
        tree = tree[key]
    tree[keys[-1]] = json.loads(item.value_json)


def read(path: Path) -> OfflineRun:
    """Everything in one `.wandb` file."""
    run = OfflineRun(path)
    for record in records(path):
        kind = record.WhichOneof("record_type")
        if kind == "run":
            r = record.run
            run.id, run.name, run.project, run.entity = r.run_id, r.display_name, r.project, r.entity
            run.group, run.job_type, run.notes, run.tags = r.run_group, r.job_type, r.notes, list(r.tags)
            for item in r.config.update:
                _place(run.config, item)
        elif kind == "config":
            for item in record.config.update:
                _place(run.config, item)
        elif kind == "history":
            row: dict[str, Any] = {}
            for item in record.history.item:
                _place(row, item)
            run.history.append(row)
        elif kind == "summary":
            for item in record.summary.update:
                _place(run.summary, item)
        elif kind == "metric":
            run.metrics[record.metric.name or record.metric.glob_name] = record.metric
        elif kind == "artifact":
            run.artifacts.append((record.artifact.type, record.artifact.name))
        elif kind == "preempting":
            run.preempting = True
        elif kind == "exit":
            run.exit_code = record.exit.exit_code
    return run


def files(runs_dir: Path) -> list[Path]:
    """The `.wandb` files of a runs folder, oldest first."""
    return sorted((runs_dir / "wandb").glob("*run-*/run-*.wandb"))


def only(runs_dir: Path) -> OfflineRun:
    """The one run of a runs folder. Raises `ValueError` if there are more or none."""
    found = files(runs_dir)
    if len(found) != 1:
        raise ValueError(f"{len(found)} runs in {runs_dir}, one was expected")
    return read(found[0])
