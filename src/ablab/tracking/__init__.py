"""Trackers: the same rows that go to `metrics.jsonl`, shown in W&B, in TensorBoard or nowhere."""

from ablab.tracking.closing import closing_lines
from ablab.tracking.make import CHOICES, make_sinks
from ablab.tracking.sink import NullSink, RunInfo, Sink

__all__ = ["CHOICES", "NullSink", "RunInfo", "Sink", "closing_lines", "make_sinks"]
