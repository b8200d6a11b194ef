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
    """What the planned seeds, and 3 or 5, can find, in units of the noise between pairs and in nats if that is known."""
    from ..analysis import stats

    labels = {cell.label for cell in plan.cells}
    comparisons = max(1, len(labels) - 1)
    if len(labels) < 2:
        return []
    noise = plan.noise or {}
    lines = [f"smallest difference that n seeds find in 80 % of studies ({comparisons} comparisons, "
             f"alpha = {plan.settings.alpha:g}; s: standard deviation of the paired differences)"]  # fmt: skip
    for n in dict.fromkeys([*sorted({3, 5, 8} | ({len(plan.seeds)} if len(plan.seeds) > 2 else set()))]):
        factor = stats.mde_factor(n, alpha=plan.settings.alpha, comparisons=comparisons)
        apart = stats.mde_factor(n, alpha=plan.settings.alpha, comparisons=comparisons, method="holm")
        nats = (
            f" = {factor * noise['sd']:.4f} nats (noise {noise['sd']:.4f}, n = {noise['n']})" if noise.get("sd") else ""
        )
        holm = f"; {apart:.2f} s where the arms' spreads differ" if comparisons > 1 else ""
        lines.append(f"  n = {n}: {factor:.2f} s{nats}{holm}")
    if not noise.get("sd"):
        lines.append("  the noise at this scale is not known; `experiment=noise` measures it")
    return lines
