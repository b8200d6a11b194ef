"""What each swap changed besides the loss, and the proof that variants were paired."""

from __future__ import annotations

from typing import Any

from ablab.analysis import words
from ablab.analysis.cells import Row
from ablab.analysis.differ import differing, traits
from ablab.analysis.document import (
    MISSING,
    Column,
    Grid,
    Section,
    Text,
    compact,
    count,
    fixed,
    short_count,
    word,
)  # fmt: skip
from ablab.analysis.facts import Facts
from ablab.analysis.inference import changed
from ablab.analysis.levels import text
from ablab.analysis.pages.common import FOLD_AT, cost, shown


def section(facts: Facts) -> Section:
    """Parameters, FLOPs and widths of every variant against the baseline."""
    made = Section("What each swap changed", "swaps")
    base = facts.base
    if base is None or len(facts.rows) < 2 or cost(base, "parameters") is None:
        return made
    columns = [
        Column("variant", shown), Column("parameters", count, True), Column("Δ parameters", _signed, True),
        Column("FLOPs/token", short_count, True), Column("Δ FLOPs", _percent, True), Column("FFN width", count, True),
        Column("width residual", _percent, True), Column("gains", count, True), Column("biases", count, True),
        Column("other keys that differ", word),
    ]  # fmt: skip
    rows = []
    for row in facts.rows:
        parameters, flops = cost(row, "parameters"), cost(row, "flops_per_token")
        rows.append([
            row.label, parameters, _minus(parameters, cost(base, "parameters")), flops, _ratio(flops, cost(base, "flops_per_token")),
            cost(row, "d_ff"), cost(row, "ffn_residual"), cost(row, "gains"), cost(row, "biases"), other_keys(row, base),
        ])  # fmt: skip
    caption = "Δ: against the baseline."
    if any(values[6] is not None for values in rows):
        caption += " Width residual: FFN parameters against the matched budget; beyond 0.5 % it is a warning."
    made.add(compact("swaps", columns, rows, caption, folded=len(rows) > FOLD_AT))
    unequal = sentence(facts.rows, base)
    return made.add(Text(unequal) if unequal else None, *treatments(facts))


def treatments(facts: Facts) -> list[Text | Grid]:
    """What the check before training saw: tensors that came and went, norm modules, first loss."""
    known = facts.plan.treatments
    found = [(row, known.get(row.entries[0].cell.declared)) for row in facts.rows if row.entries]
    if not any(item for _, item in found):
        return []
    columns = [
        Column("variant", shown), Column("tensors added", _names), Column("removed", _names), Column("reshaped", _names),
        Column("norm modules", count, True), Column("first loss", fixed(3), True), Column("shared tensors start equal", word),
    ]  # fmt: skip
    rows = [
        [row.label, *(item.get(key) for key in ("added", "removed", "reshaped", "norm_modules", "first_loss", "shared_equal"))]
        for row, item in found if item
    ]  # fmt: skip
    lead = "Checked on the untrained models, before the first step: what each variant has that the baseline has not."
    return [Text(lead), compact("treatment", columns, rows, folded=len(rows) > FOLD_AT // 2)]


def _names(values: list[str] | None) -> str:
    return ", ".join(values) if values else MISSING


def sentence(rows: list[Row], base: Row) -> str | None:
    """Which one-factor swaps change the number of parameters, and by how much."""
    parts = []
    for row in rows:
        extra = _minus(cost(row, "parameters"), cost(base, "parameters"))
        if extra and len(changed(row, base)) == 1:
            parts.append(f"{words.swap(row, base)} {'adds' if extra > 0 else 'removes'} {abs(extra):,} parameters "
                         f"({_percent(extra / cost(base, 'parameters'))})")  # fmt: skip
    return "; ".join(parts) + ". This is part of the swap." if parts else None


def other_keys(row: Row, base: Row) -> str | None:
    """Configuration keys in which a variant differs from the baseline beside its factors."""
    if row is base or not row.runs or not base.runs:
        return None
    mine, theirs = traits(row.runs[0]), traits(base.runs[0])
    skip = {"seed", *row.factors, *(part for key in row.factors for part in key.split("+"))}
    keys = [key for key in differing([mine, theirs]) if key not in skip and key not in row.nuisance]
    parts = [f"{key}: {_written(theirs, key)} → {_written(mine, key)}" for key in keys]
    return "; ".join(parts) or None


def _written(table: dict[str, Any], key: str) -> str:
    return text(table[key])[:24] if key in table else MISSING


def _minus(mine: Any, other: Any) -> int | None:
    return None if mine is None or other is None else int(mine - other)


def _ratio(mine: Any, other: Any) -> float | None:
    return None if mine is None or not other else mine / other - 1


def _signed(value: int | None) -> str:
    return MISSING if value is None else "0" if value == 0 else f"{value:+,}".replace("-", "−")


def _percent(value: float | None) -> str:
    return MISSING if value is None else "0 %" if abs(value) < 5e-6 else f"{100 * value:+.2f} %".replace("-", "−")


def paired(facts: Facts) -> Section:
    """Proof of pairing: one running hash of the training data per seed."""
    made = Section("Proof of pairing", "pairing")
    if not facts.pairing:
        return made
    columns = [
        Column("seed", str, True), Column("runs", count, True), Column("same data", _same), Column("at step", count, True),
        Column("batch_hash", lambda hashes: ", ".join(value[:16] for value in hashes) or MISSING),
    ]  # fmt: skip
    known = [item for item in facts.pairing if item.same is not None]
    if known and all(item.same for item in known):
        line = f"All variants of a seed saw the same batches in the same order ({words.seeds(len(known))})."
    elif known:
        line = "Not all variants of a seed saw the same batches: see the table."
    else:
        line = "The runs record no hash of their training data: pairing is not proven."
    rows = [[item.seed, item.runs, item.same, item.step, list(item.hashes)] for item in facts.pairing]
    made.add(Text(line + " The hash runs over the token ids trained on; it is compared at the last step known to all."))
    return made.add(Grid("pairing", columns, rows, folded=len(rows) > 12))


def _same(value: Any) -> str:
    return "not recorded" if value is None else word(value)
