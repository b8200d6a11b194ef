"""Fixtures of the tests of training."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import ExitStack
from pathlib import Path

import pytest
import torch
from omegaconf import DictConfig
from support.tiny_cell import TINY, Cell, after

from ablab.composition import compose
from ablab.data import TokenData, prepare
from ablab.training import environment

Action = Callable[[torch.optim.Optimizer], None]


@pytest.fixture(scope="session")
def base(tmp_path_factory: pytest.TempPathFactory) -> tuple[DictConfig, TokenData]:
    folder = tmp_path_factory.mktemp("tiny")
    (folder / "tiny.txt").write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    cfg = compose([*TINY.split(), f"data.path={folder / 'tiny.txt'}"])
    return cfg, prepare(cfg, folder / "cache")


@pytest.fixture
def cell(base: tuple[DictConfig, TokenData], tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Cell:
    # Three quarters of the time of so small a run: waiting for the disk, asking git, looking up versions.
    monkeypatch.setattr(os, "fsync", lambda handle: None)
    monkeypatch.setattr(environment, "git", lambda folder: {"commit": None, "dirty": None})
    monkeypatch.setattr(environment, "PACKAGES", ("torch",))
    return Cell(*base, tmp_path)


@pytest.fixture
def after_step() -> Iterator[Callable[[int, Action], None]]:
    """`after_step(n, action)`: call action(optimizer) right after the n-th optimiser step from now."""
    with ExitStack() as stack:
        yield lambda steps, action: stack.enter_context(after(steps, action))


@pytest.fixture
def stop_after(after_step: Callable[[int, Action], None]) -> Callable[[int], Callable[[], str | None]]:
    """`stop_after(n)`: a `stop` that gives its reason from the end of the n-th optimiser step from now on."""

    def make(steps: int) -> Callable[[], str | None]:
        reached = [steps == 0]
        after_step(steps, lambda optimizer: reached.__setitem__(0, True))
        return lambda: "SIGTERM" if reached[0] else None

    return make
