"""Every key does something: flipping it changes the weights, the batches, the optimiser, or what is written."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import cache
from pathlib import Path
from typing import Any

import pytest
import torch
from omegaconf import DictConfig
from support.tiny_cell import TIMED
from torch.optim.optimizer import register_optimizer_step_post_hook

from ablab import catalog, compose, registry
from ablab.data import prepare
from ablab.errors import UsageError
from ablab.runfolder import read_metrics
from ablab.schema import limits
from ablab.study import budget
from ablab.training import checkpoint, train

BASE = [
    "model.d_model=32",
    "model.n_layers=2",
    "model.n_heads=2",
    "model.context_length=16",
    "data=text",
    "train.batch_size=2",
    "train.steps=4",
    "train.log_every=2",
    "train.eval_every=2",
    "train.checkpoint_every=2",
    "train.eval_batch_size=8",
    "train.device=cpu",
    "tracker=none",
]
#: key -> (what is set besides, one value, another); without an entry the flip would have to be guessed
FLIPS: dict[str, tuple[str, str, str]] = {
    "norm": ("", "rms", "layer"), "block": ("", "pre_norm", "post_norm"), "ffn": ("", "swiglu", "relu"),
    "position": ("", "rope", "none"), "embedding": ("", "untied", "tied"), "init": ("", "gpt2", "cs336"),
    "norm.eps": ("", "1e-5", "1e-1"), "position.theta": ("", "10000", "10"), "ffn.d_ff": ("", "8", "16"),
    "init.std": ("", "0.02", "0.1"),
    "optimizer.lr": ("", "1e-3", "1e-2"), "optimizer.weight_decay": ("optimizer.lr=0.1", "0.1", "0.5"),
    "optimizer.betas": ("", "[0.9,0.95]", "[0.5,0.95]"), "optimizer.eps": ("", "1e-8", "1e-2"),
    "schedule.warmup_steps": ("", "1", "3"), "schedule.min_lr_ratio": ("", "0.1", "0.5"),
    "data.tokenizer": ("", "char", "byte"), "data.vocab_size": ("", "60", "70"), "data.val_fraction": ("", "0.1", "0.3"),
    "data.order": ("", "shuffled", "sequential"),
    "model.d_model": ("", "32", "64"), "model.n_layers": ("", "2", "3"), "model.n_heads": ("", "2", "4"),
    "model.context_length": ("", "16", "8"), "model.dropout": ("", "0.0", "0.5"), "model.final_norm": ("", "true", "false"),
    "model.ffn_width": ("", "48", "64"), "model.match_embedding": ("embedding=tied", "false", "true"),
    "train.steps": ("", "4", "5"), "train.batch_size": ("", "2", "3"), "train.eval_batch_size": ("", "8", "5"),
    "train.grad_accum": ("", "1", "2"), "train.grad_clip": ("", "1.0", "0.01"), "train.log_every": ("", "2", "1"),
    "train.eval_every": ("", "2", "1"), "train.checkpoint_every": ("", "2", "1"), "train.precision": ("", "fp32", "bf16"),
    "train.threads": ("", "1", "2"),
    "seed": ("", "0", "1"), "seeds.init": ("", "0", "1"), "seeds.data": ("", "0", "1"), "seeds.salt": ("", "0", "1"),
}  # fmt: skip
#: what the base has anyway: such a trace is trained once for all keys
DEFAULTS = {key: one for key, (_, one, _) in FLIPS.items() if key not in (
    "ffn.d_ff", "optimizer.betas", "schedule.warmup_steps", "data.vocab_size", "model.final_norm", "model.ffn_width")}  # fmt: skip
#: keys with one option only, or whose effect is not in a run: the tests name them where the effect is looked at
ELSEWHERE = {
    "attention": "components", "optimizer": "training", "schedule": "training",
    "data.path": "commands", "data.verse_numbers": "data", "model.match": "test_matching.py",
    "train.compile": "training", "train.device": "training", "train.resume_from": "training", "train.minutes": "study",
    "tracker": "tracking",
}  # fmt: skip


def all_keys() -> list[str]:
    fixed = [key for key, _ in limits()]
    own = [f"{slot}.{key}" for slot in registry.SLOTS for o in shipped(slot) for key in o.keywords]
    return list(dict.fromkeys([*fixed, *own]))


def shipped(slot: str) -> list[catalog.Option]:
    return [o for o in catalog.options(slot).values() if o.module.startswith("ablab.")]


@pytest.fixture(scope="module")
def text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    file = tmp_path_factory.mktemp("alive") / "text.txt"
    file.write_text("".join(f"{i}: the quick brown fox jumps over the lazy dog\n" for i in range(40)))
    return file


@contextmanager
def watched(seen: dict[str, Any], monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    """Note the batch sizes of evaluation, the threads of a step and the checkpoints written."""
    write = checkpoint.write

    def noted(path: Path, content: dict[str, Any], **options: Any) -> Any:
        seen["saved"].append((Path(path).name, content["step"]))
        return write(path, content, **options)

    def forward(module: torch.nn.Module, args: Any, output: Any) -> None:
        if isinstance(module, torch.nn.Embedding) and not module.training:
            seen["evaluated"].add(len(args[0]))

    hooks = [
        torch.nn.modules.module.register_module_forward_hook(forward),
        register_optimizer_step_post_hook(lambda *_: seen["threads"].add(torch.get_num_threads())),
    ]
    try:
        with monkeypatch.context() as patch:
            patch.setattr(checkpoint, "write", noted)
            yield
    finally:
        for hook in hooks:
            hook.remove()


def trace(cfg: DictConfig, folder: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Everything that a key can change in a run."""
    seen: dict[str, Any] = {"saved": [], "evaluated": set(), "threads": set()}
    with watched(seen, monkeypatch):
        train(cfg, folder, prepare(cfg, folder.parent / "cache"))
    rows = [{k: v for k, v in row.items() if k not in TIMED} for row in read_metrics(folder)]
    content = torch.load(folder / "checkpoints" / "last.pt", weights_only=True)
    weights = {name: tensor.numpy().tobytes() for name, tensor in content["model"].items()}
    return {**seen, "rows": rows, "weights": weights, "batches": content["batch_hash"]}


@pytest.fixture(scope="module")
def traces(text: Path, tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], dict[str, Any]]:
    """Trace of a run by the overrides that it adds to the base; each is trained once."""
    folder = tmp_path_factory.mktemp("traces")

    @cache
    def look(overrides: str) -> dict[str, Any]:
        cfg = compose([*BASE, f"data.path={text}", *overrides.split()])
        with pytest.MonkeyPatch.context() as patch:
            return trace(cfg, folder / str(len(list(folder.iterdir()))), patch)

    return look


def test_equal_configs_leave_equal_traces(text: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch):
    """What differs between two traces is the key's doing, not chance."""
    words = [*BASE, f"data.path={text}", "model.dropout=0.5"]
    one, two = [trace(compose(words), tmp_path / name, monkeypatch) for name in ("one", "two")]
    assert one == two


@pytest.mark.parametrize("key", FLIPS)
def test_flipping_a_key_changes_something(key: str, traces: Callable[[str], dict[str, Any]]):
    besides, one, other = FLIPS[key]
    first = traces(besides if one == DEFAULTS.get(key) else f"{besides} {key}={one}")
    assert first != traces(f"{besides} {key}={other}")


@pytest.mark.parametrize(
    "key, few, many", [("tokens", 1e5, 1e6), ("tokens_per_parameter", 100, 500), ("flops", 1e8, 1e9)]
)
def test_a_budget_becomes_steps(key: str, few: float, many: float):
    costs = {"non_embedding": 1000, "flops_per_token": 500}
    fewer, more = (budget.steps(compose([f"train.{key}={value}"]), costs) for value in (few, many))
    assert 1 <= fewer < more


def test_a_device_that_is_not_there_is_refused_by_name():
    from ablab.training.device import resolve_device

    missing = "mps" if torch.cuda.is_available() else "cuda"
    with pytest.raises(UsageError, match=rf"train\.device={missing}"):
        resolve_device(missing)


def test_no_key_is_left_out():
    """Keys of a run are flipped above; those of studies and actions, and a few more, in the tests that name them."""
    runs = [k for k in all_keys() if k.partition(".")[0] not in ("study", "runs_dir", "note", "jobs", "fresh", "plan",
                                                                 "status", "cell", "fail_fast")]  # fmt: skip
    budgets = {"train.tokens", "train.tokens_per_parameter", "train.flops"}
    assert set(runs) == set(FLIPS) | set(ELSEWHERE) | budgets


@pytest.mark.parametrize("key", [k for k in all_keys() if k not in FLIPS and "tokens" not in k and k != "train.flops"])
def test_other_keys_are_named_by_a_test_of_their_effect(key: str):
    here = Path(__file__).parent
    places = [here / ELSEWHERE[key]] if key in ELSEWHERE else [here / "commands", here / "study", here / "analysis"]
    files = [f for p in places for f in ([p] if p.is_file() else p.rglob("*.py"))]
    leaf = key.rpartition(".")[2]
    assert any(f"{leaf}" in file.read_text(encoding="utf-8") for file in files), f"no test names {key}"
