"""Sentences of the report, each made from the facts of a study."""

from __future__ import annotations

import math
import re
from collections import defaultdict
from collections.abc import Mapping, Sequence
from typing import Any

from ablab.analysis.cells import Row
from ablab.analysis.document import fixed, listed, p_value
from ablab.analysis.facts import Facts
from ablab.analysis.inference import changed
from ablab.analysis.levels import text
from ablab.analysis.metric import LOSS, UNITS

nats = fixed(4, signed=True)
plain = fixed(4)


def named(key: str, level: Any) -> str:
    """A level in running text: the option alone for a group, `key=value` for a number."""
    return text(level) if isinstance(level, str) else f"{key}={text(level)}"


def swap(row: Row, base: Row) -> str:
    """`layer instead of rms`: what a variant changes against the baseline."""
    parts = [f"{named(key, row.factors[key])} instead of {named(key, base.factors[key])}" for key in changed(row, base)]
    return listed(parts)


def verdict(
    comparison: Mapping[str, Any],
    row: Row,
    base: Row,
    margin: float,
    level: float | None = None,
    unit: str = UNITS[LOSS],
) -> str:
    """One comparison in words; `level` is said where it is not the declared one."""
    n, difference = comparison["n_pairs"], comparison["difference"]
    start = f"{swap(row, base)}: "
    if difference is None:
        return start + "no seed on which both finished, so there is nothing to compare"
    size = f"{nats(difference)} {unit}"
    if not comparison["ci"]:
        return f"{start}{size} on {seeds(n)}; no verdict with fewer than three seeds"
    low, high = comparison["ci"]
    against = f" (tested at {level:.4g})" if level is not None else ""
    where = f"{size}, interval [{nats(low)}, {nats(high)}], {p_text(comparison['p_adjusted'])}{against}, {seeds(n)}"
    word = comparison["verdict"]
    practical = {
        "yes": f", and beyond the margin of ±{margin:g}",
        "no": f", but smaller than the margin of ±{margin:g}",
        "unclear": f"; whether it exceeds the margin of ±{margin:g} is open",
    }[comparison["practical"]]
    if comparison.get("refused"):
        return f"{start}not judged, {comparison['refused']} ({where})"
    if word in ("better", "worse"):
        return f"{start}{word}{practical} ({where})"
    if word == "equivalent":
        return f"{start}equivalent within ±{margin:g} ({where})"
    needed = comparison["n_needed"]
    more = f"; about {needed} seeds would settle it" if needed else ""
    return f"{start}inconclusive ({where}){more}"


def p_text(p: float | None) -> str:
    """`p = 0.0214` or `p < 0.0001`."""
    written = p_value(p)
    return f"p {written}" if written.startswith("<") else f"p = {written}"


def seeds(n: int) -> str:
    """`1 seed`, `3 seeds`."""
    return f"{n} seed{'s' * (n != 1)}"


def one_factor_pairs(rows: Sequence[Row], key: str, base_level: Any) -> list[tuple[Row, Row, str]]:
    """(variant, partner, context) for each cell whose partner differs from it in one factor alone."""
    found = []
    partners = {_rest(row, key): row for row in rows if text(row.factors[key]) == text(base_level)}
    for row in rows:
        partner = partners.get(_rest(row, key))
        if partner is not None and partner is not row:
            context = ", ".join(named(other, level) for other, level in row.factors.items() if other != key)
            found.append((row, partner, context))
    return found


def _rest(row: Row, key: str) -> tuple[tuple[str, str], ...]:
    return tuple((other, text(level)) for other, level in row.factors.items() if other != key)


def seen(facts: Facts) -> list[str]:
    """Per factor and level what was seen: `layer − rms: +0.0120 under swiglu, +0.0090 under relu`."""
    lines = []
    for key, base_level in facts.plan.baseline.items():
        by_level: dict[str, list[str]] = defaultdict(list)
        for row, partner, context in one_factor_pairs(facts.rows, key, base_level):
            shared = sorted(set(row.values) & set(partner.values))
            if shared:
                mean = math.fsum(row.values[seed] - partner.values[seed] for seed in shared) / len(shared)
                under = f" under {context}" if context else ""
                by_level[named(key, row.factors[key])].append(f"{nats(mean)}{under}")
        varying = len(facts.plan.factors) > 1
        for level, parts in by_level.items():
            shown = parts if varying and len(parts) <= 6 else [_span(parts)] if varying and parts else parts
            lines.append(f"{level} − {named(key, base_level)}: {', '.join(shown)}")
    return lines


def _span(parts: Sequence[str]) -> str:
    values = sorted(parts, key=lambda part: float(part.split(" ")[0].replace("−", "-")))
    return f"{values[0]} to {values[-1]}, over {len(parts)} settings of the other factors"


def more_seeds(command: str | None, wanted: Sequence[int]) -> str | None:
    """The study's own command, as it was typed, with other seeds."""
    if not command:
        return None
    kept = re.sub(r"\s+seed=\S+", "", command)
    if not re.search(r"(?:^|\s)(?:-m|--multirun|experiment=\S+)(?:\s|$)", kept):
        place = re.search(r"\s+(?=[\w.+~/'\"]+=)", kept)
        end = place.start() if place else len(kept)
        kept = f"{kept[:end]} -m{kept[end:]}"
    return f"{kept} seed={','.join(map(str, wanted))}"
