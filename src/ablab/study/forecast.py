"""`plan=true`: what a study would train, what it costs, how long it takes here, and what its seeds can find."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .. import runfolder
from ..data import TokenData
from . import budget, closing
from .display import clock
from .plan import Plan


def show(console: Console, plan: Plan, data: TokenData, seconds: dict[str, float], jobs: int) -> None:
    """Print the plan.

    Args:
        data: prepared text of the study.
        seconds: label -> seconds of one step, measured here.
        jobs: cells at once.
    """
    table = Table(title=f"plan of study {plan.study}", title_justify="left", pad_edge=False, show_edge=False)
    for name in ("cell", "variant", "seed", "parameters", "d_ff", "FFN", "TFLOP", "tokens/parameter", "epochs", "time",
                 "state"):  # fmt: skip
        table.add_column(name, justify="left" if name in ("variant", "state") else "right")
    left = 0.0
    for cell in plan.cells:
        steps = cell.cfg.train.steps
        tokens = budget.tokens(cell.cfg)
        state = runfolder.state(plan.run_dir(cell))
        time = seconds[cell.label] * steps
        left += 0.0 if state in runfolder.OUTCOMES else time
        table.add_row(
            str(cell.index), cell.label, str(cell.seed), f"{cell.costs['parameters']:,}", str(cell.costs["d_ff"]),
            f"{cell.costs['ffn_residual']:+.2%}", f"{tokens * cell.costs['flops_per_token'] / 1e12:,.1f}",
            f"{tokens / cell.costs['non_embedding']:.2f}", f"{tokens / len(data.train):.2f}", clock(time), state,
        )  # fmt: skip
    console.print(table)
    closing.say(console, "FFN: parameters of the FFN against the budget of 3·D·W per layer")
    closing.say(console, f"time to train what is missing: about {clock(left / jobs)} with {jobs} cells at once "
                         "(measured on a few steps, evaluation not counted)")  # fmt: skip
    for text in plan.warnings:
        closing.say(console, f"warning: {text}")
    for text in power(plan):
        closing.say(console, text)


def power(plan: Plan) -> list[str]:
    """What 3, 5, 8 and the planned seeds can find, in units of the noise between pairs and in nats if that is known."""
    from ..analysis import stats

    settings, noise = plan.settings, plan.noise or {}
    comparisons = family(plan)
    if not comparisons:
        return []
    sd = noise.get("sd")
    seeds = sum(seed not in settings.selection_seeds for seed in plan.seeds)
    level = stats.planned_level(seeds, list(settings.looks), settings.alpha)
    looks = f" at each of the looks {list(settings.looks)}" if level < settings.alpha else ""
    lines = [f"smallest difference that n seeds find in 80 % of studies ({comparisons} primary "
             f"comparison{'s' * (comparisons > 1)}, tested at {level:g}{looks}; s: standard deviation of the paired differences)"]  # fmt: skip
    for n in sorted({3, 5, 8} | ({seeds} if seeds > 2 else set())):
        factor = stats.mde_factor(n, level, comparisons)
        nats = f" = {factor * sd:.4f} nats (noise {sd:.4f}, n = {noise['n']})" if sd else ""
        apart = stats.mde_factor(n, level, comparisons, "holm")
        holm = f"; {apart:.2f} s where the arms' spreads differ" if comparisons > 1 else ""
        limit = stats.equivalence_limit(n, settings.margin, level, comparisons)
        lines.append(
            f"  n = {n}: {factor:.2f} s{nats}{holm}; equivalence within ±{settings.margin:g} needs s ≤ {limit:.4f}"
        )
    if not sd:
        lines.append("  the noise at this scale is not known; `experiment=noise` measures it")
    return lines


def family(plan: Plan) -> int:
    """Number of primary comparisons: variants that differ from the baseline in one factor, tuned values aside."""
    tuned = set(plan.settings.nuisance)
    variants = {tuple((k, str(v)) for k, v in cell.factors.items() if k not in tuned) for cell in plan.cells}
    base = {k: str(v) for k, v in plan.baseline.items()}
    return sum(sum(value != base.get(key) for key, value in variant) == 1 for variant in variants)
