"""From the option `tracker=...` to the objects that show a run."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ablab.errors import unknown
from ablab.tracking.sink import NullSink, Sink

CHOICES = ("wandb", "none", "tensorboard")


def make_sinks(choice: str, tracker_cfg: Mapping[str, Any]) -> list[Sink]:
    """The sinks of one run. `tracker_cfg` is the config group `tracker`. Raises `UsageError`.

    Clients are imported only for the tracker that is used: `tracker=none` needs none of them.
    """
    if choice == "none":
        return [NullSink()]
    if choice == "wandb":
        from ablab.tracking.wandb_sink import WandbSink

        return [WandbSink(tracker_cfg)]
    if choice == "tensorboard":
        from ablab.tracking.tensorboard_sink import TensorBoardSink

        return [TensorBoardSink(tracker_cfg)]
    raise unknown("tracker", choice, CHOICES)
