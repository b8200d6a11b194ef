"""Checkpoints on disk: whole or not there, readable without running code, never with a NaN in them.

A folder `checkpoints/` holds

    last.pt              everything needed to go on: weights, optimiser, random states, sums, config as text
    previous.pt          the one before, while the run lasts: the fall-back for a broken last.pt
    best.pt              weights at the lowest validation loss, with its step and loss
    model.safetensors    weights after the last step, once the run has finished

Files hold tensors and plain Python values: `torch.load(path, weights_only=True)` reads them.
"""

from __future__ import annotations

import logging
import os
import pickle
import shutil
import zipfile
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import torch
from safetensors import SafetensorError
from safetensors.torch import save_file

log = logging.getLogger(__name__)

LAST, PREVIOUS, BEST, WEIGHTS = "last.pt", "previous.pt", "best.pt", "model.safetensors"

#: what torch and the file system raise for a file that is cut off, damaged or no checkpoint
_BROKEN = (OSError, RuntimeError, EOFError, ValueError, KeyError, pickle.UnpicklingError, zipfile.BadZipFile)


class CheckpointError(RuntimeError):
    """A checkpoint could not be written or read; the message names the file and the cause."""


def write(path: Path, content: dict[str, Any], *, keep: Path | None = None) -> None:
    """Write a checkpoint whole or not at all; the file it replaces becomes `keep`.

    The bytes are on the disk before the name changes, so that neither a kill nor a power cut leaves half a file.

    Raises:
        CheckpointError: disk full, folder missing or not writable; the file there before is untouched.
    """
    _whole(path, lambda temporary: torch.save(content, temporary), keep)


def write_weights(path: Path, weights: dict[str, torch.Tensor], metadata: dict[str, str]) -> None:
    """Write weights in the safetensors format; of tensors that share storage each gets a copy of its own.

    Raises:
        CheckpointError: as `write`.
    """
    seen: set[int] = set()
    separate: dict[str, torch.Tensor] = {}
    for name, tensor in weights.items():
        plain = tensor.detach().cpu().contiguous()
        separate[name] = plain.clone() if plain.data_ptr() in seen else plain
        seen.add(plain.data_ptr())
    _whole(path, lambda temporary: save_file(separate, temporary, metadata=metadata), None)


def read(path: Path) -> dict[str, Any]:
    """Read a checkpoint onto the CPU, every byte checked against its checksum.

    Raises:
        CheckpointError: the file is missing, cut off, damaged or no checkpoint.
    """
    try:
        with zipfile.ZipFile(path) as archive:  # torch.load itself does not look at the checksums
            damaged = archive.testzip()
        if damaged is not None:
            raise ValueError(f"its part {damaged} is damaged")
        content = torch.load(path, map_location="cpu", weights_only=True)
        if not isinstance(content, dict) or "model" not in content:
            raise ValueError("it is no checkpoint of a run")
    except _BROKEN as error:
        cause = str(error).partition("\n")[0] or type(error).__name__
        raise CheckpointError(f"cannot read checkpoint {path}: {cause}") from error
    return content


def read_latest(folder: Path) -> tuple[dict[str, Any] | None, list[Path]]:
    """(the newest readable of last.pt and previous.pt or None, the broken ones it passed over); logs both."""
    broken = []
    for path in (folder / LAST, folder / PREVIOUS):
        if not path.exists():
            continue
        try:
            content = read(path)
        except CheckpointError as error:
            log.warning("%s; falling back to the one before", error)
            broken.append(path)
            continue
        return content, broken
    if broken:
        log.warning("no readable checkpoint in %s", folder)
    return None, broken


def clean(folder: Path, broken: Iterable[Path] = ()) -> None:
    """Remove half-written files that a killed process left behind, and `broken` ones: a save would else
    keep one as previous.pt, in the place of a good one."""
    for leftover in (*folder.glob("*.tmp"), *broken):
        leftover.unlink(missing_ok=True)


def is_finite(tensors: Iterable[torch.Tensor]) -> bool:
    """Whether every floating-point tensor is free of NaN and infinity; waits for the device once."""
    checks = [torch.isfinite(t).all() for t in tensors if t.is_floating_point()]
    return not checks or bool(torch.stack(checks).all())


def _whole(path: Path, save: Callable[[str], None], keep: Path | None) -> None:
    temporary = path.with_name(path.name + ".tmp")
    try:
        path.parent.mkdir(parents=True, exist_ok=True)
        save(str(temporary))
        os.chmod(temporary, path.parent.stat().st_mode & 0o666)  # as open to others as the folder is
        _to_disk(temporary)
        if keep is not None and path.exists():
            os.replace(path, keep)
        os.replace(temporary, path)
        _to_disk(path.parent)
    except (OSError, RuntimeError, SafetensorError) as error:
        _discard(temporary)
        raise CheckpointError(f"cannot write {path}: {_cause(error, path.parent)}") from error
    except BaseException:
        _discard(temporary)
        raise


def _discard(temporary: Path) -> None:
    try:
        temporary.unlink(missing_ok=True)
    except OSError as error:  # the reason why writing failed may forbid this too
        log.warning("cannot remove %s: %s", temporary, error)


def _to_disk(path: Path) -> None:
    handle = os.open(path, os.O_RDONLY)
    try:
        os.fsync(handle)
    finally:
        os.close(handle)


def _cause(error: BaseException, folder: Path) -> str:
    """One line; torch hides 'disk full' behind a note about positions, so the free space is added."""
    text = str(error).partition("\n")[0]
    try:
        return f"{text} (free space there: {shutil.disk_usage(folder).free / 2**20:.0f} MiB)"
    except OSError:
        return text
