"""Online or offline: decided before the client starts, without a prompt or a long wait for a dead server."""

from __future__ import annotations

import logging
import os
import socket
import urllib.parse
import urllib.request
from typing import Any

from ablab.errors import UsageError
from ablab.tracking.wandb_settings import WandbOptions

log = logging.getLogger(__name__)

PROBE_SECONDS = 3.0


def choose_mode(options: WandbOptions, wandb: Any, base_url: str) -> str:
    """`online`, `offline` or `disabled` for the client module `wandb` and its server.

    `tracker.mode=auto` follows the environment variable WANDB_MODE, then whether there is a key or log-in;
    whatever was asked for, a server that cannot be reached means offline, and the log says so.

    Raises:
        UsageError: online was asked for and there is no key.
    """
    asked = options.mode
    if asked == "auto":
        named = os.environ.get("WANDB_MODE", "").lower()
        asked = {"dryrun": "offline", "run": "online", "shared": "online"}.get(named, named) or "auto"
    if asked in ("offline", "disabled"):
        return asked
    problem = _missing_key(wandb)
    if problem is not None:
        if asked == "online":
            raise UsageError(f"tracker.mode=online: {problem}; run `wandb login`, or use tracker.mode=offline")
        log.info("W&B is offline: %s", problem)
        return "offline"
    problem = unreachable(base_url)
    if problem is not None:
        log.warning("W&B is offline: %s", problem)
        return "offline"
    return "online"


def _missing_key(wandb: Any) -> str | None:
    """What is wrong with the log-in, or None. Looks only at this machine and never asks."""
    try:
        if wandb.login(prompt=False, verify=False):
            return None
    except (wandb.errors.AuthenticationError, wandb.errors.UsageError) as error:
        return f"the key is not usable ({first_line(error)})"
    return "no key or log-in was found"


def unreachable(base_url: str, seconds: float = PROBE_SECONDS) -> str | None:
    """Why no connection to the server can be opened, or None. Behind a proxy the client has to find out."""
    parts = urllib.parse.urlsplit(base_url)
    host, port = parts.hostname or "", parts.port or (443 if parts.scheme == "https" else 80)
    proxies = urllib.request.getproxies()
    if (parts.scheme in proxies or "all" in proxies) and not urllib.request.proxy_bypass(host):
        return None
    try:
        with socket.create_connection((host, port), timeout=seconds):
            return None
    except OSError as error:
        return f"{base_url} cannot be reached ({error.strerror or error})"


def first_line(error: BaseException) -> str:
    """The first line of an error's text, or its type."""
    lines = str(error).strip().splitlines()
    return lines[0] if lines else type(error).__name__
