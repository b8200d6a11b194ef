"""How noisy the study is: spread over seeds, correlation between variants, what more seeds would find."""

from __future__ import annotations

import math
from collections.abc import Collection

from ablab.analysis.document import Column, Grid, Items, Section, count, fixed, listed
from ablab.analysis.facts import Facts
from ablab.analysis.levels import finite
from ablab.analysis.pages.common import FOLD_AT, figure, shown
from ablab.analysis.words import one_factor_pairs

SALT = "seeds.salt"


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


def same_variant(facts: Facts) -> list[str]:
    """What pairs of one variant with itself show: the noise floor, and how often they were called different."""
    if SALT not in facts.plan.factors:
        return []
    pairs = [(row, other) for row, other, _ in one_factor_pairs(facts.rows, SALT, facts.plan.baseline.get(SALT))]
    from ablab.analysis.stats.noise import false_verdict_share, noise_floor

    differences = [
        row.values[seed] - other.values[seed] for row, other in pairs for seed in row.values if seed in other.values
    ]
    floor, lines = noise_floor(differences, facts.plan.alpha), []
    if floor is not None and floor.std_difference is not None:
        within = f" (interval {floor.ci[0]:.4f} to {floor.ci[1]:.4f})" if floor.ci else ""
        lines.append(
            f"Noise floor: {floor.n} pairs that differ in their initial weights alone lie apart with a standard deviation of "
            f"{floor.std_difference:.4f} nats{within}, {floor.largest:.4f} at most"
        )
    labels = {row.label for row, _ in pairs}
    judged = [
        item for item in facts.report["comparisons"] if item["label"] in labels and item["primary"] and item["ci"]
    ]
    share = false_verdict_share([item["verdict"] for item in judged], facts.plan.alpha)
    if share is not None:
        lines.append(
            f"{share.count} of {share.total} comparisons of a variant with itself {'was' if share.total == 1 else 'were'} called "
            f"different: {'as it should be' if share.ok else 'more often than the level allows'}"
        )
    return lines


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
    lines += same_variant(facts)
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
