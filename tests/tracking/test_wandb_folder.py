from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import struct
import subprocess
import sys
import termios
import time
from pathlib import Path

import pytest
from support.tracking import info, shell, track, wandb_sink

from ablab.tracking import closing_lines, wandb_folder


def attempt(runs_dir: Path, run_id: str, time_stamp: int, *marks: str, online: bool = False) -> Path:
    """The folder of one attempt as the client makes it."""
    kind = "run" if online else "offline-run"
    folder = runs_dir / "wandb" / f"{kind}-20260101_00000{time_stamp}-{run_id}"
    folder.mkdir(parents=True)
    for name in (f"run-{run_id}.wandb", *marks):
        (folder / name).touch()
    return folder


def upload(runs_dir: Path, *ids: str) -> str | None:
    return wandb_folder.how_to_upload(runs_dir, ids)


def test_one_folder_for_a_study_that_is_alone_in_it(tmp_path: Path) -> None:
    attempt(tmp_path, "a", 1)
    attempt(tmp_path, "b", 2)
    assert upload(tmp_path, "a", "b") == f"wandb sync --yes {tmp_path}/wandb"
    assert upload(tmp_path) is None


def test_other_studies_are_not_uploaded_along(tmp_path: Path) -> None:
    first, second = attempt(tmp_path, "a", 1), attempt(tmp_path, "a", 2)
    attempt(tmp_path, "b", 3)
    assert upload(tmp_path, "a") == f"wandb sync --yes {first} {second}"


def test_uploaded_runs_are_not_named_again(tmp_path: Path) -> None:
    attempt(tmp_path, "a", 1, "run-a.wandb.synced")
    attempt(tmp_path, "b", 2)
    attempt(tmp_path, "c", 3, online=True)
    assert upload(tmp_path, "a", "c") is None
    assert upload(tmp_path, "a", "b", "c") == f"wandb sync --yes {tmp_path}/wandb"


def test_online_run_that_was_cut_off_is_named(tmp_path: Path) -> None:
    cut = attempt(tmp_path, "a", 1, wandb_folder.INCOMPLETE, online=True)
    assert upload(tmp_path, "a") == f"wandb sync --yes --include-online {cut}"


def test_paths_with_spaces_can_be_pasted(tmp_path: Path) -> None:
    folder = tmp_path / "my runs"
    attempt(folder, "a", 1)
    assert closing_lines("wandb", folder, ["a"]) == [
        f"look: wandb leet '{folder}/wandb'",
        f"W&B was offline; upload: wandb sync --yes '{folder}/wandb'",
    ]


def test_ids_that_begin_alike_and_the_latest_link_do_not_confuse(tmp_path: Path) -> None:
    mine, other = attempt(tmp_path, "a", 1), attempt(tmp_path, "b-a", 2)
    (tmp_path / "wandb" / "latest-run").symlink_to(other)
    assert wandb_folder.attempts(tmp_path, "a") == [mine]


def test_only_the_refused_start_is_removed(tmp_path: Path) -> None:
    known = attempt(tmp_path, "a", 1)
    other = attempt(tmp_path, "b-a", 2, online=True)
    alike = attempt(tmp_path, "a-1", 3, online=True)
    refused = attempt(tmp_path, "a", 4, online=True)
    bare = attempt(tmp_path, "a", 5, online=True)
    (bare / "run-a.wandb").unlink()
    wandb_folder.drop_new(tmp_path, "a", [known])
    assert [path.exists() for path in (known, other, alike, refused, bare)] == [True, True, True, False, False]


def test_second_attempt_of_the_same_second_is_found(tmp_path: Path) -> None:
    first = attempt(tmp_path, "a", 1)
    again = first.with_name(first.name + "-1")
    again.mkdir()
    (again / "run-a.wandb").touch()
    assert wandb_folder.attempts(tmp_path, "a") == [first, again]


def test_unreadable_attempt_counts_as_empty(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    assert wandb_folder.recorded(attempt(tmp_path, "a", 1), "a") == {}


def test_printed_command_opens_all_runs_in_the_terminal_dashboard(tmp_path: Path) -> None:
    """`wandb leet` in a pseudo-terminal: both runs are listed, and the keys move between them."""
    for name in ("norm=rms", "norm=layer"):
        track(wandb_sink(mode="offline"), info(tmp_path, name.replace("=", "-"), name=f"{name} seed=0"), range(6))
    command = closing_lines("wandb", tmp_path, ["norm-rms", "norm-layer"])[0].removeprefix("look: ")
    master, terminal = pty.openpty()
    fcntl.ioctl(terminal, termios.TIOCSWINSZ, struct.pack("HHHH", 50, 200, 0, 0))
    scripts = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    env = {**os.environ, "TERM": "xterm-256color", "PATH": scripts}
    process = subprocess.Popen(command, shell=True, stdin=terminal, stdout=terminal, stderr=terminal, env=env)
    screen = b""

    def until(*texts: str) -> None:
        nonlocal screen
        end = time.monotonic() + 30
        while any(text.encode() not in screen for text in texts) and time.monotonic() < end:
            if select.select([master], [], [], 0.2)[0]:
                screen += re.sub(rb"\x1b\[[0-9;?]*[a-zA-Z]", b"", os.read(master, 65536))
        assert all(text.encode() in screen for text in texts), screen[-3000:].decode(errors="replace")

    try:
        until("-norm-rms", "-norm-layer", "val/loss", "norm=layer seed=0")
        os.write(master, b"\x1b[B")  # arrow down
        until("norm=rms seed=0")
        os.write(master, b" ")
        until("● offline-run")  # now both runs are drawn
        os.write(master, b"q")
        process.wait(10)
    finally:
        process.kill()
        os.close(master)
        os.close(terminal)


def test_official_inspector_reads_what_the_sink_wrote(tmp_path: Path) -> None:
    track(wandb_sink(mode="offline"), info(tmp_path), range(6))
    (folder,) = wandb_folder.attempts(tmp_path, "r1")
    told = wandb_folder.recorded(folder, "r1")
    assert told["step"] == 5 and told["summary"]["val/loss"] == {"min": 2.0, "last": 4.0}
    assert "val/loss" in shell(f"wandb leet inspect --summary {folder}")
