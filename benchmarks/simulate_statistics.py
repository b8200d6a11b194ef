"""Measure the error rates of the analyser by simulated studies whose truth is known.

    python benchmarks/simulate_statistics.py            # 10,000 studies a row, a few minutes on one core
    python benchmarks/simulate_statistics.py --quick    # 1,000 studies a row

Prints Markdown tables. Families are judged by the rules of `ablab.analysis.stats.compare`, written once more over
many studies at a time; the first table counts how often the two disagree.
"""

from __future__ import annotations

import argparse
import datetime
import math
import platform
import sys
from dataclasses import dataclass
from itertools import product

import numpy as np
import pandas as pd
import scipy
from numpy.typing import NDArray
from scipy import special
from scipy import stats as st

from ablab.analysis import stats
from ablab.analysis.stats.blocked import apart_bound, spread_bounds
from ablab.analysis.stats.looks import false_verdicts

Array = NDArray[np.float64]
Bools = NDArray[np.bool_]
LIMIT = 0.064
"""5 % and two standard errors over 1,000 studies; family-wise rates above it are printed in bold."""


def studies(
    rng: np.random.Generator,
    count: int,
    n: int,
    sds: list[float],
    effects: list[float] | None = None,
    seed_sd: float = 1.0,
) -> Array:
    """Losses (count, k, n): variant 0 is the baseline, seeds shift all variants alike."""
    k = len(sds)
    y = rng.standard_normal((count, k, n)) * np.asarray(sds)[:, None]
    y += seed_sd * rng.standard_normal((count, 1, n))
    return y + np.asarray(effects if effects is not None else [0.0] * k)[:, None]


@dataclass(frozen=True)
class Judged:
    """Verdicts over many studies: `found` (count, m), interval ends (count, m), `pooled` (count,)."""

    found: Bools
    low: Array
    high: Array
    pooled: Bools


def judge(y: Array, alpha: float = 0.05) -> Judged:
    """The rules of `stats.compare` for whole blocks, for y (count, k, n)."""
    count, k, n = y.shape
    m = k - 1
    d = y[:, 1:] - y[:, :1]
    centre, variance = d.mean(axis=2), d.var(axis=2, ddof=1)
    rest = y - y.mean(axis=1, keepdims=True)
    rest -= rest.mean(axis=2, keepdims=True)
    squares = (rest**2).sum(axis=2)
    total = squares.sum(axis=1)
    mse = total / (m * (n - 1))
    own = squares * k / m
    pooled, apart = np.zeros(count, dtype=bool), np.zeros((count, m), dtype=bool)
    if m > 1:
        ratio = own * (k - 2) / (total[:, None] - own)
        bound, arm_bound = spread_bounds(m, n)
        pooled = (ratio[:, 0] <= bound) & (ratio[:, 1:].max(axis=1) <= arm_bound)
        apart = ratio[:, 1:] > apart_bound(m, n)
    critical = stats.dunnett_critical(alpha, m, m * (n - 1))
    half = critical * np.sqrt(np.maximum(variance, 2 * mse[:, None]) / n)
    half = np.where(apart, np.maximum(half, special.stdtrit(n - 1, 1 - alpha / 2) * np.sqrt(variance / n)), half)
    found = np.abs(centre) > half
    low, high = centre - half, centre + half
    alone, alone_low, alone_high = _holm(centre, np.sqrt(variance / n), n - 1, alpha)
    choose = pooled[:, None]
    return Judged(
        np.where(choose, found, alone),
        np.where(choose, low, alone_low),
        np.where(choose, high, alone_high),
        pooled,
    )


def _holm(centre: Array, error: Array, df: int, alpha: float) -> tuple[Bools, Array, Array]:
    """Paired t with Holm over the columns, and the intervals that agree with it."""
    m = centre.shape[1]
    t = np.abs(centre) / error
    steps = special.stdtrit(df, 1 - alpha / 2 / (m - np.arange(m)))
    order = np.argsort(-t, axis=1)
    passed = np.cumprod(np.take_along_axis(t, order, axis=1) >= steps, axis=1).astype(bool)
    rank = np.argsort(order, axis=1)
    found = np.take_along_axis(passed, rank, axis=1)
    half = steps[0] * error
    low, high = centre - half, centre + half
    first_failure = np.minimum(passed.sum(axis=1), m - 1)
    near = steps[np.where(found, rank, first_failure[:, None])] * error
    fix = found & (low <= 0) & (high >= 0)
    low = np.where(fix & (centre > 0), centre - near, low)
    high = np.where(fix & (centre < 0), centre + near, high)
    return found, low, high


def table(title: str, head: list[str], rows: list[list[object]]) -> str:
    """One Markdown table."""
    lines = [f"### {title}", "", "| " + " | ".join(head) + " |", "|" + "---|" * len(head)]
    lines += ["| " + " | ".join(f"{x:.3f}" if isinstance(x, float) else str(x) for x in row) + " |" for row in rows]
    return "\n".join(lines) + "\n"


def as_runs(y: Array) -> pd.DataFrame:
    """One study (k, n) as a table of runs."""
    k, n = y.shape
    rows = [{"label": f"v{v}", "seed": s, "loss": y[v, s], "state": "finished"} for v, s in product(range(k), range(n))]
    return pd.DataFrame(rows)


def disagreements(rng: np.random.Generator, count: int, n: int = 3, arms: int = 4) -> int:
    """Studies in which `judge` and `stats.compare` differ in a verdict or in an interval end."""
    sds = [2.0, *[1.0] * (arms - 1), 3.0]
    y = studies(rng, count, n, sds, [0.0, 8.0, *[0.0] * (arms - 2), -9.0])
    fast = judge(y)
    wrong = 0
    for i in range(count):
        family = stats.compare(as_runs(y[i]), "v0", margin=0.0)
        found = [c.verdict in ("better", "worse") for c in family.comparisons]
        ends = np.array([c.ci for c in family.comparisons])
        same = np.allclose(ends[:, 0], fast.low[i]) and np.allclose(ends[:, 1], fast.high[i])
        wrong += found != list(fast.found[i]) or not same
    return wrong


def scenarios(k: int) -> dict[str, list[float]]:
    """Noise of baseline and arms, in units of the common standard deviation."""
    one, m = [1.0] * k, k - 1
    out = {"equal": one}
    out |= {f"baseline ×{b}": [float(b), *one[1:]] for b in (1.5, 2, 3, 4, 8)}
    out |= {f"one arm ×{b}": [*one[1:], float(b)] for b in (2, 3, 4, 8)}
    out["arms from 1 to 4"] = [float(x) for x in np.linspace(1, 4, k)]
    out["baseline 4 down to 1"] = [float(x) for x in np.linspace(4, 1, k)]
    out["half the arms ×4"] = one[: k - m // 2] + [4.0] * (m // 2)
    return out


def family_errors(rng: np.random.Generator, count: int, ks: tuple[int, ...], ns: tuple[int, ...]) -> list[list[object]]:
    """Share of studies of nothing (A/A) with any false verdict; families of k - 1 comparisons."""
    rows: list[list[object]] = []
    for k in ks:
        for name, sds in scenarios(k).items():
            shares = [float(judge(studies(rng, count, n, sds)).found.any(axis=1).mean()) for n in ns]
            rows.append([k - 1, name, *(f"**{x:.3f}**" if x > LIMIT else x for x in shares)])
    return rows


def declared_unstable(rng: np.random.Generator, count: int, k: int, n: int, ratio: float) -> float:
    """Family-wise false verdicts when the one noisy arm was declared unstable beforehand."""
    y = studies(rng, count, n, [*[1.0] * (k - 1), ratio])
    m = k - 1
    rest = judge(y[:, :-1], 0.05 * (m - 1) / m).found.any(axis=1)
    d = y[:, -1] - y[:, 0]
    t = np.abs(d.mean(axis=1)) / (d.std(axis=1, ddof=1) / math.sqrt(n))
    return float((rest | (t > special.stdtrit(n - 1, 1 - 0.05 / m / 2))).mean())


def coverage(rng: np.random.Generator, count: int, ks: tuple[int, ...], ns: tuple[int, ...]) -> list[list[object]]:
    """Share of studies in which every interval of the family covers its truth."""
    rows: list[list[object]] = []
    for k in ks:
        m = k - 1
        truths = {
            "no effect": [0.0] * m,
            "one real effect": [4.0, *[0.0] * (m - 1)],
            "all real": [3.0 * (i + 1) for i in range(m)],
        }
        for name, truth in truths.items():
            shares = []
            for n in ns:
                j = judge(studies(rng, count, n, [1.0] * k, [0.0, *truth]))
                shares.append(float(((j.low <= truth) & (truth <= j.high)).all(axis=1).mean()))
            rows.append([m, name, *shares])
    return rows


def planted(rng: np.random.Generator, count: int, ks: tuple[int, ...], ns: tuple[int, ...]) -> list[list[object]]:
    """How often an effect of once and twice the smallest detectable one is found, equal variances."""
    rows: list[list[object]] = []
    for k in ks:
        m = k - 1
        for times in (1, 2):
            shares = []
            for n in ns:
                effect = times * stats.mde_factor(n, 0.05, m) * math.sqrt(2)
                y = studies(rng, count, n, [1.0] * k, [0.0, effect, *[0.0] * (m - 1)])
                shares.append(float(judge(y).found[:, 0].mean()))
            rows.append([m, f"{times} × mde", *shares])
    return rows


def pooled_share(rng: np.random.Generator, count: int, ks: tuple[int, ...], ns: tuple[int, ...]) -> list[list[object]]:
    """How often studies of equal noise are judged by the pooled error."""
    return [[k - 1, *[float(judge(studies(rng, count, n, [1.0] * k)).pooled.mean()) for n in ns]] for k in ks]


def powers(rng: np.random.Generator, count: int, ns: tuple[int, ...]) -> list[list[object]]:
    """The computed smallest effects, and the share of studies in which the plain test finds exactly that effect."""
    rows: list[list[object]] = []
    for alpha, (m, method) in product((0.05, 0.01), ((1, "dunnett"), (5, "dunnett"), (5, "holm"))):
        for n in ns:
            factor = stats.mde_factor(n, alpha, m, method)
            y = studies(rng, count, n, [1.0] * (m + 1), [0.0, factor * math.sqrt(2), *[0.0] * (m - 1)])
            d = y[:, 1] - y[:, 0]
            variance = d.var(axis=1, ddof=1)
            if method == "dunnett" and m > 1:
                rest = y - y.mean(axis=1, keepdims=True)
                rest -= rest.mean(axis=2, keepdims=True)
                variance = np.maximum(variance, 2 * (rest**2).sum(axis=(1, 2)) / (m * (n - 1)))
                critical = stats.dunnett_critical(alpha, m, m * (n - 1))
            else:
                critical = float(special.stdtrit(n - 1, 1 - alpha / 2 / m))
            share = float((np.abs(d.mean(axis=1)) > critical * np.sqrt(variance / n)).mean())
            rows.append([alpha, m, method if m > 1 else "paired t", n, f"{factor:.2f}", share])
    return rows


def looking(rng: np.random.Generator, count: int, ks: tuple[int, ...]) -> list[list[object]]:
    """False verdicts over all looks: at declared levels, and when every n from 3 to 8 is tested at .05."""
    rows: list[list[object]] = []
    for k in ks:
        y = studies(rng, count, 8, [1.0] * k)
        for looks in ((3, 5, 8), (3, 5), (5, 8)):
            level = stats.look_level(looks)
            any_look = np.zeros(count, dtype=bool)
            for n in looks:
                any_look |= judge(y[:, :, :n], level).found.any(axis=1)
            rows.append([k - 1, f"{looks}", f"{level:.4f}", float(any_look.mean())])
        peek = np.zeros(count, dtype=bool)
        for n in range(3, 9):
            peek |= judge(y[:, :, :n]).found.any(axis=1)
        rows.append([k - 1, "every n from 3 to 8", "0.0500", float(peek.mean())])
    return rows


def empty_cells(rng: np.random.Generator, count: int) -> dict[str, float]:
    """Factorials with empty cells: how the printed p-values of true and of null contrasts behave.

    Cell means are 0 or 7 noise units; every printed effect and contrast is compared with what the full table of
    cell means says.
    """
    null: list[float] = []
    real: list[float] = []
    invented = 0
    for _ in range(count):
        shape = [(2, 2), (2, 3), (3, 3), (2, 2, 2)][rng.integers(4)]
        cells = list(product(*map(range, shape)))
        means = dict(zip(cells, 7.0 * rng.integers(0, 2, len(cells)), strict=True))
        gone = {cells[i] for i in rng.choice(len(cells), size=int(rng.integers(1, 3)), replace=False)}
        names = [f"f{i}" for i in range(len(shape))]
        rows = [
            {
                **{f: f"l{x}" for f, x in zip(names, c, strict=True)},
                "seed": s,
                "state": "finished",
                "loss": means[c] + float(rng.standard_normal()),
            }
            for c in cells
            if c not in gone
            for s in range(4)
        ]
        runs = pd.DataFrame(rows)
        if any(runs[f].nunique() < 2 for f in names):
            continue
        found = stats.factorial(runs, names, baseline={f: "l0" for f in names})
        kept = [f for f in names if runs[f].nunique() == shape[names.index(f)]]
        if len(kept) < len(names):
            continue
        invented += len(found.main_effects) + sum(len(e.factors) == len(shape) for e in found.interactions)
        for c in (*found.simple_effects, *found.level_contrasts):
            i = names.index(c.factor)
            pick = [x for x in cells if all(f"l{x[names.index(f)]}" == v for f, v in c.at.items())]
            truth = _level_mean(means, pick, i, c.level) - _level_mean(means, pick, i, c.reference)
            (null if truth == 0 else real if abs(truth) >= 7 else []).append(float(c.p or 0))
    return {
        "null contrasts": float(len(null)),
        "p < .05 among them": float(np.mean(np.array(null) < 0.05)),
        "real contrasts of 7 sd": float(len(real)),
        "p < .05 among those": float(np.mean(np.array(real) < 0.05)),
        "effects printed that the cells cannot give": float(invented),
    }


def _level_mean(means: dict[tuple[int, ...], float], cells: list[tuple[int, ...]], i: int, level: str) -> float:
    return float(np.mean([means[c] for c in cells if f"l{c[i]}" == level]))


def main() -> None:
    """Run every simulation and print the tables."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--studies", type=int, default=10_000, help="simulated studies a row (default 10,000)")
    parser.add_argument("--quick", action="store_true", help="1,000 studies a row")
    parser.add_argument("--seed", type=int, default=1)
    options = parser.parse_args()
    count = 1_000 if options.quick else options.studies
    rng = np.random.default_rng(options.seed)
    ns = (3, 4, 5, 8)
    print(f"Command: `{' '.join(['python benchmarks/simulate_statistics.py', *sys.argv[1:]])}`\n")
    print(
        f"{datetime.date.today()}, {count:,} studies a row, seed {options.seed}; Python {platform.python_version()}, "
        f"NumPy {np.__version__}, SciPy {scipy.__version__}, {platform.system()} {platform.machine()}\n"
    )
    head = [f"n = {n}" for n in ns]
    checked = min(count // 20, 500)
    wrong = disagreements(rng, checked)
    print(table("Agreement with the analyser", ["studies", "that differ"], [[checked, wrong]]))
    print(
        table(
            "Family-wise false verdicts when nothing differs (limit .064)",
            ["comparisons", "noise", *head],
            family_errors(rng, count, (2, 3, 4, 6, 9), ns),
        )
    )
    rows: list[list[object]] = [[5, f"×{r}", *[declared_unstable(rng, count, 6, n, r) for n in ns]] for r in (2, 4, 8)]
    print(table("The same with the noisy arm declared unstable", ["comparisons", "its noise", *head], rows))
    print(
        table(
            "Simultaneous coverage of the intervals (93 to 97 %)",
            ["comparisons", "truth", *head],
            coverage(rng, count, (2, 4, 6), ns),
        )
    )
    print(
        table(
            "Studies of equal noise judged by the pooled error",
            ["comparisons", *head],
            pooled_share(rng, count, (3, 4, 6, 9), ns),
        )
    )
    print(
        table(
            "Planted effects found, in units of the smallest detectable effect",
            ["comparisons", "effect", *head],
            planted(rng, count, (2, 4, 6), ns),
        )
    )
    print(
        table(
            "Smallest detectable effects (80 % power) and the power simulated at them",
            ["α", "comparisons", "test", "n", "effect / sd of differences", "simulated power"],
            powers(rng, count, (3, 4, 5, 6, 8, 10)),
        )
    )
    print(
        table(
            "False verdicts over declared looks",
            ["comparisons", "looks", "level", "any look"],
            looking(rng, count, (2, 4, 6)),
        )
    )
    print(
        f"One comparison, 400,000 studies: looks (3, 5, 8) at .02: {false_verdicts((3, 5, 8), 0.02):.4f}; "
        f"(3, 5) at .027: {false_verdicts((3, 5), 0.027):.4f}; every n from 3 to 8 at .05: "
        f"{false_verdicts(range(3, 9), 0.05):.4f}\n"
    )
    found = empty_cells(rng, min(count // 10, 1_000))
    print(table("Factorials with empty cells", list(found), [[f"{x:.4g}" for x in found.values()]]))
    high = st.binom.isf(0.025, count, 0.05) / count
    print(f"Sampling error: a true rate of .05 is measured at or below {high:.4f} in 97.5 % of such rows.")


if __name__ == "__main__":
    main()
