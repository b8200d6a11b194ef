"""A report as plain data: sections of blocks that every output format renders in its own way.

In running text a word between backticks is code; nothing else is markup.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from typing import Any

MISSING = "—"
MINUS = "−"


@dataclass(frozen=True)
class Text:
    """A paragraph; `tone` is "", "lead", "note" or "warning"."""

    text: str
    tone: str = ""


@dataclass(frozen=True)
class Items:
    """A list of sentences."""

    items: Sequence[str]
    tone: str = ""


@dataclass(frozen=True)
class Code:
    """A command to copy."""

    text: str


@dataclass(frozen=True)
class Picture:
    """A figure by the name of its file, without ending."""

    name: str
    caption: str
    alt: str


@dataclass(frozen=True)
class Column:
    """A column: its title, how a raw value is written, and whether it is aligned as a number."""

    title: str
    write: Callable[[Any], str] = str
    number: bool = False


@dataclass(frozen=True)
class Grid:
    """A table of raw values; `name` is that of its files, None for a table that is shown only."""

    name: str | None
    columns: Sequence[Column]
    rows: Sequence[Sequence[Any]]
    caption: str = ""
    folded: bool = False

    def written(self) -> list[list[str]]:
        """The cells as text."""
        return [[column.write(value) for column, value in zip(self.columns, row, strict=True)] for row in self.rows]


Block = Text | Items | Code | Picture | Grid


@dataclass
class Section:
    """A titled part of the report."""

    title: str
    anchor: str
    blocks: list[Block] = field(default_factory=list)

    def add(self, *blocks: Block | None) -> Section:
        """Append the blocks that exist."""
        self.blocks += [block for block in blocks if block is not None]
        return self


@dataclass
class Document:
    """A whole report."""

    title: str
    subtitle: str
    sections: list[Section]


def compact(
    name: str | None, columns: Sequence[Column], rows: Sequence[Sequence[Any]], caption: str = "", folded: bool = False
) -> Grid:
    """A table without the columns in which no row has anything."""
    kept = [place for place in range(len(columns)) if any(row[place] not in (None, "", []) for row in rows)]
    return Grid(
        name, [columns[place] for place in kept], [[row[place] for place in kept] for row in rows], caption, folded
    )


def percent(share: float) -> str:
    """`95 %`."""
    return f"{100 * share:.4g} %"


def word(value: Any) -> str:
    """Any value as text; nothing is a dash."""
    if value is None or value == "":
        return MISSING
    if isinstance(value, bool):
        return "yes" if value else "no"
    return f"{value:.6g}" if isinstance(value, float) else str(value)


def fixed(digits: int, signed: bool = False) -> Callable[[Any], str]:
    """Writer of numbers with a fixed number of digits, a true minus sign, and a dash for nothing."""

    def write(value: Any) -> str:
        if value is None or not isinstance(value, (int, float)) or math.isnan(value):
            return MISSING
        if math.isinf(value):
            return "∞" if value > 0 else MINUS + "∞"
        written = f"{value:{'+' if signed else ''}.{digits}f}"
        return written.replace("-", MINUS)

    return write


def interval(digits: int = 4) -> Callable[[Any], str]:
    """Writer of `[low, high]`."""
    one = fixed(digits, signed=True)
    return lambda value: MISSING if not value else f"[{one(value[0])}, {one(value[1])}]"


def count(value: Any) -> str:
    """Writer of whole numbers with thin grouping: 1,209,600."""
    return MISSING if value is None else f"{int(value):,}"


def short_count(value: Any) -> str:
    """Writer of large numbers: 1.21 M, 112 M, 3.4 G."""
    if value is None:
        return MISSING
    size = float(value)
    for unit, scale in (("T", 1e12), ("G", 1e9), ("M", 1e6), ("k", 1e3)):
        if abs(size) >= scale:
            return f"{size / scale:.3g} {unit}"
    return f"{size:.3g}"


def p_value(value: Any) -> str:
    """Writer of p-values."""
    if value is None or (isinstance(value, float) and math.isnan(value)):
        return MISSING
    return "< 0.0001" if value < 1e-4 else f"{value:.4f}" if value < 0.1 else f"{value:.2f}"


def duration(seconds: float | None) -> str:
    """`45 s`, `12 min`, `3.4 h`."""
    if seconds is None:
        return MISSING
    if seconds < 90:
        return f"{seconds:.0f} s"
    return f"{seconds / 60:.0f} min" if seconds < 5400 else f"{seconds / 3600:.1f} h"


def listed(words: Sequence[str]) -> str:
    """`a, b and c`."""
    return words[0] if len(words) == 1 else f"{', '.join(words[:-1])} and {words[-1]}" if words else ""
