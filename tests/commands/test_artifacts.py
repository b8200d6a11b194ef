"""tracker.artifacts=true: what a finished run leaves goes to W&B as artifacts; real client, stand-in server."""

from __future__ import annotations

from collections.abc import Callable

from support.commands import TINY, Lab
from support.tracking import KEY
from support.wandb_server import WandbServer


def test_checkpoints_and_tokens_become_artifacts_on_request(new_lab: Callable[..., Lab]):
    lab = new_lab()
    with WandbServer() as server:
        online = {"WANDB_BASE_URL": server.url, "WANDB_API_KEY": KEY, "NO_REPORT": "1"}
        plain = lab.run(*TINY, "tracker.mode=online", **online)
        assert plain.code == 0, plain.text
        assert server.artifacts == {}
        asked = lab.run(*TINY, "tracker.mode=online", "tracker.artifacts=true", "fresh=true", **online)
        assert asked.code == 0, asked.text
        kinds = {a["type"]: set(a["files"]) for a in server.artifacts.values()}
    assert {"last.pt", "best.pt", "model.safetensors"} <= kinds["model"]
    assert {"train.bin", "val.bin", "tokenizer.json"} <= kinds["dataset"]
