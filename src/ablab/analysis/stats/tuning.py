"""Learning rates chosen on some seeds and judged on others, by one rule for every variant."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd

from ablab.errors import UsageError

from . import sums
from .table import COLUMNS, labels_of


@dataclass(frozen=True)
class Tuned:
    """The rate chosen for one variant and what it gives on seeds that did not choose it.

    `rates` the grid tried, `trials` the runs spent on it, `edge` "low" or "high" when the best rate ends the
    grid (then no verdict), `curve` mean selection loss by rate (None where a run was lost), `diverged` rates
    at which a selection run diverged, `reported` the losses on other seeds by seed.
    """

    label: str
    rate: float | None
    rates: tuple[float, ...]
    trials: int
    edge: str | None
    selection_loss: float | None
    curve: Mapping[float, float | None]
    diverged: tuple[float, ...]
    reported: Mapping[int, float]
    reported_mean: float | None


def tune(
    runs: pd.DataFrame,
    rate: str = "optimizer.lr",
    selection_seeds: Iterable[int] = (0,),
    labels: Sequence[str] | None = None,
) -> list[Tuned]:
    """The best rate of every label by mean loss over `selection_seeds`, reported on all other seeds.

    `runs` has a column `rate`; its labels do not contain the rate. A rate that lost one of its selection runs
    is never chosen. UsageError when the column is missing or the selection seeds are empty.
    """
    lacking = [c for c in (*COLUMNS, rate) if c not in runs.columns]
    if lacking:
        raise UsageError(f"tuning: column {lacking[0]} is missing from the table of runs")
    chosen = set(selection_seeds)
    if not chosen:
        raise UsageError("study.selection_seeds: at least one seed must choose the rate")
    return [_tune(runs[runs["label"] == label], str(label), rate, chosen) for label in labels or labels_of(runs)]


def _tune(rows: pd.DataFrame, label: str, rate: str, chosen: set[int]) -> Tuned:
    select = rows[rows["seed"].isin(chosen)]
    rates = tuple(sorted(float(r) for r in select[rate].unique()))
    curve = {r: _mean_or_none(select[select[rate] == r]) for r in rates}
    known = {r: x for r, x in curve.items() if x is not None}
    best = min(known, key=lambda r: (known[r], r)) if known else None
    edge = None
    if best is not None:
        edge = "low" if best == rates[0] else "high" if best == rates[-1] else None
    other = rows[~rows["seed"].isin(chosen) & (rows["state"] == "finished") & np.isfinite(rows["loss"].astype(float))]
    found = other[other[rate] == best] if best is not None else other.iloc[:0]
    reported = {int(s): float(x) for s, x in zip(found["seed"], found["loss"], strict=True)}
    lost = select.loc[select["state"] == "diverged", rate]
    return Tuned(
        label,
        best,
        rates,
        len(select),
        edge,
        known.get(best) if best is not None else None,
        curve,
        tuple(sorted({float(r) for r in lost})),
        dict(sorted(reported.items())),
        sums.mean(list(reported.values())) if reported else None,
    )


def _mean_or_none(rows: pd.DataFrame) -> float | None:
    loss = rows["loss"].to_numpy(dtype=float)
    whole = bool((rows["state"] == "finished").all()) and bool(np.isfinite(loss).all())
    return sums.mean(loss) if whole and loss.size else None


def unequal_grids(tuned: Sequence[Tuned]) -> str | None:
    """A sentence when the variants did not get the same grid and the same number of trials, else None."""
    if len({(t.rates, t.trials) for t in tuned}) <= 1:
        return None
    each = "; ".join(f"{t.label}: {t.trials} trials over {len(t.rates)} rates" for t in tuned)
    return f"the variants were not tuned alike ({each})"


def common_rate(tuned: Sequence[Tuned]) -> float | None:
    """The one rate that is best for all together: least mean selection loss among rates no variant lost."""
    shared = set.intersection(*(set(t.curve) for t in tuned)) if tuned else set()
    totals: dict[float, float] = {}
    for r in sorted(shared):
        values = [x for t in tuned if (x := t.curve[r]) is not None]
        if len(values) == len(tuned):
            totals[r] = sums.mean(values)
    return min(totals, key=lambda r: totals[r]) if totals else None


def sensitivity(losses: Mapping[float, float | None], initial_loss: float) -> float | None:
    """Learning-rate sensitivity: mean over the log grid of min(l(eta), l0) - min l.

    `losses` maps each rate to its final loss; None or not finite (diverged) counts as `initial_loss`, the one
    l0 of all variants. Every rate weighs the same, so the grid must be even in log eta, and the same for all
    variants. Source: Wortsman et al. 2023, "Small-scale proxies for large-scale Transformer training
    instabilities", eq. 2.
    """
    if not losses:
        return None
    capped = [initial_loss if x is None or not math.isfinite(x) else min(x, initial_loss) for x in losses.values()]
    return sums.mean(capped) - min(capped)
