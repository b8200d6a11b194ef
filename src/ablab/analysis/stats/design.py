"""Design matrices of full factorials in sum contrasts, and what such a design can and cannot tell apart."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations, product

import numpy as np
from numpy.typing import NDArray

Array = NDArray[np.float64]
Cell = tuple[str, ...]
Term = tuple[str, ...]


@dataclass(frozen=True)
class Design:
    """Coding of cells: `factors` in order, their `levels`, and the columns of each term (mean first)."""

    factors: tuple[str, ...]
    levels: Mapping[str, tuple[str, ...]]
    terms: tuple[Term, ...]
    columns: Mapping[Term, slice]
    width: int

    @property
    def cells(self) -> list[Cell]:
        """Every combination of levels, the last factor fastest."""
        return list(product(*(self.levels[f] for f in self.factors)))

    def row(self, cell: Cell) -> Array:
        """The (width,) coding of one cell: products of sum contrasts, 1 for the mean."""
        parts = []
        codes = {f: sum_contrast(self.levels[f], level) for f, level in zip(self.factors, cell, strict=True)}
        for term in self.terms:
            part: Array = np.ones(1)
            for f in term:
                part = np.asarray(np.kron(part, codes[f]), dtype=np.float64)
            parts.append(part)
        return np.concatenate(parts)


def sum_contrast(levels: Sequence[str], level: str) -> Array:
    """Sum ("effect") coding: unit vectors, and -1 everywhere for the last level; (len(levels) - 1,)."""
    i = levels.index(level)
    return -np.ones(len(levels) - 1) if i == len(levels) - 1 else np.eye(len(levels) - 1)[i]


def build(levels: Mapping[str, Sequence[str]]) -> Design:
    """The saturated factorial: mean, main effects and every interaction of the factors in `levels`."""
    factors = tuple(levels)
    terms: list[Term] = [t for r in range(len(factors) + 1) for t in combinations(factors, r)]
    columns, start = {}, 0
    for term in terms:
        size = int(np.prod([len(levels[f]) - 1 for f in term], dtype=int))
        columns[term] = slice(start, start + size)
        start += size
    return Design(factors, {f: tuple(levels[f]) for f in factors}, tuple(terms), columns, start)


def block_columns(blocks: Sequence[object]) -> Array:
    """Sum contrasts of the blocks of each run: (runs, distinct blocks - 1)."""
    names = sorted(set(blocks), key=lambda b: (str(type(b)), b))  # type: ignore[type-var]
    return np.array([sum_contrast(names, b) for b in blocks]).reshape(len(blocks), -1)  # type: ignore[arg-type]


def null_space(X: Array) -> Array:
    """A sparse basis, (dimension, columns), of what the design cannot see; empty when X has full column
    rank.
    """
    _, _, vt = np.linalg.svd(X, full_matrices=True)
    rank = int(np.linalg.matrix_rank(X))
    return reduced(vt[rank:])


def reduced(rows: Array) -> Array:
    """Reduced row echelon form, so that each vector names as few columns as possible."""
    a, lead = rows.copy(), 0
    for i in range(a.shape[0]):
        while lead < a.shape[1]:
            j = i + int(np.argmax(np.abs(a[i:, lead])))
            if abs(a[j, lead]) > 1e-9:
                break
            a[i:, lead] = 0.0
            lead += 1
        else:
            break
        a[[i, j]] = a[[j, i]]
        a[i] /= a[i, lead]
        others = np.arange(a.shape[0]) != i
        a[others] -= a[others, lead][:, None] * a[i]
        lead += 1
    a[np.abs(a) < 1e-9] = 0.0
    return a


def estimable(contrasts: Array, null: Array) -> bool:
    """Whether every row of `contrasts` (r, columns) is orthogonal to the null space, hence known from the
    data.
    """
    return null.shape[0] == 0 or bool(np.all(np.abs(np.atleast_2d(contrasts) @ null.T) < 1e-7))


def aliases(design: Design, null: Array, block: str) -> list[str]:
    """One sentence per direction the design cannot see, naming the terms that it mixes up."""
    out = []
    for vector in null:
        names = [" × ".join(t) for t in design.terms if t and np.any(vector[design.columns[t]] != 0)]
        if np.any(vector[design.width :] != 0):
            names.append(block)
        out.append(f"cannot be told apart: {', '.join(names)}")
    return list(dict.fromkeys(out))
