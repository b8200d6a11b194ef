from __future__ import annotations

import sys
from pathlib import Path

import pytest
from support.tracking import child, info, track

from ablab.errors import UsageError
from ablab.tracking import CHOICES, NullSink, Sink, closing_lines, make_sinks


@pytest.mark.parametrize("choice", CHOICES)
def test_every_choice_makes_sinks(choice: str) -> None:
    sinks = make_sinks(choice, {})
    assert sinks and all(isinstance(sink, Sink) for sink in sinks)


def test_unknown_choice_lists_the_choices() -> None:
    with pytest.raises(UsageError, match=r"wandbb.*did you mean 'wandb'.*none, tensorboard, wandb"):
        make_sinks("wandbb", {})


@pytest.mark.parametrize(
    ("options", "text"),
    [
        ({"mode": "onlin"}, "tracker.mode=onlin.*auto, online, offline"),
        ({"finish_timeout": 0}, "tracker.finish_timeout=0"),
        ({"init_timeout": "soon"}, "tracker.init_timeout=soon"),
        ({"flush_interval": True}, "tracker.flush_interval=True"),
        ({"project": "a/b"}, "tracker.project=a/b"),
        ({"project": "p" * 129}, "tracker.project=p.*128 characters"),
        ({"project": None}, "tracker.project=None"),
        ({"project": ""}, "tracker.project="),
        ({"entity": "me/team"}, "tracker.entity=me/team"),
        ({"projet": "p"}, "tracker.projet.*tracker.project"),
    ],
)
def test_wrong_options_of_wandb_name_the_key(options: dict[str, object], text: str) -> None:
    with pytest.raises(UsageError, match=text):
        make_sinks("wandb", options)


def test_none_writes_nothing_and_has_nothing_to_say(tmp_path: Path) -> None:
    track(NullSink(), info(tmp_path), range(3))
    assert list(tmp_path.iterdir()) == []
    assert closing_lines("none", tmp_path, ["r1"]) == []


def test_missing_tensorboard_says_how_to_get_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "tensorboard.summary.writer", None)
    with pytest.raises(UsageError, match=r"pip install 'ablab\[tensorboard\]'"):
        make_sinks("tensorboard", {})


def test_clients_are_imported_only_where_they_are_used() -> None:
    code = (
        "import sys; from ablab.tracking import make_sinks, closing_lines\n"
        "make_sinks('none', {}); make_sinks('wandb', {})\n"
        "print([name for name in ('torch', 'wandb', 'tensorboard') if name in sys.modules])"
    )
    output, _ = child(code).communicate(timeout=60)
    assert output.strip() == "[]"
