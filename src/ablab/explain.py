"""Hydra's and OmegaConf's errors, said in one short message that names the key and the choices."""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from contextlib import contextmanager

from hydra.errors import HydraException
from omegaconf.errors import (
    ConfigKeyError,
    InterpolationKeyError,
    InterpolationResolutionError,
    MissingMandatoryValue,
    OmegaConfBaseException,
    ValidationError,
)

from . import catalog, registry
from .errors import UsageError


@contextmanager
def explained(overrides: Sequence[str]) -> Iterator[None]:
    """Turn what Hydra raises while composing `overrides` into a UsageError."""
    try:
        yield
    except UsageError:
        raise
    except (HydraException, OmegaConfBaseException) as error:
        raise UsageError(explain(error, overrides)) from error


def explain(error: BaseException, overrides: Sequence[str] = ()) -> str:
    """One message for an exception of Hydra or OmegaConf."""
    chain = _chain(error)
    for link in chain:
        if isinstance(link, ValidationError):
            return _bad_value(link, overrides)
        if isinstance(link, InterpolationKeyError | InterpolationResolutionError):
            return f"{link.full_key or 'config'}: {_first_line(link)}"
        if isinstance(link, MissingMandatoryValue):
            return f"{link.full_key} has no value (it is ???)"
    text = "\n".join(str(link) for link in chain)
    option = re.search(r"Could not (?:find|load) '([^'/]+)/([^']+)'", text)
    if option:
        return _bad_option(option[1], option[2], text)
    key = re.search(r"Could not override '([^']+)'", text)
    if key:
        return _bad_key(key[1], overrides)
    for link in chain:
        if isinstance(link, ConfigKeyError):
            return f"{link.full_key or link.key}: no such key"
    return _first_line(chain[0])


def _chain(error: BaseException) -> list[BaseException]:
    chain: list[BaseException] = []
    link: BaseException | None = error
    while link is not None and link not in chain:
        chain.append(link)
        link = link.__cause__ or link.__context__
    return chain


def _first_line(error: BaseException) -> str:
    return str(error).strip().partition("\n")[0]


def _bad_value(error: ValidationError, overrides: Sequence[str]) -> str:
    leaf = str(error.full_key or "")
    typed = [o.partition("=")[0] for o in overrides]
    key = next((t for t in reversed(typed) if t == leaf or t.endswith(f".{leaf}")), leaf)
    return f"{key}: {_first_line(error)}"


def _bad_option(group: str, name: str, text: str) -> str:
    from .errors import unknown

    if group in registry.SLOTS:
        return str(unknown(f"option of {group}:", name, catalog.options(group)))
    listed = re.search(r"Available options in '[^']+':\n((?:\t.*\n?)+)", text)
    return str(unknown(f"option of {group}:", name, listed[1].split() if listed else []))


def _bad_key(key: str, overrides: Sequence[str]) -> str:
    """A key that the chosen option lacks (`norm.eps` under norm=identity)."""
    group, _, leaf = key.partition(".")
    chosen = [o.partition("=")[2] for o in overrides if o.partition("=")[0] == group]
    if group in registry.SLOTS and leaf:
        name = chosen[-1] if chosen else None
        if name is not None and name in catalog.options(group):
            known = ", ".join(catalog.option(group, name).keywords) or "none"
            return f"{key}: {group}={name} has no option '{leaf}' (its options: {known})"
        return f"{key}: the chosen {group} has no option '{leaf}'"
    if leaf and chosen:
        return f"{key}: {group}={chosen[-1]} has no key '{leaf}'"
    return f"unknown key '{key}'"
