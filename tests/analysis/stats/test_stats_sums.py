"""Two-pass sums against NIST's certified one-way analyses of variance (StRD, levels 1 and 2)."""

from __future__ import annotations

import math

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablab.analysis.stats import mean, one_way, std, variance

SIRSTV = [
    [196.3052, 196.1240, 196.1890, 196.2569, 196.3403],
    [196.3042, 196.3825, 196.1669, 196.3257, 196.0422],
    [196.1303, 196.2005, 196.2889, 196.0343, 196.1811],
    [196.2795, 196.1748, 196.1494, 196.1485, 195.9885],
    [196.2119, 196.1051, 196.1850, 196.0052, 196.2090],
]
# Last five digits of 107.86xxxxx, the atomic weight of silver by two instruments.
ATMWTAG = [
    "81568 81465 81572 81785 81446 81903 81526 81494 81616 81587 81519 81486 "
    "81419 81569 81508 81672 81385 81518 81662 81424 81360 81333 81610 81477",
    "81079 81344 81513 81197 81604 81385 81642 81365 81151 81082 81517 81448 "
    "81198 81482 81334 81609 81101 81512 81469 81360 81254 81261 81450 81368",
]


def simon_lesage(offset: int, pairs: int) -> list[list[float]]:
    """NIST's constructed sets SmLs01 to 09: nine groups around offset + .4, .3 or .5, with pairs of +-.1."""
    tenths = [4, 3, 5, 3, 5, 3, 5, 3, 5]
    number = "{}.{}".format
    return [
        [float(number(offset, t)), *[float(number(offset, t + s)) for _ in range(pairs) for s in (-1, 1)]]
        for t in tenths
    ]


CERTIFIED = {  # between, within, F, R squared, residual standard deviation
    "SiRstv": (5.11462616e-02, 2.1663656e-01, 1.18046237440255, 1.90999039051129e-01, 1.04076068334656e-01),
    "AtmWtAg": (
        3.638341875e-09,
        1.04951729166667e-08,
        15.9467335677930,
        2.57426544538321e-01,
        1.51048314446410e-05,
    ),
    "SmLs01": (1.68, 1.8, 21.0, 4.82758620689655e-01, 0.1),
    "SmLs02": (16.08, 18.0, 201.0, 4.71830985915493e-01, 0.1),
    "SmLs03": (160.08, 180.0, 2001.0, 4.70712773465067e-01, 0.1),
    "SmLs04": (1.68, 1.8, 21.0, 4.82758620689655e-01, 0.1),
    "SmLs05": (16.08, 18.0, 201.0, 4.71830985915493e-01, 0.1),
    "SmLs06": (160.08, 180.0, 2001.0, 4.70712773465067e-01, 0.1),
}


def data(name: str) -> list[list[float]]:
    """The groups of a reference set."""
    if name == "SiRstv":
        return SIRSTV
    if name == "AtmWtAg":
        return [[float(f"107.86{x}") for x in row.split()] for row in ATMWTAG]
    number = int(name[-2:])
    return simon_lesage(1 if number <= 3 else 1_000_000, 10 ** (1 + (number - 1) % 3))


@pytest.mark.parametrize("name", CERTIFIED)
def test_eight_digits_of_nist(name: str) -> None:
    found = one_way(data(name))
    between, within, F, r_squared, residual = CERTIFIED[name]
    assert found.between == pytest.approx(between, rel=1e-8)
    assert found.within == pytest.approx(within, rel=1e-8)
    assert pytest.approx(F, rel=1e-8) == found.F
    assert found.r_squared == pytest.approx(r_squared, rel=1e-8)
    assert found.residual_std == pytest.approx(residual, rel=1e-8)


def test_naive_sums_would_fail_there() -> None:
    x = np.array(data("SmLs06")[0])
    naive = (x @ x - x.sum() ** 2 / x.size) / (x.size - 1)
    assert abs(naive / 0.01 - 1) > 1e-3
    assert variance(x) == pytest.approx(0.01, rel=1e-8)


def test_small_sizes() -> None:
    assert math.isnan(mean([])) and math.isnan(variance([1.0])) and math.isnan(std([]))
    assert variance([1.0, 3.0]) == 2.0 and mean([1.0, 3.0]) == 2.0


def test_infinite_values_stay_visible() -> None:
    assert mean([1.0, math.inf]) == math.inf


@given(st.lists(st.integers(-1000, 1000), min_size=2, max_size=30), st.integers(-(10**9), 10**9))
def test_variance_does_not_feel_a_shift(values: list[int], shift: int) -> None:
    exact = variance(values)
    assert variance([v + shift for v in values]) == pytest.approx(exact, rel=1e-12, abs=1e-12)
