"""Sizes in tokens: what a difference is worth, and what it takes to reach a loss that was fixed beforehand."""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import asdict, dataclass, field
from typing import Any

from ablab.analysis.cells import Row
from ablab.analysis.inference import changed
from ablab.analysis.levels import finite
from ablab.analysis.metric import LOSS
from ablab.analysis.plan import Plan
from ablab.analysis.read import Run
from ablab.schema import BUDGETS

#: factors that change nothing but the length of a run
LENGTHS = tuple(f"train.{budget}" for budget in BUDGETS)


@dataclass(frozen=True)
class Slope:
    """dL / d ln D in nats per token, and where it comes from."""

    value: float
    source: str


@dataclass
class Sizes:
    """What `report.json` holds under `tokens`. By label: per cent of tokens that the difference is worth with its interval,
    tokens to the target (geometric mean) of the runs that reached it, and the ratio to the baseline's as a `TargetRatio`
    in plain data."""

    slope: Slope | None = None
    target: float | None = None
    worth: dict[str, list[float]] = field(default_factory=dict)
    reached: dict[str, dict[str, Any]] = field(default_factory=dict)
    ratios: dict[str, dict[str, Any]] = field(default_factory=dict)


def sizes(plan: Plan, rows: Sequence[Row], base: Row | None, comparisons: Sequence[dict[str, Any]]) -> Sizes:
    """Everything about tokens that the study allows to say; nothing where losses are not nats per token."""
    if base is None or base.metric != LOSS:
        return Sizes()
    found = Sizes(slope(plan, rows, base), plan.target)
    by_label = {row.label: row for row in rows}
    for item in comparisons:
        row = by_label.get(item["label"])
        if row is None or any(key in LENGTHS for key in changed(row, base)):
            continue
        if found.slope and item["difference"] is not None:
            found.worth[row.label] = _worth(item, found.slope.value)
    if plan.target is not None:
        _to_target(found, plan.target, rows, base)
    return found


def slope(plan: Plan, rows: Sequence[Row], base: Row) -> Slope | None:
    """How fast the loss falls with ln(tokens): as declared, else from runs of the baseline of several lengths in this
    study, else as measured before at this scale."""
    from ablab.analysis.stats.curves import token_slope

    if plan.slope is not None:
        return Slope(plan.slope, "declared as study.slope")
    ladder = [row for row in rows if set(changed(row, base)) <= set(LENGTHS)]
    points = [(trained, loss) for row in ladder for run in row.finished
              if (trained := tokens(run)) and (loss := run.last(LOSS)) is not None]  # fmt: skip
    fitted = token_slope(*zip(*points, strict=True)) if points else None
    if fitted is not None and fitted < 0:
        lengths = sorted({trained for trained, _ in points})
        return Slope(fitted, f"fitted over {len(points)} runs of the baseline at {len(lengths)} lengths of this study")
    known = finite((plan.noise or {}).get("slope"))
    return None if known is None else Slope(known, "measured before at this scale")


def tokens(run: Run) -> float | None:
    """Tokens that a run was trained on."""
    seen = run.points("tokens", "tokens")[1]
    return float(seen[-1]) if len(seen) else None


def _worth(item: dict[str, Any], slope: float) -> list[float]:
    """Per cent of tokens: of the difference, and of its interval's ends in rising order where there is one."""
    from ablab.analysis.stats.curves import tokens_worth

    ends = [item["difference"], *reversed(item["ci"] or [])]
    return [tokens_worth(end, slope) for end in ends]


def _to_target(found: Sizes, target: float, rows: Sequence[Row], base: Row) -> None:
    from ablab.analysis.stats.curves import Reached, target_ratio, tokens_to_target

    reached: dict[str, dict[int, Reached]] = {}
    for row in rows:
        runs = {
            entry.cell.seed: entry.run for entry in row.entries if entry.run and entry.state in ("finished", "diverged")
        }
        curves = {seed: run.points(LOSS, "tokens") for seed, run in runs.items()}
        reached[row.label] = {seed: tokens_to_target(*curve, target) for seed, curve in curves.items() if len(curve[0])}
        hits = [item.tokens for item in reached[row.label].values() if not item.missed]
        found.reached[row.label] = {
            "tokens": math.exp(math.fsum(map(math.log, hits)) / len(hits)) if hits and min(hits) > 0 else None,
            "reached": len(hits),
            "of": len(reached[row.label]),
        }
    for row in rows:
        if row is not base and all(
            item.tokens > 0 for label in (row.label, base.label) for item in reached[label].values()
        ):
            found.ratios[row.label] = asdict(target_ratio(reached[row.label], reached[base.label]))
