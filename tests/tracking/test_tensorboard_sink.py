from __future__ import annotations

import json
import math
import shutil
import signal
import subprocess
import urllib.request
from pathlib import Path
from typing import Any

import pytest
from PIL import Image
from support.tracking import child, info, row, track
from tensorboard import default, program
from tensorboard.backend.event_processing.event_accumulator import EventAccumulator

from ablab.errors import UsageError
from ablab.tracking import closing_lines, make_sinks


def sink() -> Any:
    return make_sinks("tensorboard", {})[0]


def read(runs_dir: Path, run_id: str = "r1") -> EventAccumulator:
    """What TensorBoard makes of a run's files."""
    events = EventAccumulator(str(runs_dir / "tensorboard" / f"run-{run_id}"))
    return events.Reload()


def curve(runs_dir: Path, key: str) -> list[tuple[int, float]]:
    return [(point.step, point.value) for point in read(runs_dir).Scalars(key)]


def test_every_row_is_shown_at_its_step(tmp_path: Path) -> None:
    track(sink(), info(tmp_path), [0, 1, 5])
    assert curve(tmp_path, "train/loss") == [(0, 9.0), (1, 8.0), (5, 4.0)]
    assert curve(tmp_path, "val/loss") == [(0, 5.0), (1, 4.0), (5, 4.0)]
    assert curve(tmp_path, "tokens") == [(0, 0.0), (1, 64.0), (5, 320.0)]


def test_number_that_was_not_finite_is_nan(tmp_path: Path) -> None:
    one = sink()
    one.start(info(tmp_path))
    one.log({**row(1), "val/loss": None})
    one.finish("diverged", {"reason": "val/loss is not finite"})
    ((step, value),) = curve(tmp_path, "val/loss")
    assert step == 1 and math.isnan(value)
    assert b"diverged" in read(tmp_path).Tensors("outcome")[0].tensor_proto.string_val[0]


def test_resume_shows_each_step_once(tmp_path: Path) -> None:
    track(sink(), info(tmp_path), range(6), "interrupted")
    track(sink(), info(tmp_path, resumed=True), range(4, 9))
    assert [step for step, _ in curve(tmp_path, "val/loss")] == list(range(9))


def test_fresh_start_forgets_the_earlier_attempt(tmp_path: Path) -> None:
    track(sink(), info(tmp_path), range(6), "failed")
    track(sink(), info(tmp_path), range(3))
    assert [step for step, _ in curve(tmp_path, "val/loss")] == [0, 1, 2]


def test_texts_and_figures(tmp_path: Path) -> None:
    picture = tmp_path / "loss.png"
    Image.new("RGB", (4, 3)).save(picture)
    one = sink()
    one.start(info(tmp_path))
    one.log_text("sample", "in the beginning", 2)
    one.log_figure("figure", picture, 2)
    one.log(row(2))
    one.finish("finished", {})
    events = read(tmp_path)
    assert events.Tensors("sample")[0].tensor_proto.string_val == [b"in the beginning"]
    (image,) = events.Images("figure")
    assert (image.width, image.height, image.encoded_image_string) == (4, 3, picture.read_bytes())


def test_sigkill_loses_nothing_that_was_logged(tmp_path: Path) -> None:
    code = (
        "import sys, os, signal, pathlib\nfrom support.tracking import info, row\n"
        "from ablab.tracking import make_sinks\n"
        "sink = make_sinks('tensorboard', {})[0]; sink.start(info(pathlib.Path(sys.argv[1])))\n"
        "for step in range(20): sink.log(row(step))\n"
        "os.kill(os.getpid(), signal.SIGKILL)"
    )
    process = child(code, tmp_path)
    process.communicate(timeout=60)
    assert process.returncode == -signal.SIGKILL
    assert len(curve(tmp_path, "val/loss")) == 20


def test_unwritable_folder_is_an_error(tmp_path: Path) -> None:
    (tmp_path / "tensorboard").touch()
    with pytest.raises(UsageError, match=f"runs_dir={tmp_path}: cannot write"):
        sink().start(info(tmp_path))


def test_unknown_key_is_refused() -> None:
    with pytest.raises(UsageError, match=r"tracker.mode"):
        make_sinks("tensorboard", {"mode": "offline"})


def ask(url: str, question: object = None) -> Any:
    """JSON from one of the dashboard's addresses, POSTed to where there is a question."""
    body = None if question is None else json.dumps(question).encode()
    request = urllib.request.Request(url, body, {"Content-Type": "application/json"})
    return json.load(urllib.request.urlopen(request, timeout=30))


def rendered(url: str, profile: Path) -> str | None:
    """The page as a headless browser shows it, or None on a machine without one."""
    names = ("chromium", "chromium-browser", "google-chrome", "google-chrome-stable")
    found = [path for path in map(shutil.which, names) if path]
    if not found:
        return None
    options = ["--headless=new", "--no-sandbox", "--disable-gpu", f"--user-data-dir={profile}"]
    options += ["--window-size=1600,2400", "--virtual-time-budget=40000", "--dump-dom", url]
    return subprocess.run([found[0], *options], capture_output=True, text=True, timeout=120, check=True).stdout


def test_dashboard_shows_all_runs_with_their_settings(tmp_path: Path) -> None:
    """TensorBoard itself: its server and, where there is a browser, its page."""
    for run_id in ("r1", "r2"):
        track(sink(), info(tmp_path, run_id), range(4))
    folder = closing_lines("tensorboard", tmp_path, ["r1"])[0].split("--logdir ")[1]
    board = program.TensorBoard(plugins=default.get_plugins())
    quick = ["--reload_interval", "0", "--load_fast", "false"]
    board.configure(argv=[None, "--logdir", folder, "--port", "0", *quick])
    url = board.launch().rstrip("/").replace("localhost", "127.0.0.1")
    tags = ask(f"{url}/data/plugin/scalars/tags")
    assert set(tags) == {"run-r1", "run-r2"} and "val/loss" in tags["run-r1"]
    question = {"allowedStatuses": ["STATUS_SUCCESS"], "startIndex": 0, "sliceSize": 9, "colParams": []}
    groups = ask(f"{url}/data/plugin/hparams/session_groups", question)["sessionGroups"]
    assert [group["hparams"] for group in groups] == [{"optimizer.lr": 1e-4, "seed": 0}] * 2
    page = rendered(f"{url}/#timeseries", tmp_path / "profile")
    if page is not None:
        assert all(text in page for text in ("run-r1", "run-r2", "tokens"))
