"""Types and ranges of every fixed key. The comments that explain the keys, and the defaults, are in conf/config.yaml.

Component options are not here: they come from the classes themselves (`catalog.py`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, fields, is_dataclass
from itertools import pairwise
from typing import Any

from omegaconf import MISSING

from .errors import UsageError


def ranged(default: Any = MISSING, *, low: float | None = None, above: float | None = None,
           below: float | None = None, choices: tuple[str, ...] | None = None) -> Any:  # fmt: skip
    """A dataclass field whose value must satisfy low <= x, above < x < below, or be one of the choices."""
    limits = {"low": low, "above": above, "below": below, "choices": choices}
    return field(default=default, metadata={k: v for k, v in limits.items() if v is not None})


def check_looks(looks: Sequence[int]) -> tuple[int, ...]:
    """`looks` as a rising tuple of seed counts; UsageError unless they rise and are at least 2."""
    numbers = tuple(int(n) for n in looks)
    if not numbers or numbers[0] < 2 or any(b <= a for a, b in pairwise(numbers)):
        raise UsageError(f"study.looks={list(looks)}: must be rising seed counts of 2 or more, such as [3, 5, 8]")
    return numbers


@dataclass
class Model:
    d_model: int = ranged(low=2)
    n_layers: int = ranged(low=1)
    n_heads: int = ranged(low=1)
    context_length: int = ranged(low=1)
    dropout: float = ranged(low=0, below=1)
    final_norm: bool | None = None
    ffn_width: int | None = ranged(None, low=1)
    match: str = ranged(choices=("parameters", "flops", "none"))
    match_embedding: bool = MISSING


@dataclass
class Train:
    steps: int | None = ranged(None, low=1)
    tokens: float | None = ranged(None, above=0)
    tokens_per_parameter: float | None = ranged(None, above=0)
    flops: float | None = ranged(None, above=0)
    minutes: float | None = ranged(None, above=0)
    batch_size: int = ranged(low=1)
    eval_batch_size: int = ranged(low=1)
    grad_accum: int = ranged(low=1)
    grad_clip: float | None = ranged(low=0)
    log_every: int = ranged(low=1)
    eval_every: int = ranged(low=1)
    checkpoint_every: int = ranged(low=1)
    precision: str = ranged(choices=("fp32", "bf16"))
    compile: bool = MISSING
    device: str = ranged(choices=("auto", "cpu", "cuda", "mps"))
    threads: int = ranged(low=1)
    resume_from: str | None = None


@dataclass
class Data:
    path: str | None = None
    tokenizer: str = ranged(choices=("char", "byte", "bpe"))
    vocab_size: int | None = ranged(None, low=2)
    val_fraction: float = ranged(above=0, below=1)
    order: str = ranged(choices=("shuffled", "sequential"))
    verse_numbers: bool = MISSING


@dataclass
class Seeds:
    init: int = ranged(low=0)
    data: int = ranged(low=0)
    salt: int = ranged(low=0)


@dataclass
class Tracker:
    mode: str = ranged("auto", choices=("auto", "online", "offline"))
    project: str = "ablab"
    entity: str | None = None
    init_timeout: float = ranged(15, above=0)
    finish_timeout: float = ranged(20, above=0)
    flush_interval: float = ranged(0.5, above=0)
    system_stats: bool = False
    artifacts: bool = False


@dataclass
class Study:
    name: str | None = None
    question: str | None = None
    design: str = ranged(choices=("factorial", "one_at_a_time"))
    baseline: str | None = None
    arms: list[str] = MISSING
    nuisance: list[str] = MISSING
    selection_seeds: list[int] = MISSING
    unstable: list[str] = MISSING
    looks: list[int] = MISSING
    screen: bool = MISSING
    match: str = ranged(choices=("parameters", "flops", "none"))
    margin: float = ranged(above=0)
    alpha: float = ranged(above=0, below=0.5)
    target: float | None = ranged(None, above=0)
    slope: float | None = ranged(None, below=0)


@dataclass
class Config:
    norm: Any = MISSING
    block: Any = MISSING
    ffn: Any = MISSING
    position: Any = MISSING
    embedding: Any = MISSING
    attention: Any = MISSING
    init: Any = MISSING
    optimizer: Any = MISSING
    schedule: Any = MISSING
    data: Data = field(default_factory=Data)
    model: Model = field(default_factory=Model)
    train: Train = field(default_factory=Train)
    tracker: Any = MISSING
    seed: int = ranged(low=0)
    seeds: Seeds = field(default_factory=Seeds)
    study: Study = field(default_factory=Study)
    runs_dir: str = MISSING
    note: str | None = None
    jobs: int | None = ranged(None, low=1)
    fresh: bool = MISSING
    plan: bool = MISSING
    status: bool = MISSING
    cell: int | None = ranged(None, low=0)
    fail_fast: bool = MISSING


#: keys that say what to do now; they belong neither to a run's identity nor to a study's name
ACTIONS = ("jobs", "fresh", "plan", "status", "cell", "fail_fast")
#: keys of which at most one may be set: the length of a run
BUDGETS = ("steps", "tokens", "tokens_per_parameter", "flops", "minutes")


def limits(schema: type = Config, prefix: str = "") -> Iterator[tuple[str, dict[str, Any]]]:
    """Every fixed key with its limits, e.g. `("model.d_model", {"low": 2})`; depth first, as written."""
    for item in fields(schema):
        kind = item.default_factory if is_dataclass(item.default_factory) else None
        if kind is not None:
            yield from limits(kind, f"{prefix}{item.name}.")  # type: ignore[arg-type]
        else:
            yield f"{prefix}{item.name}", dict(item.metadata)
