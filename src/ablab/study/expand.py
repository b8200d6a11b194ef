"""From swept keys to the list of cells: every combination, or a baseline and one change each."""

from __future__ import annotations

import itertools
from collections.abc import Mapping, Sequence
from dataclasses import dataclass

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override

from ..catalog import GROUPS
from ..errors import UsageError

REPLICATE = "seed"


@dataclass(frozen=True)
class Axes:
    """What a command sweeps.

    Attributes:
        fixed: overrides that all cells share.
        swept: key -> its values as override text, in the order typed; without the seed.
        seeds: values of the seed as override text.
    """

    fixed: tuple[str, ...]
    swept: Mapping[str, tuple[str, ...]]
    seeds: tuple[str, ...]


def axes(arguments: Sequence[str], parser: OverridesParser) -> Axes:
    """Sort overrides into fixed ones, swept keys and seeds; of a key given twice the last counts."""
    last: dict[str, Override] = {}
    for override in parser.parse_overrides(list(arguments)):
        last[override.get_key_element()] = override
    fixed: list[str] = []
    swept: dict[str, tuple[str, ...]] = {}
    for key, override in last.items():
        if not override.is_sweep_override():
            fixed.append(f"{key}={override.get_value_element_as_str()}")
            continue
        if not override.is_discrete_sweep():
            raise UsageError(f"{key}: {override.input_line} is no list of values; name them, e.g. {key}=1e-3,3e-3")
        values = tuple(dict.fromkeys(str(v) for v in override.sweep_string_iterator()))
        if len(values) == 1 and key not in GROUPS and key != REPLICATE:
            fixed.append(f"{key}={values[0]}")
        else:
            swept[key] = values
    seeds = swept.pop(REPLICATE, ())
    if not seeds:
        own = [f for f in fixed if f.startswith(f"{REPLICATE}=")]
        seeds = tuple(f.partition("=")[2] for f in own)
        fixed = [f for f in fixed if f not in own]
    return Axes(tuple(fixed), swept, seeds)


def variants(
    swept: Mapping[str, Sequence[str]],
    *,
    design: str = "factorial",
    baseline: Mapping[str, str] | None = None,
    nuisance: Sequence[str] = (),
    arms: Sequence[str] = (),
) -> list[tuple[str, ...]]:
    """Overrides of every variant (all seeds share them), the baseline's values first.

    Args:
        swept: factor -> values.
        design: `factorial`: every combination. `one_at_a_time`: the baseline, then one changed factor each.
        baseline: factor -> value of the baseline; a factor not named takes its first value.
        nuisance: swept keys that are tuned: every variant is crossed with all their values.
        arms: further variants, each a string of overrides on top of the baseline.
    """
    factors = {key: list(values) for key, values in swept.items() if key not in nuisance}
    tuned = {key: list(values) for key, values in swept.items() if key in nuisance}
    base = {key: (baseline or {}).get(key, values[0]) for key, values in factors.items()}
    for key, value in base.items():
        if value not in factors[key]:
            raise UsageError(f"study.baseline: {key}={value} is not swept; values of {key}: {', '.join(factors[key])}")
    if design == "one_at_a_time":
        points = [base] + [base | {key: v} for key, values in factors.items() for v in values if v != base[key]]
    else:
        points = [dict(zip(factors, c, strict=True)) for c in itertools.product(*factors.values())]
    lists = [[f"{key}={value}" for key, value in point.items()] for point in points]
    lists += [[f"{key}={value}" for key, value in base.items()] + arm.split() for arm in arms]
    grid = [[f"{key}={v}" for key, v in zip(tuned, c, strict=True)] for c in itertools.product(*tuned.values())]
    return [tuple(point + rate) for point in lists for rate in grid]


def parse_assignments(text: str | None, key: str) -> dict[str, str]:
    """`'norm=rms,ffn=swiglu'` as a dict.

    Raises:
        UsageError: a part is no `name=value`, naming the config key.
    """
    found: dict[str, str] = {}
    for part in (text or "").replace(" ", ",").split(","):
        if not part:
            continue
        name, equals, value = part.partition("=")
        if not equals or not name or not value:
            raise UsageError(f"{key}='{text}': write it as 'norm=rms,ffn=swiglu'")
        found[name] = value
    return found
