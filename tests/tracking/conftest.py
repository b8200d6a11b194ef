"""Every test here gets an empty home and a client that can only reach this machine."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from support.tracking import KEY
from support.wandb_server import WandbServer


@pytest.fixture(autouse=True)
def home(tmp_path_factory: pytest.TempPathFactory, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    for name in os.environ:
        if name.startswith("WANDB_") or name.lower().endswith("_proxy") or name == "NETRC":
            monkeypatch.delenv(name)
    folder = tmp_path_factory.mktemp("home")
    monkeypatch.setenv("HOME", str(folder))
    monkeypatch.chdir(folder)  # the client's commands write their logs where they are called
    monkeypatch.setenv("WANDB_BASE_URL", "http://127.0.0.1:9")  # nobody listens there
    monkeypatch.setenv("WANDB_ERROR_REPORTING", "false")
    yield folder
    import wandb

    wandb.teardown()


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> Iterator[WandbServer]:
    """A stand-in server that the client is logged in to."""
    with WandbServer() as stand_in:
        monkeypatch.setenv("WANDB_BASE_URL", stand_in.url)
        monkeypatch.setenv("WANDB_API_KEY", KEY)
        yield stand_in
        refused = stand_in.unknown + stand_in.rejected
    assert refused == []
