"""The errors a user meets."""

from __future__ import annotations

import difflib
from collections.abc import Iterable


class UsageError(ValueError):
    """Wrong input, found before anything trains. Its message names the key and what is allowed there."""


def did_you_mean(word: str, known: Iterable[str]) -> str:
    """`" (did you mean 'norm'?)"` for the closest known word, or an empty string."""
    close = difflib.get_close_matches(word, list(known), n=1, cutoff=0.6)
    return f" (did you mean '{close[0]}'?)" if close else ""


def unknown(kind: str, word: str, known: Iterable[str]) -> UsageError:
    """The error for a word that is none of the known ones: says the closest and lists them all."""
    names = sorted(known)
    return UsageError(f"unknown {kind} '{word}'{did_you_mean(word, names)}; choices: {', '.join(names) or '(none)'}")
