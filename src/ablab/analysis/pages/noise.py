"""How noisy the study is: spread over seeds, correlation between variants, what more seeds would find."""

from __future__ import annotations

import math
from collections.abc import Collection

from ablab.analysis.document import Column, Grid, Items, Section, count, fixed, listed
from ablab.analysis.facts import Facts
from ablab.analysis.levels import finite
from ablab.analysis.pages.common import FOLD_AT, figure, shown


def section(facts: Facts, pictures: Collection[str]) -> Section:
    """Noise over seeds; empty below two seeds."""
    made = Section("Noise", "noise")
    if max((len(row.values) for row in facts.rows), default=0) < 2:
        return made
    cells = {item["label"]: item for item in facts.report["cells"]}
    columns = [
        Column("variant", shown), Column("n", count, True), Column("sd over seeds", fixed(4), True),
        Column("sd of the paired difference", fixed(4), True), Column("correlation with the baseline", fixed(2), True),
    ]  # fmt: skip
    spread, correlation = facts.inference.spread, facts.inference.correlation
    rows = [[row.label, cells[row.label]["n"], cells[row.label]["std"], spread.get(row.label), correlation.get(row.label)]
            for row in facts.rows]  # fmt: skip
    made.add(Items(sentences(facts)))
    made.add(Grid("noise", columns, rows, folded=len(rows) > FOLD_AT))
    return made.add(figure(
        pictures, "seeds",
        "Final loss of every seed in every variant. A line is a seed: where the lines run parallel, pairing takes the "
        "noise of the seed out of the comparison.",
    ))  # fmt: skip


def sentences(facts: Facts) -> list[str]:
    """The pooled spread, what pairing gave, and the noise that was known before."""
    lines = []
    stds = [item["std"] for item in facts.report["cells"] if item["std"] is not None]
    if stds:
        lines.append(
            f"Over seeds one variant varies with a standard deviation of {math.sqrt(sum(s * s for s in stds) / len(stds)):.4f} nats (pooled over {len(stds)} variants)"
        )
    known = [value for value in facts.inference.correlation.values() if value is not None]
    n = max(len(row.values) for row in facts.rows)
    if known and n >= 3:
        from ablab.analysis.stats.paired import pairing_pays_above

        mean = sum(known) / len(known)
        bound = pairing_pays_above(n)
        says = "pairing pays" if mean > bound else "pairing does not pay"
        lines.append(
            f"Losses of a variant and the baseline correlate at {mean:.2f} over seeds (mean); with {n} seeds pairing pays above {bound:.2f}: {says} here. The test is paired either way"
        )
    sd = finite((facts.plan.noise or {}).get("sd"))
    if sd is not None:
        noise = facts.plan.noise or {}
        where = listed(
            [str(part) for part in (f"n = {noise['n']}" if noise.get("n") else "", noise.get("machine") or "") if part]
        )
        lines.append(
            f"Known before: two runs of one variant differ with a standard deviation of {sd:.4f} nats"
            + (f" ({where})" if where else "")
        )
    return lines
