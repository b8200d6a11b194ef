"""`plan=true`: what a study would train and cost."""

from __future__ import annotations

from rich.console import Console
from rich.table import Table

from .. import runfolder
from ..data import TokenData
from . import budget, closing
from .plan import Plan


def show(console: Console, plan: Plan, data: TokenData) -> None:
    """Print cells, parameters, FLOPs, widths, tokens per parameter and epochs."""
    table = Table(title=f"plan of study {plan.study}", title_justify="left", pad_edge=False, show_edge=False)
    for name in (
        "cell",
        "variant",
        "seed",
        "parameters",
        "d_ff",
        "FFN residual",
        "PFLOP",
        "tokens/parameter",
        "epochs",
        "state",
    ):
        table.add_column(name, justify="left" if name in ("variant", "state") else "right")
    for cell in plan.cells:
        tokens = budget.tokens_per_step(cell.cfg) * cell.cfg.train.steps
        table.add_row(
            str(cell.index), cell.label, str(cell.seed), f"{cell.costs['parameters']:,}", str(cell.costs["d_ff"]),
            f"{cell.costs['ffn_residual']:+.2%}", f"{tokens * cell.costs['flops_per_token'] / 1e15:.4f}",
            f"{tokens / cell.costs['non_embedding']:.2f}", f"{tokens / max(1, len(data.train)):.2f}",
            runfolder.state(plan.run_dir(cell)),
        )  # fmt: skip
    console.print(table)
    for text in plan.warnings:
        closing.say(console, f"warning: {text}")
