"""Factorials: R's npk, ToothGrowth and warpbreaks, empty cells, and identity's missing placement."""

from __future__ import annotations

import math
from fractions import Fraction
from itertools import product

import numpy as np
import pandas as pd
import pytest
import statsmodels.formula.api as smf
from statsmodels.stats.anova import anova_lm

from ablab.analysis import stats
from ablab.errors import UsageError

# Peas in six blocks of four plots: nitrogen, phosphate, potash and yield (R's `npk`).
NPK = """1 0 1 1 49.5  1 1 1 0 62.8  1 0 0 0 46.8  1 1 0 1 57.0  2 1 0 0 59.8  2 1 1 1 58.5
2 0 0 1 55.5  2 0 1 0 56.0  3 0 1 0 62.8  3 1 1 1 55.8  3 1 0 0 69.5  3 0 0 1 55.0
4 1 0 0 62.0  4 1 1 1 48.8  4 0 0 1 45.5  4 0 1 0 44.2  5 1 1 0 52.0  5 0 0 0 51.5
5 1 0 1 49.8  5 0 1 1 48.8  6 1 0 1 57.2  6 1 1 0 59.0  6 0 1 1 53.2  6 0 0 0 56.0"""
# Tooth length of guinea pigs by supplement and dose, ten each (R's `ToothGrowth`).
TEETH = {
    ("VC", "0.5"): "4.2 11.5 7.3 5.8 6.4 10 11.2 11.2 5.2 7",
    ("VC", "1"): "16.5 16.5 15.2 17.3 22.5 17.3 13.6 14.5 18.8 15.5",
    ("VC", "2"): "23.6 18.5 33.9 25.5 26.4 32.5 26.7 21.5 23.3 29.5",
    ("OJ", "0.5"): "15.2 21.5 17.6 9.7 14.5 10 8.2 9.4 16.5 9.7",
    ("OJ", "1"): "19.7 23.3 23.6 26.4 20 25.2 25.8 21.2 14.5 27.3",
    ("OJ", "2"): "25.5 26.4 22.4 24.5 24.8 30.9 26.4 27.3 29.4 23",
}
# Breaks of yarn by wool and tension, nine looms each (R's `warpbreaks`).
WARP = {
    ("A", "L"): "26 30 54 25 70 52 51 26 67",
    ("A", "M"): "18 21 29 17 12 18 35 30 36",
    ("A", "H"): "36 21 24 18 10 43 28 15 26",
    ("B", "L"): "27 14 29 19 29 31 41 20 44",
    ("B", "M"): "42 26 19 16 39 28 21 39 29",
    ("B", "H"): "20 21 24 17 13 15 15 16 28",
}


def crossed(cells: dict[tuple[str, str], str], a: str, b: str) -> pd.DataFrame:
    """Runs of a two-way table, replicates numbered as seeds."""
    return pd.DataFrame(
        [
            {a: x, b: y, "seed": i, "loss": float(v), "state": "finished"}
            for (x, y), row in cells.items()
            for i, v in enumerate(row.split())
        ]
    )


def npk() -> pd.DataFrame:
    """The npk table, block as seed."""
    numbers = np.array(NPK.split(), dtype=float).reshape(-1, 5)
    runs = pd.DataFrame(numbers, columns=["seed", "N", "P", "K", "loss"]).assign(state="finished")
    return runs.astype({"N": int, "P": int, "K": int})


def effect(found: stats.Factorial, *factors: str) -> stats.Effect:
    """The effect of these factors."""
    return next(e for e in (*found.main_effects, *found.interactions) if e.factors == factors)


def sums_by_fractions(cells: dict[tuple[str, str], str]) -> tuple[float, float, float, float]:
    """Sums of squares of a balanced two-way table in exact arithmetic: a, b, a x b, residual."""
    values = {key: [Fraction(v) for v in row.split()] for key, row in cells.items()}
    n = len(next(iter(values.values())))
    grand = sum(map(sum, values.values())) / (n * len(values))
    first, second = (list(dict.fromkeys(k[i] for k in values)) for i in (0, 1))
    mean = {key: sum(row) / n for key, row in values.items()}
    row = {x: sum(mean[x, y] for y in second) / len(second) for x in first}
    column = {y: sum(mean[x, y] for x in first) / len(first) for y in second}
    a = n * len(second) * sum((m - grand) ** 2 for m in row.values())
    b = n * len(first) * sum((m - grand) ** 2 for m in column.values())
    both = n * sum((mean[x, y] - row[x] - column[y] + grand) ** 2 for x, y in values)
    rest = sum((v - mean[key]) ** 2 for key, vs in values.items() for v in vs)
    return float(a), float(b), float(both), float(rest)


@pytest.mark.parametrize(
    ("cells", "names", "printed"),
    [  # F and p as R prints them for y ~ a * b
        (TEETH, ("supp", "dose"), ((15.572, 0.0002312), (92.000, 0.0), (4.107, 0.0218603))),
        (WARP, ("wool", "tension"), ((3.7653, 0.0582130), (8.4980, 0.0006926), (4.1891, 0.0210442))),
    ],
)
def test_two_way_tables_of_r(
    cells: dict[tuple[str, str], str], names: tuple[str, str], printed: tuple[tuple[float, float], ...]
) -> None:
    found = stats.factorial(crossed(cells, *names), names, block=None)
    effects = [effect(found, names[0]), effect(found, names[1]), effect(found, *names)]
    *exact, rest = sums_by_fractions(cells)
    assert found.complete and found.aliases == () and found.empty == ()
    assert [e.sum_sq for e in effects] == pytest.approx(exact, rel=1e-10)
    assert found.mse == pytest.approx(rest / found.df_residual, rel=1e-10)
    for e, (F, p) in zip(effects, printed, strict=True):
        assert pytest.approx(F, abs=5.1e-4) == e.F
        assert e.p == pytest.approx(p, abs=5e-8 if p < 0.001 else 5e-7)


def test_npk_with_a_confounded_interaction() -> None:
    """R's aov(yield ~ block + N*P*K): the three-way interaction is confounded with blocks and must be absent."""
    found = stats.factorial(npk(), ["N", "P", "K"])
    printed = {
        ("N",): (189.28, 12.259, 0.00437),
        ("P",): (8.40, 0.544, 0.47490),
        ("K",): (95.20, 6.166, 0.02880),
        ("N", "P"): (21.28, 1.378, 0.26317),
        ("N", "K"): (33.13, 2.146, 0.16865),
        ("P", "K"): (0.48, 0.031, 0.86275),
    }
    for factors, (sum_sq, F, p) in printed.items():
        e = effect(found, *factors)
        assert e.sum_sq == pytest.approx(sum_sq, abs=0.0051)
        assert pytest.approx(F, abs=5.1e-4) == e.F and e.p == pytest.approx(p, abs=5.1e-6)
    assert found.df_residual == 12 and found.mse == pytest.approx(15.44, abs=0.005)
    assert {e.factors for e in found.interactions} == {("N", "P"), ("N", "K"), ("P", "K")}
    assert not found.complete and found.aliases == ("cannot be told apart: N × P × K, seed",)
    assert effect(found, "N").levels == pytest.approx({"0": 52.066667, "1": 57.683333}, abs=1e-6)


def unbalanced(seed: int = 0) -> pd.DataFrame:
    """A 2 x 3 factorial of four seeds in which single runs were lost."""
    rng = np.random.default_rng(seed)
    rows = [
        {"a": a, "b": b, "seed": s, "loss": 3 + 0.1 * s + 0.01 * float(rng.standard_normal()), "state": "finished"}
        for a, b, s in product("xy", "pqr", range(5))
    ]
    return pd.DataFrame(rows).drop(index=[3, 17, 22])


def test_type_iii_of_statsmodels() -> None:
    runs = unbalanced()
    found = stats.factorial(runs, ["a", "b"])
    fit = smf.ols("loss ~ C(a, Sum) * C(b, Sum) + C(seed, Sum)", runs).fit()
    reference = anova_lm(fit, typ=3)
    for factors, row in {("a",): "C(a, Sum)", ("b",): "C(b, Sum)", ("a", "b"): "C(a, Sum):C(b, Sum)"}.items():
        e = effect(found, *factors)
        assert e.sum_sq == pytest.approx(reference.loc[row, "sum_sq"], rel=1e-7)
        assert e.p == pytest.approx(reference.loc[row, "PR(>F)"], rel=1e-6)


def test_main_effects_weigh_cells_equally() -> None:
    runs = unbalanced()
    runs["loss"] = [{"p": 1.0, "q": 2.0, "r": 9.0}[b] + (a == "y") for a, b in zip(runs["a"], runs["b"], strict=True)]
    found = stats.factorial(runs, ["a", "b"])
    assert effect(found, "a").levels == pytest.approx({"x": 4.0, "y": 5.0})
    assert effect(found, "b").levels == pytest.approx({"p": 1.5, "q": 2.5, "r": 9.5})


def test_an_empty_cell_where_software_prints_nonsense() -> None:
    """A true effect of seven noise units in a design with an empty cell: nothing false may be printed."""
    rng = np.random.default_rng(1)
    rows = [
        {
            "norm": a,
            "ffn": b,
            "seed": s,
            "loss": 3 + 7.0 * (a == "layer") + float(rng.standard_normal()),
            "state": "missing" if (a, b) == ("layer", "relu") else "finished",
        }
        for a, b, s in product(["rms", "layer"], ["swiglu", "relu"], range(4))
    ]
    found = stats.factorial(pd.DataFrame(rows), ["norm", "ffn"])
    assert found.main_effects == () and found.interactions == () and not found.complete
    assert found.empty == ({"norm": "layer", "ffn": "relu"},)
    assert found.aliases == ("cannot be told apart: norm, ffn, norm × ffn",)
    (norm,) = [c for c in found.simple_effects if c.factor == "norm"]
    assert norm.at == {"ffn": "swiglu"} and norm.difference == pytest.approx(7, abs=2)
    assert norm.p is not None and norm.p < 0.01
    assert [c.at for c in found.simple_effects if c.factor == "ffn"] == [{"norm": "rms"}]


def test_level_contrasts_of_a_larger_design_with_an_empty_cell() -> None:
    runs = unbalanced().query("not (a == 'y' and b == 'r')")
    found = stats.factorial(runs, ["a", "b"], baseline={"a": "x", "b": "p"})
    (contrast,) = found.level_contrasts  # q - p over both levels of a; nothing of r, nothing of a
    assert (contrast.factor, contrast.level, contrast.reference, contrast.at) == ("b", "q", "p", {})
    assert {(c.factor, c.level, *c.at.values()) for c in found.simple_effects} == {
        ("a", "y", "p"), ("a", "y", "q"), ("b", "q", "x"), ("b", "r", "x"), ("b", "q", "y"),
    }  # fmt: skip


def test_simple_effects_agree_with_their_intervals() -> None:
    runs = unbalanced(3)
    runs["loss"] += 0.02 * (runs["b"] == "q") + 0.012 * (runs["a"] == "y")
    for c in stats.factorial(runs, ["a", "b"]).simple_effects:
        assert c.ci is not None and c.p_adjusted is not None
        assert (c.ci[0] > 0 or c.ci[1] < 0) == (c.p_adjusted < 0.05)


@pytest.mark.parametrize("seeds", [1, 2])
def test_below_three_seeds_there_is_no_p(seeds: int) -> None:
    rows = [
        {
            "a": a,
            "b": b,
            "seed": s,
            "loss": {"xp": 1.0, "xq": 4.0, "yp": 2.0, "yq": 9.0}[a + b] + s,
            "state": "finished",
        }
        for a, b, s in product("xy", "pq", range(seeds))
    ]
    found = stats.factorial(pd.DataFrame(rows), ["a", "b"])
    assert all(e.F is None and e.p is None and math.isfinite(e.sum_sq) for e in found.main_effects)
    assert all(c.p is None and c.ci is None for c in found.simple_effects)
    assert len(found.main_effects) == 2 and len(found.simple_effects) == 4


def test_a_factor_with_one_level_is_left_out() -> None:
    found = stats.factorial(unbalanced().assign(c="only"), ["a", "b", "c"])
    assert {e.factors for e in found.main_effects} == {("a",), ("b",)}


def test_refusals() -> None:
    with pytest.raises(UsageError, match="no column 'nope'"):
        stats.factorial(unbalanced(), ["nope"])
    with pytest.raises(UsageError, match="two levels"):
        stats.factorial(unbalanced().assign(state="failed"), ["a", "b"])
