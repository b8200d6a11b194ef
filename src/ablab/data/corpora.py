"""The table of corpora: a name, and a function that returns documents already split.

A corpus is a function of keyword-only options, which are keys of `data.*`:

    @corpus("mine")
    def mine(*, path: str | None = None) -> Split: ...

`data=mine data.path=...` then calls it. It decides what is held out, and no text may stand in both splits.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any, TypeVar

from ..errors import UsageError, unknown


@dataclass(frozen=True)
class Split:
    """A corpus as documents (whole texts) for training and for validation.

    `held_out` says in words what validation is made of; `notes` says what was done to the text on the way.
    """

    train: list[str]
    val: list[str]
    held_out: str
    notes: tuple[str, ...] = ()


#: name -> function of keyword-only options that returns a Split
CORPORA: dict[str, Callable[..., Split]] = {}
_SHIPPED = ("kjv", "shakespeare", "text")
_F = TypeVar("_F", bound=Callable[..., Split])


def corpus(name: str) -> Callable[[_F], _F]:
    """Decorator: make a function the corpus `name`; a UsageError when another function has the name."""

    def decorate(function: _F) -> _F:
        taken = CORPORA.get(name)
        if taken is not None and _origin(taken) != _origin(function):
            raise UsageError(f"data={name} is registered twice: by {_origin(taken)} and by {_origin(function)}")
        CORPORA[name] = function
        return function

    return decorate


def get_corpus(name: str) -> Callable[..., Split]:
    """The function registered as `data=name`; a UsageError lists the corpora when there is none."""
    for module in _SHIPPED:
        importlib.import_module(f"{__package__}.{module}")
    if name not in CORPORA:
        raise unknown("corpus: data =", name, CORPORA)
    return CORPORA[name]


def read_corpus(name: str, options: Mapping[str, Any]) -> Split:
    """Read `data=name`, giving it those of `options` (the `data.*` keys) that it knows.

    Raises:
        UsageError: unknown name, `data.path` set for a corpus that reads no path, or what the corpus itself
        finds.
    """
    read = get_corpus(name)
    known = inspect.signature(read).parameters
    if options.get("path") is not None and "path" not in known:
        raise UsageError(f"data.path is set, but data={name} reads no file: use data=text, or leave data.path null")
    return read(**{key: options[key] for key in known if key in options})


def _origin(function: Callable[..., Any]) -> str:
    return f"{function.__module__}.{function.__qualname__}"
