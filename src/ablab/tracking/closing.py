"""What to tell people at the end of a study: how to look at its runs, how to upload them."""

from __future__ import annotations

import shlex
from collections.abc import Iterable
from pathlib import Path

from ablab.tracking import tensorboard_sink, wandb_folder


def closing_lines(choice: str, runs_dir: Path, run_ids: Iterable[str]) -> list[str]:
    """Lines with commands that can be copied, for the runs `run_ids` tracked by `tracker=<choice>`."""
    ids = list(run_ids)
    if choice == "tensorboard":
        return [f"look: tensorboard --logdir {shlex.quote(str(runs_dir / tensorboard_sink.FOLDER))}"]
    if choice != "wandb" or not any(wandb_folder.attempts(runs_dir, run_id) for run_id in ids):
        return []
    lines = [f"look: {wandb_folder.how_to_look(runs_dir)}"]
    upload = wandb_folder.how_to_upload(runs_dir, ids)
    if upload is not None:
        lines.append(f"W&B was offline; upload: {upload}")
    return lines
