from __future__ import annotations

from pathlib import Path

import pytest
import torch
from components.cells import CELLS, VOCAB, config, name
from omegaconf import OmegaConf
from torch import Tensor

from ablab import UsageError, build_model, compose
from ablab.components.sampling import Sampling
from ablab.data import prepare
from ablab.generate import generate, load_run, main
from ablab.model import DecoderLM
from ablab.training import checkpoint

GREEDY = Sampling(temperature=0)
CONTEXT = 16


def lively(cell: dict[str, str] | None = None, **changes) -> DecoderLM:
    """A model whose greedy text is no single repeated token."""
    model = build_model(config(**(cell or {}), **changes), VOCAB).eval()
    with torch.no_grad():
        for p in model.parameters():
            if p.dim() > 1:
                p.mul_(12.0)
    return model


def prompt(length: int, seed: int = 0) -> list[int]:
    return torch.randint(VOCAB, (length,), generator=torch.Generator().manual_seed(seed)).tolist()


def by_plain_passes(model: DecoderLM, tokens: list[int], count: int) -> list[int]:
    """Greedy text by nothing but whole forward passes over the last tokens."""
    text = list(tokens)
    with torch.no_grad():
        for _ in range(count):
            text.append(int(model(torch.tensor([text[-CONTEXT:]]))[0, -1].argmax()))
    return text[len(tokens) :]


def texts(model: DecoderLM, prompts: list[list[int]], count: int, **options) -> list[list[int]]:
    options = {"sampling": GREEDY} | options
    return [row.ids for row in generate(model, prompts, count, **options)]


@pytest.mark.parametrize("cell", CELLS, ids=name)
def test_a_padded_batch_with_a_cache_gives_the_text_of_plain_passes(cell):
    model = lively(cell)
    prompts = [prompt(n, n) for n in (2, 5, 9)]
    want = [by_plain_passes(model, p, 6) for p in prompts]
    assert texts(model, prompts, 6) == want
    assert [texts(model, [p], 6)[0] for p in prompts] == want


@pytest.mark.parametrize("cell", CELLS, ids=name)
def test_logits_are_the_same_in_pieces_and_in_padded_rows(cell):
    model, lengths = lively(cell), (2, 5, 9)
    rows = [prompt(n, n) for n in lengths]
    ids = torch.tensor([[0] * (9 - len(r)) + r for r in rows])
    mask = torch.tensor([[False] * (9 - n) + [True] * n for n in lengths])

    def pieces(ids: Tensor, size: int, mask: Tensor | None) -> Tensor:
        cache = model.new_cache()
        ends = [min(start + size, ids.shape[1]) for start in range(0, ids.shape[1], size)]
        return torch.cat(
            [model(ids[:, cache[0].length : e], mask if mask is None else mask[:, :e], cache) for e in ends], 1
        )

    with torch.no_grad():
        alone = [model(torch.tensor([r]))[0] for r in rows]
        for size in (1, 3, 9):
            torch.testing.assert_close(pieces(ids[2:], size, None)[0], alone[2], rtol=0, atol=1e-4)
            padded = pieces(ids, size, mask)
            assert padded.isfinite().all()
            for row, want in enumerate(alone):
                torch.testing.assert_close(padded[row, -len(want) :], want, rtol=0, atol=1e-4)


@pytest.mark.parametrize("position", ["rope", "none"])
@pytest.mark.parametrize("use_cache", [True, False])
@pytest.mark.parametrize("length", [1, 15, 16, 17, 40])
def test_text_may_run_over_the_context_and_then_the_oldest_tokens_go(position, use_cache, length):
    model = lively(position=position)
    row = generate(model, [prompt(length)], 8, sampling=GREEDY, use_cache=use_cache)[0]
    assert row.ids == by_plain_passes(model, prompt(length), 8)
    assert row.cropped == max(0, length - CONTEXT)


@pytest.mark.parametrize("use_cache", [True, False])
def test_rows_of_every_length_cross_the_end_of_the_context_in_one_batch(use_cache):
    model, lengths = lively(), (1, 12, 15, 16, 17, 40)
    prompts = [prompt(n, n) for n in lengths]
    rows = generate(model, prompts, 8, sampling=GREEDY, use_cache=use_cache)
    assert [r.ids for r in rows] == [by_plain_passes(model, p, 8) for p in prompts]
    assert [r.cropped for r in rows] == [0, 0, 0, 0, 1, 24]


def test_each_row_stops_at_its_own_end_of_text():
    model = lively()
    prompts = [prompt(4, s) for s in range(6)]
    free = texts(model, prompts, 10)
    ends = free[0][3]
    rows = generate(model, prompts, 10, sampling=GREEDY, eot_id=ends)
    stopped = 0
    for row, text in zip(rows, free, strict=True):
        want = text[: text.index(ends)] if ends in text else text
        assert row.ids == want and row.ended == (ends in text)
        stopped += row.ended
    assert 1 <= stopped < len(rows)


def test_nothing_is_computed_once_every_row_has_ended():
    model, calls = lively(), []
    ends = texts(model, [prompt(4)], 10)[0][2]
    model.token_embeddings.register_forward_hook(lambda *_: calls.append(1))
    row = generate(model, [prompt(4)] * 2, 10, sampling=GREEDY, eot_id=ends)[0]
    assert row.ended and len(calls) == len(row.ids) + 1 <= 3


def test_a_seed_gives_one_text_and_the_global_stream_is_left_alone():
    model, sampling = lively(), Sampling(temperature=2.0, top_p=0.95, top_k=20)
    torch.manual_seed(0)
    want = torch.rand(1)
    torch.manual_seed(0)
    one, two, other = (
        texts(model, [prompt(3)] * 2, 12, sampling=sampling, generator=torch.Generator().manual_seed(s))
        for s in (1, 1, 2)
    )
    assert one == two != other
    assert one[0] != one[1]
    assert torch.equal(torch.rand(1), want)
    no_cache = texts(
        model, [prompt(3)] * 2, 12, sampling=sampling, generator=torch.Generator().manual_seed(1), use_cache=False
    )
    assert no_cache == one


@pytest.mark.parametrize("fails", [False, True])
def test_every_part_keeps_its_mode_and_dropout_never_acts(fails):
    model = lively(dropout=0.5).train()
    model.layers[0].eval()
    before = [m.training for m in model.modules()]
    if fails:
        with torch.no_grad():
            model.lm_head.weight.fill_(float("nan"))
        with pytest.raises(UsageError, match="not finite"):
            texts(model, [prompt(3)], 4)
    else:
        assert texts(model, [prompt(3)], 6) == texts(model, [prompt(3)], 6) == texts(lively(), [prompt(3)], 6)
    assert [m.training for m in model.modules()] == before


@pytest.mark.parametrize("dtype", [torch.float16, torch.bfloat16])
def test_greedy_text_in_half_precision_is_finite_and_repeatable(dtype):
    model = lively().to(dtype)
    assert texts(model, [prompt(3), prompt(7)], 12) == texts(model, [prompt(3), prompt(7)], 12)


@pytest.mark.parametrize(
    ("prompts", "count", "words"),
    [([[]], 4, "at least one"), ([], 4, "at least one"), ([[1], [VOCAB]], 4, rf"{VOCAB} .*{VOCAB}"), ([[-1]], 4, "-1"), ([[1]], -1, "max_new_tokens")],
)  # fmt: skip
def test_bad_prompts_are_refused(prompts, count, words):
    with pytest.raises(UsageError, match=words):
        generate(lively(), prompts, count)


def test_no_new_tokens_is_no_text():
    assert texts(lively(), [prompt(3)], 0) == [[]]


@pytest.fixture(scope="module")
def run(tmp_path_factory) -> Path:
    """A run folder with weights that were never trained, and the text its data came from beside it."""
    pool = tmp_path_factory.mktemp("runs")
    source = pool / "tiny.txt"
    source.write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    sizes = [f"model.{k}={v}" for k, v in {"d_model": 32, "n_layers": 2, "n_heads": 2, "context_length": 16}.items()]
    cfg = compose(["data=text", f"data.path={source}", "embedding=tied", *sizes])
    data = prepare(cfg, pool / ".cache")
    folder = pool / "cell"
    folder.mkdir()
    OmegaConf.save(cfg, folder / "config.yaml")
    model = build_model(cfg, data.vocab_size)
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(10.0)
    content = {"model": model.state_dict(), "data_hash": data.hash, "tokenizer_hash": data.tokenizer.hash}
    checkpoint.write(folder / "checkpoints" / "last.pt", content)
    best = {"model": build_model(cfg, data.vocab_size).state_dict()}
    checkpoint.write(folder / "checkpoints" / "best.pt", content | best)
    return folder


def test_a_run_gives_its_model_and_tokenizer_back(run):
    model, tokenizer = load_run(run)
    assert tokenizer.decode(tokenizer.encode("lazy dog")) == "lazy dog"
    assert model.vocab_size == tokenizer.vocab_size and not model.training
    assert model.lm_head.weight is model.token_embeddings.weight
    best, _ = load_run(run, "best")
    assert not torch.equal(best.lm_head.weight, model.lm_head.weight)


def test_the_command_continues_several_prompts(run, capsys):
    call = [str(run), "--prompt", "the quick", "--prompt", "fox", "--max-new-tokens", "30"]
    assert main([*call, "--temperature", "1.5", "--top-p", "0.9", "--top-k", "20", "--seed", "3"]) == 0
    first = capsys.readouterr()
    assert "--- 1\nthe quick" in first.out and "--- 2\nfox" in first.out and first.err == ""
    assert main([*call, "--temperature", "1.5", "--top-p", "0.9", "--top-k", "20", "--seed", "3"]) == 0
    assert capsys.readouterr().out == first.out
    assert main([*call, "--temperature", "1.5", "--top-p", "0.9", "--top-k", "20", "--seed", "4"]) == 0
    assert capsys.readouterr().out != first.out


def test_the_command_starts_a_document_without_a_prompt(run, capsys):
    assert main([str(run), "--max-new-tokens", "20", "--temperature", "2"]) == 0
    assert len(capsys.readouterr().out.strip("\n")) > 0


def test_the_command_says_what_it_left_out_and_could_not_read(run, capsys):
    assert main([str(run), "--prompt", "the quick brown fox jumps", "--max-new-tokens", "4"]) == 0
    said = capsys.readouterr()
    assert said.out.startswith("the quick brown fox jumps")
    assert "the first 9 of 25 tokens were left out" in said.err and "model.context_length=16" in said.err
    assert main([str(run), "--prompt", "fox ☃", "--max-new-tokens", "4"]) == 0
    assert "<unk>" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("options", "words"),
    [
        (["--temperature", "-1"], "temperature"),
        (["--top-p", "1.1"], "top_p"),
        (["--top-k", "0"], "top_k"),
        (["--max-new-tokens", "-1"], "max_new_tokens"),
    ],
)
def test_the_command_refuses_values_out_of_range(run, capsys, options, words):
    assert main([str(run), "--prompt", "fox", *options]) == 2
    said = capsys.readouterr()
    assert words in said.err and said.out == "" and len(said.err.splitlines()) == 1


def test_a_folder_that_is_no_run_is_refused(run, tmp_path, capsys):
    assert main([str(tmp_path)]) == 2
    assert "no run folder" in capsys.readouterr().err
    (tmp_path / "config.yaml").write_text((run / "config.yaml").read_text())
    for which in ("last", "best"):
        assert main([str(tmp_path), "--checkpoint", which]) == 2
        assert "checkpoint" in capsys.readouterr().err


def copied(run: Path, target: Path, text: str | None = None, **content) -> Path:
    """The run in another pool, with parts of its checkpoint and the text of its data exchanged."""
    folder = target / "cell"
    folder.mkdir(parents=True)
    cfg = OmegaConf.load(run / "config.yaml")
    if text is not None:
        cfg.data.path = str(target / "other.txt")
        (target / "other.txt").write_text(text)
    OmegaConf.save(cfg, folder / "config.yaml")
    state = torch.load(run / "checkpoints" / "last.pt", weights_only=True) | content
    checkpoint.write(folder / "checkpoints" / "last.pt", state)
    return folder


def test_without_prepared_data_the_text_is_prepared_again(run, tmp_path):
    assert load_run(copied(run, tmp_path))[1].hash == load_run(run)[1].hash


@pytest.mark.parametrize(
    "text", ["completely other letters: ABCDEFG\n" * 40, "the quick brown fix jumps aver the lazy cat?\n" * 50]
)
def test_a_checkpoint_of_another_tokenizer_is_refused_with_vocabularies_and_file(run, tmp_path, text):
    folder = copied(run, tmp_path, text)
    rows = load_run(run)[0].vocab_size
    with pytest.raises(UsageError, match=rf"last\.pt .*vocabulary of {rows}.*largest id"):
        load_run(folder)


def test_a_checkpoint_without_a_tokenizer_hash_is_judged_by_its_vocabulary(run, tmp_path):
    state = torch.load(run / "checkpoints" / "last.pt", weights_only=True)
    del state["tokenizer_hash"]
    short = {k: v[:-1] if "embeddings" in k else v for k, v in state["model"].items()}
    folder = copied(run, tmp_path)
    checkpoint.write(folder / "checkpoints" / "last.pt", state | {"model": short})
    with pytest.raises(UsageError, match="vocabulary"):
        load_run(folder)


def test_a_checkpoint_of_another_architecture_is_refused(run, tmp_path):
    folder = copied(run, tmp_path)
    cfg = OmegaConf.load(folder / "config.yaml")
    cfg.model.n_layers = 3
    OmegaConf.save(cfg, folder / "config.yaml")
    with pytest.raises(UsageError, match=r"does not fit .*layers\.2\."):
        load_run(folder)
