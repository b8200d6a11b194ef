"""One registry for everything that can be swapped.

`@register("norm", "mine")` makes a class the option `mine` of the slot `norm`. Its keyword-only arguments are
the options of the command line (`norm.eps`), typed by their annotations and checked before anything trains.
The positional arguments are fixed per slot; see `SLOTS`.
"""

from __future__ import annotations

import importlib
import inspect
from collections.abc import Callable
from typing import TypeVar

from .errors import UsageError, unknown

#: slot -> (what it is, the positional arguments every class of the slot takes)
SLOTS: dict[str, tuple[str, str]] = {
    "norm": ("normalisation of activations", "(d_model)"),
    "block": ("where the norms sit around the residual branches", "(d_model, attn, ffn, make_norm)"),
    "ffn": ("feed-forward network", "(d_model, *, d_ff=None)"),
    "position": ("position information", "(d_model, n_heads, context_length)"),
    "embedding": ("token embedding and output head", "(vocab_size, d_model)"),
    "attention": ("self-attention", "(d_model, n_heads)"),
    "init": ("initialisation of the weights", "(n_layers, d_model)"),
    "optimizer": ("optimiser", "(parameter_groups, *, lr)"),
    "schedule": ("learning-rate schedule", "(steps)"),
}

#: where the shipped options live; imported the first time a slot is asked for
HOMES: dict[str, str] = {
    **{slot: f"ablab.components.{slot}" for slot in list(SLOTS)[:7]},
    "optimizer": "ablab.training.optimizer",
    "schedule": "ablab.training.schedule",
}

_options: dict[str, dict[str, type]] = {slot: {} for slot in SLOTS}
_T = TypeVar("_T", bound=type)


def register(slot: str, name: str) -> Callable[[_T], _T]:
    """Class decorator: make a class the option `name` of `slot`.

    Raises:
        UsageError: the slot does not exist, the name is taken, or the name cannot be typed on a command line.
    """
    if slot not in SLOTS:
        raise unknown("slot", slot, SLOTS)
    if not name.replace("_", "").isalnum() or not name.isascii() or name.lower() in {"null", "true", "false", "nan"}:
        raise UsageError(f"'{name}' cannot name an option of {slot}: use ASCII letters, digits and _, and no YAML word")

    def decorate(cls: _T) -> _T:
        taken = _options[slot].get(name)
        if taken is not None and _origin(taken) != _origin(cls):
            raise UsageError(f"{slot}={name} is registered twice: by {_origin(taken)} and by {_origin(cls)}")
        keywords(cls)  # an unusable signature is an error where the class is written, not where it is used
        _options[slot][name] = cls
        return cls

    return decorate


def get(slot: str, name: str) -> type:
    """The class registered as `slot=name`; a UsageError lists the options when there is none."""
    _load(slot)
    try:
        return _options[slot][name]
    except KeyError:
        raise unknown(f"option of {slot}:", name, _options[slot]) from None


def options(slot: str) -> list[str]:
    """Names registered for a slot, shipped ones first in the order they were written."""
    _load(slot)
    return list(_options[slot])


def keywords(cls: type) -> dict[str, inspect.Parameter]:
    """The keyword-only arguments of a class: its options on the command line.

    Raises:
        UsageError: an option has no default value, so that the option could not be chosen by name alone.
    """
    parameters = inspect.signature(cls).parameters.values()
    found = {p.name: p for p in parameters if p.kind is inspect.Parameter.KEYWORD_ONLY}
    bare = [name for name, p in found.items() if p.default is inspect.Parameter.empty]
    if bare:
        raise UsageError(f"{cls.__name__}: the keyword-only argument '{bare[0]}' needs a default value")
    return found


def _origin(cls: type) -> str:
    return f"{cls.__module__}.{cls.__qualname__}"


def _load(slot: str) -> None:
    if slot not in SLOTS:
        raise unknown("slot", slot, SLOTS)
    importlib.import_module(HOMES[slot])
