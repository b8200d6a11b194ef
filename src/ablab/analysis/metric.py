"""What is compared: nats per token where all variants read the same tokens, else bits per byte of one shared text."""

from __future__ import annotations

from collections.abc import Sequence

from ablab.analysis.plan import Plan
from ablab.analysis.read import Run

LOSS, BITS = "val/loss", "val/bits_per_byte"
UNITS = {LOSS: "nats per token", BITS: "bits per byte"}


def data_factors(plan: Plan) -> list[str]:
    """Factors that change the tokens a variant reads."""
    keys = [*plan.factors, *plan.nuisance]
    return [key for key in keys if key == "data" or (key.startswith("data.") and key != "data.order")]


def compared_metric(plan: Plan, runs: Sequence[Run]) -> tuple[str, str | None, bool]:
    """(metric, what to say about it, whether variants may be compared at all).

    Losses per token of two tokenizers do not compare; bits per byte do, on one validation text, which is taken to be
    one where every run reports the same number of its bytes under the same choice of data.
    """
    factors = data_factors(plan)
    if not factors:
        return LOSS, None, True
    named = ", ".join(factors)
    sizes = {run.status.get("val_bytes") for run in runs}
    texts = {run.choices.get("data") for run in runs}
    done = [run for run in runs if run.state == "finished"]
    if len(sizes) == 1 and None not in sizes and len(texts) == 1 and all(run.last(BITS) is not None for run in done):
        return (
            BITS,
            f"the variants differ in {named}: they are compared in bits per byte, the margin counts those too",
            True,
        )
    return LOSS, (
        f"the variants differ in {named}, and not all report bits per byte of one validation text: "
        "their losses per token do not compare, so none is judged"
    ), False  # fmt: skip
