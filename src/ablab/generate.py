"""Text from a trained run.

`python -m ablab.generate runs/LABEL-ID --prompt "In the beginning" --max-new-tokens 200 --temperature 0.8 --seed 1`
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import torch
from omegaconf import DictConfig, OmegaConf
from torch import Tensor, nn

from .catalog import load_plugins
from .components.sampling import Sampling, pick
from .data import Tokenizer, load_tokenizer, prepare
from .data.token_data import FACTS, TOKENIZER
from .errors import UsageError
from .model import DecoderLM, build_model
from .runfolder import CACHE, CHECKPOINTS, CONFIG
from .training import checkpoint
from .training.device import resolve_device


@dataclass(frozen=True)
class Generated:
    """What was added to one prompt.

    Attributes:
        ids: the new tokens, without the end-of-text token that ended them.
        ended: an end-of-text token came before `max_new_tokens`.
        cropped: tokens of the prompt, on its left, that the context has no room for.
    """

    ids: list[int]
    ended: bool
    cropped: int


def generate(
    model: DecoderLM,
    prompts: Sequence[Sequence[int]],
    max_new_tokens: int,
    *,
    sampling: Sampling | None = None,
    eot_id: int | None = None,
    generator: torch.Generator | None = None,
    use_cache: bool = True,
) -> list[Generated]:
    """Continue a batch of prompts; each row is what the plain forward pass over its own text would give.

    A row sees the last `model.context_length` tokens of its text. Up to there a key-value cache saves work;
    past it every token takes a whole forward pass, since dropping the oldest token changes all others. The
    model's mode is left as found.

    Args:
        prompts: token ids of each row, at least one; shorter rows are padded on the left.
        eot_id: a row stops when it draws this token; the others go on.
        generator: draws the tokens; a fixed seed and batch give a fixed text.
    Raises:
        UsageError: an empty prompt, an id outside the vocabulary, a negative `max_new_tokens`.
    """
    if max_new_tokens < 0:
        raise UsageError(f"max_new_tokens must be 0 or more, not {max_new_tokens}")
    if not prompts or not all(len(p) for p in prompts):
        raise UsageError("a prompt needs at least one token; start from the end-of-text token to have none")
    for token in (t for p in prompts for t in p):
        if not 0 <= token < model.vocab_size:
            raise UsageError(f"token id {token} is outside the vocabulary of {model.vocab_size} tokens")
    sampling, room = sampling or Sampling(), model.context_length
    device = model.token_embeddings.weight.device
    text, real = _left_padded([list(p)[-room:] for p in prompts], device)
    padded = not bool(real.all())
    start = text.shape[1]
    ended = torch.zeros(len(prompts), dtype=torch.bool, device=device)
    lengths = [max_new_tokens] * len(prompts)
    cache = model.new_cache() if use_cache else None
    with _evaluating(model), torch.no_grad():
        for step in range(max_new_tokens):
            if cache is not None and text.shape[1] <= room:
                new = text[:, cache[0].length :]
                hidden = model.hidden(new, real if padded else None, cache)
            else:
                hidden = model.hidden(text[:, -room:], real[:, -room:] if padded else None)
            drawn = pick(model.lm_head(hidden[:, -1]), sampling, generator)
            if eot_id is not None:
                for row in ((drawn == eot_id) & ~ended).nonzero().flatten().tolist():
                    ended[row], lengths[row] = True, step
            text = torch.cat((text, drawn[:, None]), 1)
            real = nn.functional.pad(real, (0, 1), value=True)
            if ended.all():
                break
    return [
        Generated(text[row, start : start + lengths[row]].tolist(), bool(ended[row]), max(0, len(p) - room))
        for row, p in enumerate(prompts)
    ]


def _left_padded(rows: list[list[int]], device: torch.device) -> tuple[Tensor, Tensor]:
    """(ids, real) of the rows, both (B, longest); real is False where a row is padded."""
    width = max(map(len, rows))
    ids = torch.tensor([[0] * (width - len(r)) + r for r in rows], device=device)
    real = torch.tensor([[False] * (width - len(r)) + [True] * len(r) for r in rows], device=device)
    return ids, real


@contextmanager
def _evaluating(model: nn.Module) -> Iterator[None]:
    """Evaluation mode inside; afterwards every part has the mode it had."""
    modes = [(module, module.training) for module in model.modules()]
    model.eval()
    try:
        yield
    finally:
        for module, training in modes:
            module.training = training


def load_run(folder: Path, which: str = "last", device: str = "auto") -> tuple[DecoderLM, Tokenizer]:
    """Model and tokenizer of a run folder.

    Args:
        which: `last`, the weights after the last saved step, or `best`, those of the lowest validation loss.
    Raises:
        UsageError: the folder has no config or no readable checkpoint, or the checkpoint belongs to another
            tokenizer, vocabulary or architecture than the config and the data at hand.
    """
    if not (folder / CONFIG).is_file():
        raise UsageError(f"{folder} is no run folder: it has no {CONFIG}")
    cfg = OmegaConf.load(folder / CONFIG)
    if not isinstance(cfg, DictConfig):
        raise UsageError(f"{folder / CONFIG} holds no config")
    file, content = _read_checkpoint(folder / CHECKPOINTS, which)
    tokenizer = _find_tokenizer(cfg, folder.resolve().parent / CACHE, content)
    rows = content["model"]["token_embeddings.weight"].shape[0]
    if content.get("tokenizer_hash", tokenizer.hash) != tokenizer.hash or rows != tokenizer.vocab_size:
        raise UsageError(
            f"{file} was trained with another tokenizer (vocabulary of {rows}) than the one of "
            f"data={cfg.choices.data} now (vocabulary of {tokenizer.vocab_size}, largest id "
            f"{tokenizer.vocab_size - 1}): has the text changed?"
        )
    load_plugins()
    model = build_model(cfg, tokenizer.vocab_size)
    own, saved = model.state_dict(), content["model"]
    shapes = [{name: tensor.shape for name, tensor in state.items()} for state in (own, saved)]
    differing = sorted({name for name, _ in shapes[0].items() ^ shapes[1].items()})
    if differing:
        raise UsageError(
            f"{file} does not fit {folder / CONFIG}: {len(differing)} tensors differ, the first is {differing[0]}"
        )
    model.load_state_dict(saved)
    return model.to(resolve_device(device)).eval(), tokenizer


def _read_checkpoint(folder: Path, which: str) -> tuple[Path, dict[str, Any]]:
    file = folder / (checkpoint.BEST if which == "best" else checkpoint.LAST)
    try:
        content = checkpoint.read(file) if which == "best" else checkpoint.read_latest(folder)[0]
    except checkpoint.CheckpointError as error:
        raise UsageError(str(error)) from error
    if content is None:
        raise UsageError(f"{folder} has no readable checkpoint")
    return file, content


def _find_tokenizer(cfg: DictConfig, cache: Path, content: dict[str, Any]) -> Tokenizer:
    """The tokenizer the run was trained with, from the prepared data; without that, prepared again."""
    for facts in sorted(cache.glob(f"tokens/*/{FACTS}")):
        if json.loads(facts.read_text(encoding="utf-8")).get("hash") == content.get("data_hash"):
            return load_tokenizer(facts.with_name(TOKENIZER))
    return prepare(cfg, cache).tokenizer  # type: ignore[arg-type]


def _arguments(argv: Sequence[str] | None) -> argparse.Namespace:
    parser = argparse.ArgumentParser(prog="python -m ablab.generate", description="Text from a trained run.")
    parser.add_argument("run", type=Path, help="run folder, e.g. runs/LABEL-ID")
    parser.add_argument("--prompt", action="append", help="text to continue; several make a batch (default: none)")
    parser.add_argument("--max-new-tokens", type=int, default=200, metavar="N")
    parser.add_argument("--temperature", type=float, default=0.8, help="0 = always the most likely (default: 0.8)")
    parser.add_argument("--top-p", type=float, default=1.0, metavar="P", help="nucleus, in [0, 1] (default: 1)")
    parser.add_argument("--top-k", type=int, metavar="K", help="the K most likely tokens (default: all)")
    parser.add_argument("--seed", type=int, default=0)
    parser.add_argument("--checkpoint", choices=("last", "best"), default="last")
    parser.add_argument("--device", choices=("auto", "cpu", "cuda", "mps"), default="auto")
    return parser.parse_args(argv)


def main(argv: Sequence[str] | None = None) -> int:
    """The command line. Text goes to stdout, remarks to stderr; 0, or 2 for a usage error."""
    args = _arguments(argv)
    try:
        sampling = Sampling(args.temperature, args.top_p, args.top_k)
        model, tokenizer = load_run(args.run, args.checkpoint, args.device)
        prompts = args.prompt or [""]
        # Documents are joined by end-of-text tokens: after one, a new document starts.
        ids = [tokenizer.encode(p) or [tokenizer.eot_id] for p in prompts]
        draw = torch.Generator().manual_seed(args.seed)
        rows = generate(model, ids, args.max_new_tokens, sampling=sampling, eot_id=tokenizer.eot_id, generator=draw)
    except UsageError as error:
        print(f"error: {error}", file=sys.stderr)
        return 2
    for number, (prompt, known, row) in enumerate(zip(prompts, ids, rows, strict=True), start=1):
        about = f"prompt {number}: " if len(rows) > 1 else ""
        if tokenizer.unk_id is not None and tokenizer.unk_id in known:
            print(f"{about}characters that the training text never had were read as <unk>", file=sys.stderr)
        if row.cropped:
            print(
                f"{about}the first {row.cropped} of {len(known)} tokens were left out: "
                f"model.context_length={model.context_length}",
                file=sys.stderr,
            )
        if len(rows) > 1:
            print(f"--- {number}")
        print(prompt + tokenizer.decode(row.ids))
    return 0


if __name__ == "__main__":
    sys.exit(main())
