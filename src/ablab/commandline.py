"""What was typed, checked and put into the form that Hydra composes: before anything is composed."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields

from hydra.core.override_parser.overrides_parser import OverridesParser
from hydra.core.override_parser.types import Override, ValueType
from hydra.errors import HydraException

from . import catalog, registry
from .catalog import FILE_GROUPS, GROUPS
from .errors import UsageError, did_you_mean, unknown
from .paths import experiment_folders, shipped
from .schema import ACTIONS, Tracker, limits

#: words that YAML or people use for "nothing", and the option that is meant
NOTHING = ("null", "None", "off", "no", "false", "False", "~", "")


@dataclass(frozen=True)
class Command:
    """Checked overrides.

    Attributes:
        overrides: for Hydra; options that only some components know are wrapped as `choice(value)`, which keeps
            Hydra from checking them against the default component.
        swept: keys with several values, in the order typed.
        explicit: keys that were set by hand.
        experiment: name of an experiment file, or None.
    """

    overrides: tuple[str, ...]
    swept: tuple[str, ...]
    explicit: frozenset[str]
    experiment: str | None


def prepare(typed: Sequence[str], *, multirun: bool) -> Command:
    """Parse and check overrides.

    Raises:
        UsageError: bad syntax, an unknown group, option or key (also as `+key`, `~group`), or several values
            without `-m`; one short message that names the key and the choices.
    """
    parser = OverridesParser.create()
    overrides: list[str] = []
    swept: list[str] = []
    explicit: set[str] = set()
    experiment = None
    for text in typed:
        override = _parse(parser, text)
        key = override.key_or_group
        _check_key(override, text)
        if override.is_sweep_override():
            swept.append(key)
        if override.is_sweep_override() and (key in ("note", "runs_dir") or key.startswith("study.")):
            raise UsageError(f"{text}: {key} is one for the whole command; quote a text that contains commas twice")
        if key == "experiment" and override.is_sweep_override():
            raise UsageError("experiment: name one experiment at a time")
        if key in (*GROUPS, "experiment"):
            _check_options(override)
        if key == "experiment":
            experiment = override.get_value_element_as_str()
        explicit.add(key)
        overrides.append(_wrap(override, text, multirun))
    sweeping = [key for key in swept if key not in ACTIONS]
    if sweeping and not multirun and experiment is None:
        bad = next(t for t in reversed(typed) if t.partition("=")[0] == sweeping[0])
        raise UsageError(f"{bad} names several values: add -m to train each of them (python run.py -m ...)")
    return Command(tuple(overrides), tuple(sweeping), frozenset(explicit), experiment)


def _parse(parser: OverridesParser, text: str) -> Override:
    try:
        return parser.parse_override(text)
    except HydraException as error:
        key, equals, value = text.partition("=")
        if not equals:
            raise UsageError(f"'{text}': write key=value, e.g. norm=layer") from error
        quoted = f'"{value.strip(chr(34))}"'
        if value.startswith("[") and value.endswith("]"):
            quoted = "[" + ", ".join(f'"{part.strip()}"' for part in value[1:-1].split(",")) + "]"
        raise UsageError(
            f"{key}: cannot read the value {value}; quote text with special characters twice, e.g. '{key}={quoted}'"
        ) from error


def _check_key(override: Override, text: str) -> None:
    key = override.key_or_group
    if key.partition(".")[0].partition("/")[0] == "hydra":
        return
    known = known_keys()
    if key not in known:
        slot, _, option = key.partition(".")
        if slot in registry.SLOTS and option:
            choices = sorted(k for k in known if k.startswith(f"{slot}."))
            raise UsageError(
                f"unknown key '{key}'{did_you_mean(key, choices)}; options of {slot}: {', '.join(choices) or 'none'}"
            )
        if "." in key and any(k.startswith(f"{slot}.") for k in known):
            raise unknown("key", key, [k for k in known if k.startswith(f"{slot}.")])
        tops = sorted({k for k in known if "." not in k})
        raise UsageError(f"unknown key '{key}'{did_you_mean(key, known)}; groups and keys: {', '.join(tops)}, and those "
                         "under model, train, data, seeds, study (python run.py --help)")  # fmt: skip
    if override.is_delete():
        raise UsageError(f"'{text}': {key} cannot be removed; set it to another value")
    if override.is_add() or override.is_force_add():
        raise UsageError(f"'{text}': write {text.lstrip('+')}, without +")


def known_keys() -> set[str]:
    """Every key and group that can be typed."""
    known = {key for key, _ in limits()} | set(GROUPS) | {"experiment"}
    for slot in registry.SLOTS:
        known |= {f"{slot}.{key}" for option in catalog.options(slot).values() for key in option.keywords}
    return known | {f"tracker.{item.name}" for item in fields(Tracker)}


def group_options(group: str) -> list[str]:
    """The options of a group, the shipped default first."""
    if group in registry.SLOTS:
        return list(catalog.options(group))
    if group == "experiment":
        return sorted({file.stem for folder in experiment_folders() for file in folder.glob("*.yaml")})
    order = {
        "data": ["kjv", "shakespeare", "text"],
        "scale": ["demo", "cs336", "gpt2_small"],
        "tracker": ["wandb"],
    }
    names = [file.stem for file in (shipped("conf") / group).glob("*.yaml")]
    return sorted(names, key=lambda n: (order[group].index(n) if n in order[group] else 99, n))


def _check_options(override: Override) -> None:
    group = override.key_or_group
    if override.is_range_sweep() or override.value_type is ValueType.GLOB_CHOICE_SWEEP:
        return  # Hydra expands and checks them
    if override.is_sweep_override():
        names = [name.strip() for name in override.sweep_string_iterator()]
    else:
        names = [override.get_value_element_as_str()]
    for name in names:
        if group in (*FILE_GROUPS, "experiment") and name not in group_options(group) and name not in NOTHING:
            continue  # may live in a folder given by --config-dir; Hydra knows
        if name not in group_options(group):
            hint = "; did you mean none?" if name in NOTHING and "none" in group_options(group) else ""
            raise UsageError(f"{unknown(f'option of {group}:', name, group_options(group))}{hint}")


def _wrap(override: Override, text: str, multirun: bool) -> str:
    slot, _, option = override.key_or_group.partition(".")
    if multirun and option and slot in (*registry.SLOTS, "tracker") and not override.is_sweep_override():
        return f"{override.key_or_group}=choice({override.get_value_element_as_str()})"
    return text
