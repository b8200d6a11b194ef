"""Main effects, interactions and simple effects of a factorial, with seed as a block."""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np
import pandas as pd
from numpy.typing import NDArray
from scipy import stats

from ablab.errors import UsageError

from . import sums
from .design import Cell, Design, aliases, block_columns, build, estimable, null_space
from .family import stepwise_interval
from .multiplicity import holm, holm_levels
from .paired import MIN_SEEDS, t_ratio

Array = NDArray[np.float64]


@dataclass(frozen=True)
class Effect:
    """A test that one term is zero: `factors` (one: a main effect), sum of squares, F and p.

    Of a main effect `levels` holds the mean of each level over all cells of the other factors, weighed
    equally. F and p are None below three finished seeds per cell or without error degrees of freedom.
    """

    factors: tuple[str, ...]
    df: int
    sum_sq: float
    F: float | None
    p: float | None
    levels: Mapping[str, float]


@dataclass(frozen=True)
class Contrast:
    """`level` - `reference` of one factor `at` fixed levels of the others (empty: their equal-weight mean).

    `ci` and `p_adjusted` are Holm's over all such contrasts of the factor; None below three seeds per cell.
    """

    factor: str
    level: str
    reference: str
    at: Mapping[str, str]
    n: int
    difference: float
    ci: tuple[float, float] | None
    p: float | None
    p_adjusted: float | None


@dataclass(frozen=True)
class Factorial:
    """A factorial analysis. Only what the design can tell is in it; `aliases` names the rest.

    `complete` when the model has full column rank (no empty cell, no confounding); `level_contrasts` holds
    the estimable level differences of factors whose main effect is not; `empty` the cells without a finished
    run.
    """

    complete: bool
    main_effects: tuple[Effect, ...]
    interactions: tuple[Effect, ...]
    simple_effects: tuple[Contrast, ...]
    level_contrasts: tuple[Contrast, ...]
    empty: tuple[Mapping[str, str], ...]
    aliases: tuple[str, ...]
    replicates: int
    df_residual: int
    mse: float | None


def factorial(
    runs: pd.DataFrame,
    factors: Sequence[str],
    *,
    block: str | None = "seed",
    baseline: Mapping[str, object] | None = None,
    alpha: float = 0.05,
) -> Factorial:
    """Analysis of variance of the finished runs over `factors`; main effects weigh cells equally (type III).

    Least squares on sum contrasts of all main effects and interactions plus additive `block`s (None: no
    blocks). A term is tested only when its contrasts are orthogonal to the null space of the design matrix:
    with an empty cell, or a term confounded with blocks, ordinary software prints numbers for what the data
    cannot tell. `baseline` gives the reference level of each factor (default: first seen). Factors with one
    level are left out.

    Raises UsageError for an unknown column or when no factor varies among the finished runs.
    """
    for column in (*factors, "loss", "state", *([block] if block else [])):
        if column not in runs.columns:
            raise UsageError(f"factorial: no column {column!r}; there are: {', '.join(map(str, runs.columns))}")
    levels = {f: _levels(runs[f], (baseline or {}).get(f)) for f in factors}
    levels = {f: names for f, names in levels.items() if len(names) >= 2}
    rows = runs[(runs["state"] == "finished") & np.isfinite(runs["loss"].astype(float))]
    if not levels or rows.empty:
        raise UsageError("factorial: no factor with two levels among the finished runs")
    return _Fit(rows, build(levels), block, alpha).result()


def _levels(column: pd.Series, first: object) -> tuple[str, ...]:
    names = dict.fromkeys(str(x) for x in column)
    return tuple(dict.fromkeys([str(first), *names])) if str(first) in names else tuple(names)


class _Fit:
    """The fitted model and the questions put to it."""

    def __init__(self, rows: pd.DataFrame, design: Design, block: str | None, alpha: float) -> None:
        self.design, self.alpha, self.block = design, alpha, block or "block"
        keys: list[Cell] = [tuple(str(x) for x in row) for row in rows[list(design.factors)].itertuples(index=False)]
        self.counts = {cell: keys.count(cell) for cell in design.cells}
        self.code = {cell: design.row(cell) for cell in design.cells}
        X = np.array([self.code[key] for key in keys])
        if block is not None:
            X = np.hstack([X, block_columns(list(rows[block]))])
        self.width = X.shape[1]
        y = rows["loss"].to_numpy(dtype=np.float64)
        self.centre = sums.mean(y)
        inverse = np.linalg.pinv(X)
        self.beta, self.inverse = inverse @ (y - self.centre), inverse @ inverse.T
        rest = y - self.centre - X @ self.beta
        self.null = null_space(X)
        self.df = int(len(y) - (self.width - self.null.shape[0]))
        self.mse = float(rest @ rest) / self.df if self.df > 0 else math.nan
        self.replicates = min((n for n in self.counts.values() if n), default=0)
        self.judge = self.replicates >= MIN_SEEDS and self.df > 0 and self.mse > 0

    def result(self) -> Factorial:
        effects = [e for term in self.design.terms if term for e in self._effect(term)]
        tested = {e.factors for e in effects}
        open_factors = [f for f in self.design.factors if (f,) not in tested]
        return Factorial(
            complete=self.null.shape[0] == 0,
            main_effects=tuple(e for e in effects if len(e.factors) == 1),
            interactions=tuple(e for e in effects if len(e.factors) > 1),
            simple_effects=tuple(c for f in self.design.factors for c in self._contrasts(f, simple=True)),
            level_contrasts=tuple(c for f in open_factors for c in self._contrasts(f, simple=False)),
            empty=tuple(dict(zip(self.design.factors, cell, strict=True)) for cell, n in self.counts.items() if not n),
            aliases=tuple(aliases(self.design, self.null, self.block)),
            replicates=self.replicates,
            df_residual=self.df,
            mse=None if math.isnan(self.mse) else self.mse,
        )

    def _pad(self, row: Array) -> Array:
        return np.concatenate([row, np.zeros(self.width - row.size)])

    def _effect(self, term: tuple[str, ...]) -> list[Effect]:
        L = np.eye(self.width)[self.design.columns[term]]
        if not estimable(L, self.null):
            return []
        value, spread = L @ self.beta, L @ self.inverse @ L.T
        df = L.shape[0]
        sum_sq = float(value @ np.linalg.solve(spread, value))
        F = sum_sq / df / self.mse if self.judge else None
        p = None if F is None else float(stats.f.sf(F, df, self.df))
        return [Effect(term, df, sum_sq, F, p, self._means(term[0]) if len(term) == 1 else {})]

    def _mean_row(self, factor: str, level: str) -> Array:
        i = self.design.factors.index(factor)
        return self._pad(np.mean([self.code[c] for c in self.design.cells if c[i] == level], axis=0))

    def _means(self, factor: str) -> dict[str, float]:
        rows = {level: self._mean_row(factor, level) for level in self.design.levels[factor]}
        return {x: self.centre + float(r @ self.beta) for x, r in rows.items() if estimable(r, self.null)}

    def _contrasts(self, factor: str, simple: bool) -> list[Contrast]:
        """Level against reference: at every setting of the other factors, or averaged over all of them."""
        i, (reference, *others) = self.design.factors.index(factor), self.design.levels[factor]
        found: list[tuple[str, dict[str, str], int, Array]] = []
        for level in others:
            if not simple:
                row = self._mean_row(factor, level) - self._mean_row(factor, reference)
                n = min((m for c, m in self.counts.items() if c[i] in (level, reference)), default=0)
                found.append((level, {}, n, row))
                continue
            for cell in self.design.cells:
                if cell[i] == level:
                    base = (*cell[:i], reference, *cell[i + 1 :])
                    at = {f: x for f, x in zip(self.design.factors, cell, strict=True) if f != factor}
                    n = min(self.counts[cell], self.counts[base])
                    found.append((level, at, n, self._pad(self.code[cell] - self.code[base])))
        found = [x for x in found if x[2] and estimable(x[3], self.null)]
        return self._judge(factor, reference, found)

    def _judge(
        self, factor: str, reference: str, found: list[tuple[str, dict[str, str], int, Array]]
    ) -> list[Contrast]:
        value = [float(row @ self.beta) for *_, row in found]
        if not self.judge:
            return [
                Contrast(factor, level, reference, at, n, d, None, None, None)
                for (level, at, n, _), d in zip(found, value, strict=True)
            ]
        error = [math.sqrt(self.mse * float(row @ self.inverse @ row)) for *_, row in found]
        p = np.array([2 * stats.t.sf(abs(t_ratio(d, e)), self.df) for d, e in zip(value, error, strict=True)])
        adjusted, levels = holm(p), holm_levels(p, self.alpha)
        return [
            Contrast(
                factor,
                level,
                reference,
                at,
                n,
                value[k],
                stepwise_interval(value[k], error[k], self.df, self.alpha / len(found), float(levels[k])),
                float(p[k]),
                float(adjusted[k]),
            )
            for k, (level, at, n, _) in enumerate(found)
        ]
