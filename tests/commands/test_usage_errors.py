"""Wrong input: one short message that names the key and the choices, a non-zero exit code, and no run left behind."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from support.commands import TEXT, TINY, Lab, tiny

from ablab import cli
from ablab.study import processes


@pytest.fixture
def typed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]) -> Callable[..., str]:
    """Runs a command in this process and returns its message; checks what holds for every usage error."""

    def ask(question: str, *arguments: Any) -> Any:
        return processes._named(question)(*arguments)

    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(processes, "warm_up", lambda: None)
    monkeypatch.setattr(processes, "ask", ask)
    (tmp_path / "tiny.txt").write_text(TEXT)

    def run(words: str | list[str]) -> str:
        given = words.split() if isinstance(words, str) else words
        code = cli.main(["-m", *TINY, *given[1:]] if given[0] == "-m" else [*TINY, *given])
        said = capsys.readouterr()
        assert code == 2
        assert said.err.startswith("error: ")
        assert said.err.count("\n") == 1 and len(said.err) < 700
        assert "Traceback" not in said.err
        left = {p.name for p in tmp_path.rglob("*") if ".cache" not in p.parts}
        assert left <= {"tiny.txt", "runs", ".cache"}
        return said.err

    return run


WORDING = {
    # a list of values without -m
    "norm=rms,layer": ["-m", "norm=rms,layer"],
    "seed=1,2": ["-m", "seed=1,2"],
    "optimizer.lr=1e-3,1e-4": ["-m"],
    "norm=choice(rms,layer)": ["-m"],
    # groups, options and keys that there are not
    "nrom=rms": ["nrom", "did you mean 'norm'"],
    "-m nrom=rms,layer": ["nrom", "did you mean 'norm'"],
    "norm=lyaer": ["lyaer", "did you mean 'layer'", "rms", "identity"],
    "-m norm=rms,lyaer": ["lyaer", "did you mean 'layer'", "rms", "identity"],
    "block=sandwich": ["block", "pre_norm", "post_norm"],
    "ffn=gelu": ["ffn", "swiglu", "relu"],
    "position=alibi": ["position", "rope", "none"],
    "embedding=shared": ["embedding", "untied", "tied"],
    "attention=gqa": ["attention", "mha"],
    "init=zeros": ["init", "gpt2", "cs336"],
    "optimizer=sgd": ["optimizer", "adamw"],
    "schedule=linear": ["schedule", "cosine"],
    "tracker=mlflow": ["tracker", "wandb", "none"],
    "scale=huge": ["scale", "demo", "gpt2_small"],
    "data=wiki": ["data", "kjv", "shakespeare", "text"],
    "experiment=nope": ["experiment", "nope", "norm_ffn"],
    "-m experiment=norm_ffn,noise": ["experiment", "one"],
    "model.d_modle=64": ["model.d_modle", "did you mean 'model.d_model'"],
    "train.stepps=5": ["train.stepps", "did you mean 'train.steps'"],
    "norm.epss=1": ["norm.epss", "norm.eps"],
    "tracker.mod=offline": ["tracker.mod", "tracker.mode"],
    "study.alfa=0.1": ["study.alfa", "study.alpha"],
    "epochs=3": ["epochs"],
    "-m study.target=3.0,2.0": ["study.target", "one for the whole command"],
    "-m note=a,b": ["note", "one for the whole command", "quote"],
    "study.looks=[5,3]": ["study.looks", "rising"],
    "study.looks=[1,3]": ["study.looks", "2 or more"],
    "study.unstable=[norm=layer]": ["study.unstable", "'study.unstable=[\"norm=layer\"]'"],
    "--package x": ["--package"],
    # + and ~
    "+extra=1": ["extra"],
    "+extra=${nope.x}": ["extra"],
    "+norm=layer": ["norm=layer", "without +"],
    "++model.d_model=64": ["model.d_model=64", "without +"],
    "+norm.shift=1": ["norm.shift"],
    "~norm": ["norm", "cannot be removed"],
    "~model.dropout": ["model.dropout", "cannot be removed"],
    "~nope": ["nope"],
    # options that the chosen or one of the swept variants lacks
    "norm=identity norm.eps=1e-6": ["norm.eps", "norm=identity"],
    "-m norm=rms,identity norm.eps=1e-6": ["norm.eps", "norm=identity"],
    "-m norm=identity,rms norm.eps=1e-6,1e-5": ["norm.eps", "norm=identity"],
    "position=none position.theta=100": ["position.theta", "position=none"],
    "-m position=rope,none position.theta=100": ["position.theta", "position=none"],
    "tracker=none tracker.mode=offline": ["tracker.mode", "tracker=none"],
    # out of range, or of another type
    "model.d_model=30 model.n_heads=4": ["model.d_model=30", "model.n_heads=4"],
    "model.d_model=36 model.n_heads=4 position=rope": ["model.d_model=36", "model.n_heads=4", "9"],
    "-m model.d_model=36 model.n_heads=4 position=none,rope": ["model.d_model=36", "model.n_heads=4"],
    "model.n_layers=0": ["model.n_layers=0", "at least 1"],
    "model.n_heads=0": ["model.n_heads=0", "at least 1"],
    "model.context_length=0": ["model.context_length=0", "at least 1"],
    "model.dropout=1": ["model.dropout=1", "less than 1"],
    "model.dropout=-0.1": ["model.dropout=-0.1", "at least 0"],
    "model.d_model=wide": ["model.d_model", "wide"],
    "train.steps=0": ["train.steps=0", "at least 1"],
    "train.steps=2.5": ["train.steps", "2.5"],
    "train.grad_accum=0": ["train.grad_accum=0", "at least 1"],
    "train.grad_clip=-1": ["train.grad_clip=-1", "at least 0"],
    "train.precision=fp16": ["train.precision=fp16", "fp32", "bf16"],
    "train.device=tpu": ["train.device=tpu", "cpu", "cuda", "mps"],
    "train.threads=0": ["train.threads=0", "at least 1"],
    "train.tokens=1000 train.flops=1e9": ["one budget", "train.tokens", "train.flops"],
    "train.tokens=1000": ["one budget", "train.tokens", "train.steps"],  # TINY sets train.steps
    "train.steps=null": ["train.steps", "train.tokens"],
    "train.steps=null train.tokens=3": ["train.tokens=3", "32 tokens"],
    "data.val_fraction=0": ["data.val_fraction=0", "greater than 0"],
    "data.val_fraction=1": ["data.val_fraction=1", "less than 1"],
    "data.tokenizer=word": ["data.tokenizer=word", "char", "byte", "bpe"],
    "data.tokenizer=bpe": ["data.vocab_size"],
    "data.order=random": ["data.order=random", "shuffled", "sequential"],
    "seed=-1": ["seed=-1", "at least 0"],
    "seed=one": ["seed", "one"],
    "-m seed=1,one": ["seed", "one"],
    "optimizer.lr=fast": ["optimizer.lr", "fast"],
    "optimizer.lr=inf": ["optimizer.lr", "inf"],
    "optimizer.lr=-1": ["lr", "-1"],
    "-m optimizer.lr=1e-3,-1": ["lr", "-1"],
    "schedule.min_lr_ratio=2": ["schedule.min_lr_ratio", "2"],
    "schedule.warmup_steps=-1": ["schedule.warmup_steps", "-1"],
    "optimizer.lr=???": ["optimizer.lr", "???"],
    "note=${nope.x}": ["note", "nope.x"],
    "norm.eps=abc": ["norm.eps", "abc"],
    "norm.eps=-1": ["norm.eps", "-1"],
    "ffn.d_ff=-1": ["d_ff", "-1"],
    "-m ffn=swiglu,relu ffn.d_ff=0": ["d_ff", "0"],
    "position.theta=0": ["theta", "0"],
    "init.std=-1": ["init", "std", "-1"],
    "model.ffn_width=0": ["model.ffn_width=0", "at least 1"],
    "norm=identity model.final_norm=true": ["model.final_norm", "identity"],
    "tracker=wandb tracker.mode=maybe": ["tracker.mode=maybe", "auto", "online", "offline"],
    "study.margin=0": ["study.margin=0", "greater than 0"],
    "study.alpha=1": ["study.alpha=1", "less than 0.5"],
    "study.design=latin": ["study.design=latin", "factorial", "one_at_a_time"],
    "-m norm=rms,layer study.baseline='norm=identity'": ["study.baseline", "norm=identity", "rms, layer"],
    "-m norm=rms,layer study.baseline=best": ["study.baseline", "best"],
    "jobs=0": ["jobs=0", "at least 1"],
    "cell=-1": ["cell=-1", "at least 0"],
    "cell=5": ["cell=5", "0"],
    "-m optimizer.lr=interval(0,1)": ["optimizer.lr", "list of values"],
    # nothing, in the words of YAML
    "position=null": ["did you mean none", "rope"],
    "-m position=null,rope": ["did you mean none", "rope"],
    "-m position=rope,off": ["did you mean none", "rope"],
    "position=": ["did you mean none", "rope"],
    "tracker=null": ["did you mean none"],
    "tracker=false": ["did you mean none"],
    # files
    "data.path=missing.txt": ["data.path", "missing.txt"],
    "data.path=null": ["data.path"],
    "data=kjv": ["data.path", "data=text"],
    "train.resume_from=nowhere": ["train.resume_from", "nowhere"],
    "runs_dir=tiny.txt/runs": ["runs_dir", "tiny.txt/runs"],
    # syntax
    "norm": ["norm", "key=value"],
    "=3": ["unknown key"],
    "study.name=a/b": ["study.name", "a/b"],
    "study.name=..": ["study.name"],
}


@pytest.mark.parametrize("words", WORDING)
def test_the_message_names_the_key_and_what_is_allowed(typed: Callable[..., str], words: str) -> None:
    message = typed(words)
    for part in WORDING[words]:
        assert part in message


@pytest.mark.parametrize("value", ["50% @ a,b #1", "a: [b", "it's"])
def test_text_with_special_characters_must_be_quoted_twice(typed: Callable[..., str], value: str) -> None:
    message = typed([f"note={value}"])
    assert "note" in message


def test_a_wrong_last_cell_of_many_stops_the_sweep(typed: Callable[..., str]) -> None:
    message = typed("-m norm=rms,layer seed=1,2 model.n_heads=2,4,5")
    assert "model.n_heads=5" in message and "model.d_model=32" in message


def test_full_traceback_on_request(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("HYDRA_FULL_ERROR", "1")
    with pytest.raises(ValueError, match="lyaer"):
        cli.main(["norm=lyaer"])


def test_a_user_sees_the_same(lab: Lab) -> None:
    done = lab.tiny("norm=rms,lyaer")
    assert done.code == 2
    assert done.err.startswith("error: ") and done.err.count("\n") == 1 and "lyaer" in done.err
    done = lab.run(*tiny("norm=rms,layer", sweep=False))
    assert done.code == 2 and "-m" in done.err
    assert {p.name for p in lab.folder.iterdir()} == {"tiny.txt"}
