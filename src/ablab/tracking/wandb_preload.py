"""Imports the W&B client: name this module to a fork server, and each process it forks starts a second sooner.

Importing starts no thread and no process and looks for no server.
"""

from __future__ import annotations

import contextlib
import importlib

import wandb  # noqa: F401

with contextlib.suppress(ImportError):
    # What the first `wandb.init` of a process imports late; a client without it only starts more slowly.
    importlib.import_module("wandb.sdk.launch.inputs.internal")
