"""Levels of factors: how an option or a number is written, ordered and compared.

A level is text (the option of a group) or a plain value (a swept key). Two levels are the same when their text is
the same, so that 1e-3 and 0.001 are one level and the option `none` is never the value None.
"""

from __future__ import annotations

import math
import re
from collections.abc import Collection, Iterable, Mapping
from typing import Any

Level = str | float | int | bool | None

#: groups in the order they are shown, each with its options in order; the first is the default
GROUPS: dict[str, tuple[str, ...]] = {
    "norm": ("rms", "layer", "identity"),
    "block": ("pre_norm", "post_norm"),
    "ffn": ("swiglu", "relu"),
    "position": ("rope", "none"),
    "embedding": ("untied", "tied"),
    "attention": ("mha",),
    "init": ("gpt2", "cs336"),
    "data": ("kjv", "shakespeare", "text"),
    "scale": ("demo", "mini", "cs336", "gpt2_small"),
    "optimizer": ("adamw",),
    "schedule": ("cosine",),
}
#: one factor made of two, because without a norm there is no place for one
FOLDED = "norm+block"


def text(level: Any) -> str:
    """A level as it is written in labels, tables and legends."""
    if level is None:
        return "null"
    if isinstance(level, bool):
        return "true" if level else "false"
    if isinstance(level, float):
        return f"{level:.10g}"
    if isinstance(level, (list, tuple)):
        return "[" + ",".join(text(item) for item in level) + "]"
    return str(level)


def natural(word: str) -> tuple[tuple[int, float, str], ...]:
    """Sort key in which numbers inside text count as numbers: 2, 9, 10."""
    parts = re.split(r"(\d+)", word)
    return tuple((0, float(part), "") if part.isdigit() else (1, 0.0, part) for part in parts if part)


def level_key(group: str, level: Any) -> tuple[Any, ...]:
    """Sort key of a level inside its group: numbers by size, then shipped options in their order, then the rest."""
    if isinstance(level, (int, float)) and not isinstance(level, bool):
        return (0, float(level), ())
    known = GROUPS.get(group, ())
    if level in known:
        return (1, float(known.index(level)), ())
    return (2, 0.0, natural(text(level)))


def ordered(group: str, levels: Iterable[Any]) -> list[Any]:
    """Distinct levels of a group in the order in which they are shown."""
    distinct = {text(level): level for level in levels}
    return sorted(distinct.values(), key=lambda level: level_key(group, level))


def by_size(levels: Iterable[Any]) -> list[Any]:
    """Levels as they were declared, but numbers in order of size."""
    found = list(levels)
    numbers = all(isinstance(level, (int, float)) and not isinstance(level, bool) for level in found)
    return sorted(found) if numbers else found


def group_key(group: str) -> tuple[int, int, tuple[Any, ...]]:
    """Sort key of a factor: component groups first, then other keys by name."""
    names = list(GROUPS)
    base = group.split("+")[0]
    return (0, names.index(base), ()) if base in names else (1, 0, natural(group))


def default_level(group: str, levels: Iterable[Any]) -> Any:
    """Baseline level of a factor nobody declared: the shipped default if present, else the first in sorted order."""
    distinct = {text(level): level for level in levels}
    default = GROUPS.get(group, ("",))[0]
    if default in distinct:
        return distinct[default]
    values = list(distinct.values())
    if all(isinstance(value, (int, float)) and not isinstance(value, bool) for value in values):
        return min(values)
    return distinct[sorted(distinct, key=natural)[0]]


#: groups that name a run where nothing differs
NAMED = ("norm", "block", "ffn", "position", "embedding")


def label(factors: Mapping[str, Any]) -> str:
    """`norm=rms,ffn=relu`: the name of a cell."""
    return ",".join(f"{group}={text(level)}" for group, level in factors.items())


def finite(value: Any) -> float | None:
    """The value as a float, or None where it is absent, no number, or not finite."""
    if isinstance(value, bool) or not isinstance(value, (int, float)):
        return None
    return float(value) if math.isfinite(value) else None


def spans(numbers: Collection[int]) -> str:
    """`0–4, 7`: whole numbers, runs of three or more of them drawn together."""
    parts: list[str] = []
    block: list[int] = []
    for number in [*sorted(numbers), None]:
        if block and number == block[-1] + 1:
            block.append(number)  # type: ignore[arg-type]
            continue
        if len(block) >= 3:
            parts.append(f"{block[0]}–{block[-1]}")
        else:
            parts += map(str, block)
        block = [number] if number is not None else []
    return ", ".join(parts)
