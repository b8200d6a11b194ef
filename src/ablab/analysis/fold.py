"""Norm and placement as one factor: without a norm there is no place for one."""

from __future__ import annotations

from typing import Any

from ablab.analysis.levels import FOLDED, text
from ablab.analysis.plan import Plan


def fold(plan: Plan) -> None:
    """Make one factor `norm+block` of norm and block where `identity` is among the norms (in place)."""
    if not {"norm", "block"} <= set(plan.factors) or "identity" not in map(text, plan.factors["norm"]):
        return

    def merged(levels: dict[str, Any]) -> dict[str, Any]:
        norm, block = text(levels["norm"]), text(levels["block"])
        both = "identity" if norm == "identity" else f"{norm}+{block}"
        return {
            FOLDED if key == "norm" else key: both if key == "norm" else level
            for key, level in levels.items()
            if key != "block"
        }

    pairs = [
        merged({"norm": norm, "block": block})[FOLDED]
        for norm in plan.factors["norm"]
        for block in plan.factors["block"]
    ]
    rest = {key: levels for key, levels in plan.factors.items() if key not in ("norm", "block")}
    first = min(list(plan.factors).index(key) for key in ("norm", "block"))
    keys = list(rest)
    keys.insert(first, FOLDED)
    plan.factors = {key: list(dict.fromkeys(pairs)) if key == FOLDED else rest[key] for key in keys}
    plan.baseline = {key: merged(plan.baseline).get(key) for key in keys}
    for cell in plan.cells:
        levels = merged(cell.factors)
        cell.factors = {key: levels[key] for key in keys}
    plan.unstable = [f"{FOLDED}=identity" if name == "norm=identity" else name for name in plan.unstable]
