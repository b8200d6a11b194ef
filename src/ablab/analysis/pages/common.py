"""What several parts of the report share."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from ablab.analysis.cells import Row
from ablab.analysis.document import Picture
from ablab.analysis.levels import finite

FOLD_AT = 24


def figure(pictures: Collection[str], name: str, caption: str) -> Picture | None:
    """A figure, if it was drawn; its description for screen readers is the first sentence of the caption."""
    return Picture(name, caption, caption.split(". ")[0].rstrip(".")) if name in pictures else None


def cost(row: Row, key: str) -> Any:
    """A number about the model of a variant: from its runs, else from the plan."""
    for entry in row.entries:
        for source in (entry.run.status if entry.run else {}, entry.cell.costs):
            if finite(source.get(key)) is not None:
                return source[key]
    return None


def shown(label: str) -> str:
    """The name of a variant; a study in which nothing differs has one without a name."""
    return label or "all runs"
