"""Training: one loop, its optimiser and schedule, evaluation, and checkpoints that resume bit for bit."""

from .checkpoint import CheckpointError
from .loop import train
from .outcome import Outcome, Progress
from .status import Status

__all__ = ["CheckpointError", "Outcome", "Progress", "Status", "train"]
