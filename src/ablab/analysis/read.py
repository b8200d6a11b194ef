"""Run folders read into memory: configuration, status and the rows of `metrics.jsonl` as columns.

Of a run folder only `config.yaml` (of it, `choices` and `seed`), `metrics.jsonl` and `status.json` are needed.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable
from dataclasses import dataclass, field
from functools import lru_cache
from pathlib import Path
from typing import Any

import numpy as np
import yaml
from numpy.typing import NDArray

from ablab.analysis.levels import finite, natural
from ablab.errors import UsageError
from ablab.runfolder import CONFIG, METRICS, STATUS, STUDY, read_json, state

Column = NDArray[np.float64]
LARGE = 1 << 15  # bytes of a metrics file from which a faster reader pays


@dataclass
class Run:
    """One run folder. `config` is flat (`optimizer.lr`), `choices` holds the option of every group as text.

    `history` has one float64 array per metric, all as long as `history["step"]`; NaN where a row lacks the metric or
    the value was not a finite number. `lost` names the validation metrics whose last value was not.
    """

    name: str
    folder: Path | None
    choices: dict[str, str]
    seed: int
    config: dict[str, Any]
    status: dict[str, Any]
    state: str
    history: dict[str, Column]
    problem: str | None = None
    notes: str | None = None
    newest: float = 0.0
    extra: dict[str, Any] = field(default_factory=dict)
    lost: frozenset[str] = frozenset()

    def points(self, metric: str, x: str = "step") -> tuple[Column, Column]:
        """x and value of every row that has a finite value of the metric (two arrays of one length)."""
        if metric not in self.history or x not in self.history:
            return np.empty(0), np.empty(0)
        keep = np.isfinite(self.history[metric]) & np.isfinite(self.history[x])
        return self.history[x][keep], self.history[metric][keep]

    def last(self, metric: str) -> float | None:
        """Last finite value of the metric; None where there is none."""
        values = self.points(metric)[1]
        return float(values[-1]) if len(values) else None

    def steps(self) -> int | None:
        """Planned length in optimizer steps: from the status, else the configuration, else the last row."""
        for value in (self.status.get("steps"), self.config.get("train.steps")):
            if (number := finite(value)) is not None:
                return int(number)
        step = self.history.get("step")
        return int(step[-1]) if step is not None and len(step) else None


class _Loader(getattr(yaml, "CSafeLoader", yaml.SafeLoader)):  # type: ignore[misc]
    """YAML as OmegaConf reads it: 1e-4 is a number, dates are text."""


_FLOAT = re.compile(
    r"^(?:[-+]?[0-9][0-9_]*\.[0-9_]*(?:[eE][-+]?[0-9]+)?|[-+]?[0-9][0-9_]*[eE][-+]?[0-9]+"
    r"|\.[0-9]+(?:[eE][-+]?[0-9]+)?|[-+]?\.(?:inf|Inf|INF)|\.(?:nan|NaN|NAN))$"
)
_Loader.yaml_implicit_resolvers = {
    first: [(tag, expression) for tag, expression in resolvers if not tag.endswith((":timestamp", ":float"))]
    for first, resolvers in yaml.SafeLoader.yaml_implicit_resolvers.items()
}
_Loader.add_implicit_resolver("tag:yaml.org,2002:float", _FLOAT, list("-+0123456789."))


def read_config(path: Path) -> tuple[dict[str, str], dict[str, Any]]:
    """Choices and the flat rest of a `config.yaml`.

    Choices are taken as they are written: `none`, `off` and `null` are names of options, never values.

    Raises:
        UsageError: the file is no YAML mapping.
    """
    return _parse_config(path.read_text(encoding="utf-8"), str(path))


@lru_cache(maxsize=64)  # a folder of a thousand runs has few distinct choices blocks
def _parse_choices(block: str) -> dict[str, str]:
    root = yaml.compose(block, Loader=_Loader)
    pairs = root.value if isinstance(root, yaml.MappingNode) else []
    nodes = [value for key, value in pairs if key.value == "choices" and isinstance(value, yaml.MappingNode)]
    return {key.value: value.value for node in nodes for key, value in node.value if isinstance(value.value, str)}


def _parse_config(content: str, where: str) -> tuple[dict[str, str], dict[str, Any]]:
    try:
        loaded = yaml.load(content, Loader=_Loader)
        found = re.search(r"^choices:.*(?:\n[ \t]+.*)*", content, re.MULTILINE)
        choices = dict(_parse_choices(found.group(0) if found else content))
    except yaml.YAMLError as error:
        raise UsageError(f"{where} is no readable YAML: {str(error).splitlines()[0]}") from None
    if not isinstance(loaded, dict):
        raise UsageError(f"{where} holds no mapping")
    loaded.pop("choices", None)
    return choices, flatten(loaded)


def flatten(config: dict[str, Any], prefix: str = "") -> dict[str, Any]:
    """Nested mappings as one, keys joined by dots; empty mappings vanish, lists stay."""
    flat: dict[str, Any] = {}
    for key, value in config.items():
        if isinstance(value, dict):
            flat.update(flatten(value, f"{prefix}{key}."))
        else:
            flat[f"{prefix}{key}"] = value
    return flat


def read_history(path: Path) -> dict[str, Column]:
    """`metrics.jsonl` as columns, one row per step: rows of one step are merged, the later value wins.

    A last line cut off while being written is left out.

    Raises:
        ValueError: an earlier line is no JSON object.
    """
    try:
        content = path.read_bytes()
    except FileNotFoundError:
        return {}
    if len(content) > LARGE and (fast := _fast(content)) is not None:
        return fast
    lines = [line for line in content.split(b"\n") if line.strip()]
    try:
        rows = json.loads(b"[" + b",".join(lines) + b"]")
    except ValueError:
        rows = _slow_rows(lines, path)
    if not all(type(row) is dict for row in rows):
        raise ValueError(f"{path}: a line is no JSON object")
    return columns(rows)


def _fast(content: bytes) -> dict[str, Column] | None:
    """Columns by Arrow's reader, thrice as fast; None where it meets anything but plain numbers, one row per step."""
    import pyarrow as pa
    import pyarrow.json as pj

    try:
        whole = pj.ReadOptions(use_threads=False, block_size=len(content) + 1)
        table = pj.read_json(pa.BufferReader(content), read_options=whole)
        found = {name: table.column(name).cast(pa.float64()).to_numpy() for name in table.column_names}
    except pa.ArrowException:
        return None
    steps = found.get("step")
    if steps is None or not np.all(np.diff(steps) > 0):
        return None
    return {"step": steps, **{name: values for name, values in found.items() if name != "step"}}


def _slow_rows(lines: list[bytes], path: Path) -> list[dict[str, Any]]:
    rows = []
    for number, line in enumerate(lines, 1):
        try:
            rows.append(json.loads(line))
        except ValueError:
            if number == len(lines):
                break
            raise ValueError(f"{path}:{number} is no JSON object") from None
    return rows


def columns(rows: Iterable[dict[str, Any]]) -> dict[str, Column]:
    """Rows as one float64 array per key, sorted by step, one entry per step."""
    rows = [row for row in rows if isinstance(row.get("step"), (int, float))]
    names = dict.fromkeys(key for row in rows for key in row)
    steps = np.array([row["step"] for row in rows], dtype=np.float64)
    found: dict[str, Column] = {"step": steps}
    for name in names:
        if name != "step":
            values = [row.get(name) for row in rows]
            found[name] = _floats(values)
    return found if np.all(np.diff(steps) > 0) else _merge(found)


def _floats(values: list[Any]) -> Column:
    try:
        return np.array(values, dtype=np.float64)  # None becomes NaN
    except (TypeError, ValueError):
        numbers = [value if isinstance(value, (int, float)) else None for value in values]
        return np.array(numbers, dtype=np.float64)


def _merge(found: dict[str, Column]) -> dict[str, Column]:
    steps, place = np.unique(found["step"], return_inverse=True)
    merged: dict[str, Column] = {"step": steps}
    for name, values in found.items():
        if name != "step":
            column = np.full(len(steps), np.nan)
            known = ~np.isnan(values)
            column[place[known]] = values[known]
            merged[name] = column
    return merged


def read_run(folder: Path) -> Run:
    """A run folder, whatever state it is in; what could not be read is said in `problem`."""
    choices, config = read_config(folder / CONFIG)
    status = read_json(folder / STATUS) or {}
    problem = None
    try:
        history = read_history(folder / METRICS)
    except ValueError as error:
        history, problem = {}, str(error)
    seed = config.get("seed", status.get("seed", 0))
    heartbeat = finite(status.get("heartbeat"))
    return Run(
        name=folder.name,
        folder=folder,
        choices=choices,
        seed=int(seed) if isinstance(seed, (int, float)) else 0,
        config=config,
        status=status,
        state=state(folder),
        history=history,
        problem=problem,
        notes=config.get("note") if config.get("note") is None else str(config.get("note")),
        lost=lost_metrics(folder / METRICS),
        newest=heartbeat if heartbeat is not None else (folder / CONFIG).stat().st_mtime,
    )


def lost_metrics(path: Path) -> frozenset[str]:
    """Validation metrics (`val/...`) of a `metrics.jsonl` that the last row which names them gives as null."""
    try:
        content = path.read_bytes()
    except OSError:
        return frozenset()
    end = len(content)
    while (place := content.rfind(b'"val/', 0, end)) >= 0:
        start = content.rfind(b"\n", 0, place) + 1
        stop = content.find(b"\n", place)
        try:
            row = json.loads(content[start : stop if stop >= 0 else None])
        except ValueError:  # cut off while being written
            end = start
            continue
        return frozenset(key for key, value in row.items() if key.startswith("val/") and finite(value) is None)
    return frozenset()


def is_run(folder: Path) -> bool:
    """Whether a folder is a run folder: it has a `config.yaml`."""
    return (folder / CONFIG).is_file()


def find_runs(path: Path) -> list[Path]:
    """Run folders meant by a path that is no study: itself, or those directly inside, in natural order.

    Raises:
        UsageError: no such folder.
    """
    if not path.is_dir():
        raise UsageError(f"{path} is no folder")
    if is_run(path):
        return [path]
    inside = [child for child in path.iterdir() if child.is_dir() and is_run(child)]
    return sorted(inside, key=lambda child: natural(child.name))


def is_study(path: Path) -> bool:
    """Whether a folder is a study folder: it has a `study.json`."""
    return (path / STUDY).is_file()
