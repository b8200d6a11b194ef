"""Runs from a server: whole histories, never the sample, whatever is logged at which step."""

from __future__ import annotations

import random
from types import SimpleNamespace
from typing import Any

import pytest

from ablab.analysis.from_wandb import collect_wandb, wandb_runs
from ablab.errors import UsageError


class FakeRun:
    """A run of the server: 1,200 steps, validation every 50 in rows of its own."""

    def __init__(self, number: int, norm: str, steps: int = 1200) -> None:
        self.id, self.name, self.state, self.notes = f"id{number}", f"run-{norm}", "finished", None
        self.config = {"choices": {"norm": norm}, "seed": 0, "optimizer": {"lr": 1e-3}, "_wandb": {"x": 1}}
        self.summary = SimpleNamespace(_json_dict={"val/loss": 1.0})
        self._rows: list[dict[str, Any]] = []
        for step in range(1, steps + 1):
            self._rows.append(
                {
                    "_step": len(self._rows),
                    "_runtime": 1.0,
                    "step": step,
                    "tokens": step * 8,
                    "train/loss": 3 - step / 1000,
                }
            )
            if step % 50 == 0:
                self._rows.append(
                    {"_step": len(self._rows), "step": step, "tokens": step * 8, "val/loss": 2 + abs(step - 650) / 1000}
                )

    def history(self, samples: int = 500, **_: Any) -> list[dict[str, Any]]:
        """Like the server: a random sample."""
        return random.sample(self._rows, samples)

    def scan_history(self, keys: list[str] | None = None, **_: Any) -> Any:
        """Like the server: with keys, only rows that hold them all."""
        return (row for row in self._rows if keys is None or all(key in row for key in keys))


class FakeApi:
    """An API object that knows one project."""

    def __init__(self, runs: list[FakeRun]) -> None:
        self._runs = runs

    def runs(self, path: str) -> list[FakeRun]:
        """Runs of the project."""
        if path != "me/lab":
            raise ValueError(f"Could not find project {path}")
        return self._runs


def test_every_point_comes_down_and_stays_the_same() -> None:
    api = FakeApi([FakeRun(0, "rms"), FakeRun(1, "layer")])
    curves = collect_wandb("me/lab", api)
    for _, run in curves.groupby("run"):
        assert run["train/loss"].notna().sum() == 1200 and run["val/loss"].notna().sum() == 24
        assert run.loc[run["val/loss"].idxmin(), "step"] == 650
    assert set(curves["norm"]) == {"rms", "layer"}
    assert set(curves["label"]) == {"norm=rms", "norm=layer"}
    assert not [name for name in curves if name.startswith("_")]
    assert curves.equals(collect_wandb("me/lab", api))


def test_runs_of_one_name_stay_apart() -> None:
    curves = collect_wandb("me/lab", FakeApi([FakeRun(0, "rms", 50), FakeRun(1, "rms", 50)]))
    assert set(curves["run"]) == {"run-rms (id0)", "run-rms (id1)"}


def test_states_of_the_server_are_translated() -> None:
    runs = [FakeRun(number, "rms", 50) for number in range(3)]
    runs[0].state, runs[1].state = "crashed", "failed"
    runs[2].summary = SimpleNamespace(_json_dict={"state": "diverged"})
    assert [run.state for run in wandb_runs("me/lab", FakeApi(runs))] == ["interrupted", "failed", "diverged"]


@pytest.mark.parametrize(("api", "project"), [(FakeApi([]), "me/lab"), (FakeApi([]), "me/other")])
def test_nothing_there_is_a_usage_error(api: FakeApi, project: str) -> None:
    with pytest.raises(UsageError, match=project):
        collect_wandb(project, api)
