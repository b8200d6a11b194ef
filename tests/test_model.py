from __future__ import annotations

import io
import math
from itertools import combinations

import pytest
import torch
import torch.nn.functional as F
from components.cells import ALL, CELLS, VOCAB, config, name
from omegaconf import OmegaConf
from torch import Tensor

from ablab import UsageError, build_model, compose
from ablab.components.context import Context
from ablab.initialise import matrices
from ablab.matching import resolved_d_ff
from ablab.model import DecoderLM

every_cell = pytest.mark.parametrize("cell", CELLS, ids=name)


def ids(batch: int = 2, length: int = 16, vocab: int = VOCAB, seed: int = 0) -> Tensor:
    return torch.randint(vocab, (batch, length), generator=torch.Generator().manual_seed(seed))


def build(**changes) -> DecoderLM:
    return build_model(config(**changes), VOCAB)


def loosened(model: DecoderLM) -> DecoderLM:
    """Weights so large that nothing the model does is hidden by small numbers."""
    with torch.no_grad():
        for p in model.parameters():
            p.mul_(8.0) if p.dim() > 1 else p.add_(0.3 * torch.randn(p.shape))
    return model


@every_cell
def test_state_dict_has_the_documented_keys_and_no_other(cell):
    leaves = {"rms": ["weight"], "layer": ["weight", "bias"], "identity": []}[cell["norm"]]
    keys = ["token_embeddings.weight"] + (["lm_head.weight"] if cell["embedding"] == "untied" else [])
    norms = [f"layers.{i}.{n}" for i in range(2) for n in ("ln1", "ln2")]
    norms += ["ln_final"] if cell["block"] == "pre_norm" else []
    keys += [f"{n}.{leaf}" for n in norms for leaf in leaves]
    keys += [f"layers.{i}.attn.{n}_proj.weight" for i in range(2) for n in ("q", "k", "v", "output")]
    keys += [
        f"layers.{i}.ffn.{n}.weight" for i in range(2) for n in ("w1", "w2", "w3")[: 2 + (cell["ffn"] == "swiglu")]
    ]
    assert sorted(build(**cell).state_dict()) == sorted(keys)


@every_cell
def test_norms_are_called_as_often_as_the_placement_says(cell):
    model, called = build(**cell), []
    for label, module in model.named_modules():
        if "Norm" in type(module).__name__ and "ln" in label:
            module.register_forward_hook(lambda *_, label=label: called.append(label))
    model(ids())
    assert len(called) == {"identity": 0}.get(cell["norm"], 5 if cell["block"] == "pre_norm" else 4)


@pytest.mark.parametrize(("final_norm", "count"), [(None, 4), (True, 5), (False, 4)])
def test_final_norm_can_be_asked_for(final_norm, count):
    model = build(block="post_norm", final_norm=final_norm)
    assert sum("ln" in n.rsplit(".", 1)[-1] for n, _ in model.named_modules()) == count
    assert "ln_final.weight" not in build(block="pre_norm", final_norm=False).state_dict()


@every_cell
def test_the_past_does_not_see_the_future(cell):
    model, before = loosened(build(**cell)), ids()
    after = before.clone()
    after[:, 9:] = (after[:, 9:] + 1) % VOCAB
    with torch.no_grad():
        a, b = model(before), model(after)
    torch.testing.assert_close(a[:, :9], b[:, :9], rtol=0, atol=1e-5)
    assert not torch.allclose(a[:, 9:], b[:, 9:], atol=1e-2)


@every_cell
def test_position_is_known_to_rope_and_unknown_to_none(cell):
    model = loosened(build(**cell)).double()
    swapped = ids(1, 6)
    swapped[0, :2] = torch.tensor([3, 4])
    other = swapped.clone()
    other[0, :2] = torch.tensor([4, 3])
    with torch.no_grad():
        same = torch.allclose(model(swapped)[:, -1], model(other)[:, -1], atol=1e-9)
    # One layer of causal attention without positions is blind to order; deeper ones see it through the mask.
    one = build_model(config(**cell, n_layers=1), VOCAB)
    one = loosened(one).double()
    with torch.no_grad():
        blind = torch.allclose(one(swapped)[:, -1], one(other)[:, -1], atol=1e-9)
    assert blind == (cell["position"] == "none")
    assert not same


def test_no_two_cells_are_the_same_function_and_identity_has_no_placement():
    def outputs(cell: dict[str, str]) -> Tensor:
        # Trained a little, so that gains and biases count: at their start LayerNorm x anything could hide.
        model = build(**cell)
        with torch.no_grad():
            for key, p in model.named_parameters():
                p.add_(0.2 * torch.randn(p.shape, generator=torch.Generator().manual_seed(len(key))))
            return model(ids())

    found = {name(cell): outputs(cell) for cell in ALL}
    merged = [c for c in ALL if c not in CELLS]
    assert len(CELLS) == 40 and len(merged) == 8
    for cell in merged:
        torch.testing.assert_close(found[name(cell)], found[name(cell | {"block": "pre_norm"})], rtol=0, atol=0)
    for a, b in combinations([name(c) for c in CELLS], 2):
        assert not torch.allclose(found[a], found[b], atol=1e-3), f"{a} and {b} compute the same"


@every_cell
def test_the_first_loss_is_that_of_a_guess_at_demo_size(cell):
    model = build_model(config("demo", **cell), 84)
    with torch.no_grad():
        total, count = model.loss(ids(4, 64, 84), ids(4, 64, 84, seed=1))
    assert abs(total / count - math.log(84)) < 0.3


@pytest.mark.parametrize("embedding", ["untied", "tied"])
@pytest.mark.parametrize(("norm", "block"), [("rms", "post_norm"), ("layer", "pre_norm"), ("identity", "pre_norm")])
def test_the_first_loss_is_that_of_a_guess_at_the_size_of_cs336(norm, block, embedding):
    model = build_model(config("cs336", norm=norm, block=block, embedding=embedding), 10_000)
    with torch.no_grad():
        total, count = model.loss(ids(2, 32, 10_000), ids(2, 32, 10_000, seed=1))
    assert abs(total / count - math.log(10_000)) < 0.3


def test_the_first_loss_is_that_of_a_guess_in_the_worst_cell_of_gpt2_small():
    # a small vocabulary for speed: the spread of a logit, and so the excess over ln V, does not depend on it
    model = build_model(config("gpt2_small", block="post_norm", embedding="tied"), 2_000)
    with torch.no_grad():
        total, count = model.loss(ids(1, 64, 2_000), ids(1, 64, 2_000, seed=1))
    assert abs(total / count - math.log(2_000)) < 0.3


def test_what_two_variants_share_starts_bit_equal_whatever_else_they_have():
    base = build().state_dict()
    for cell in ALL:
        other = build(**cell).state_dict()
        shared = [k for k in base if k in other and base[k].shape == other[k].shape]
        assert len(shared) >= 9
        assert all(torch.equal(base[k], other[k]) for k in shared)
    deeper = build(n_layers=2, init={"std": 0.02}, dropout=0.5).state_dict()
    assert all(torch.equal(base[k], deeper[k]) for k in base)


def test_seed_and_salt_each_change_every_matrix():
    base = build()
    for other in (build(seed=1), build(salt=1)):
        for key in matrices(base):
            assert not torch.equal(base.state_dict()[key], other.state_dict()[key])
    names = [p for p in base.state_dict().values() if p.shape == (32, 32)]
    assert all(not torch.equal(a, b) for a, b in combinations(names, 2))


def test_building_leaves_the_global_random_state_alone():
    torch.manual_seed(3)
    want = torch.rand(2)
    torch.manual_seed(3)
    build(dropout=0.5, ffn="test_biased")
    torch.testing.assert_close(torch.rand(2), want, rtol=0, atol=0)


def test_writers_to_the_residual_stream_are_scaled_and_only_they():
    model = build(n_layers=8, d_model=64)
    spread = {key: p.std().item() for key, (p, _) in matrices(model).items()}
    for key, std in spread.items():
        want = 0.02 / 4 if key.endswith(("output_proj.weight", "w2.weight")) else 0.02
        assert std == pytest.approx(want, rel=0.1), key


@pytest.mark.parametrize("assign", [False, True])
def test_tied_is_one_matrix_still_after_a_checkpoint(assign):
    model = loosened(build(embedding="tied"))
    file = io.BytesIO()
    torch.save(model.state_dict(), file)
    file.seek(0)
    state = torch.load(file, weights_only=True)
    other = build(embedding="tied", seed=5)
    other.load_state_dict(state, assign=assign)
    assert other.lm_head.weight.data_ptr() == other.token_embeddings.weight.data_ptr()
    assert len(list(other.parameters())) == len(state)
    torch.testing.assert_close(other(ids()), model(ids()), rtol=0, atol=0)
    other.double()
    assert other.lm_head.weight is other.token_embeddings.weight


@every_cell
def test_loss_is_the_mean_over_targets_of_the_logits_given(cell):
    model, targets = loosened(build(**cell)), ids(seed=1)
    targets[0, :5] = -100
    total, count = model.loss(ids(), targets)
    assert total.dtype == torch.float32 and count.item() == targets.numel() - 5
    logits = model(ids()).double().log_softmax(-1)
    kept = targets != -100
    want = -logits[kept].gather(-1, targets[kept][:, None]).sum()
    torch.testing.assert_close(total.double(), want, rtol=1e-5, atol=0)


@every_cell
def test_every_parameter_is_trained(cell):
    model = loosened(build(**cell))
    model.loss(ids(8), ids(8, seed=1))[0].backward()
    for key, p in model.named_parameters():
        assert p.grad is not None and p.grad.abs().max() > 0, key


def test_dropout_acts_in_training_only_and_on_attention_too():
    model = loosened(build(dropout=0.5))
    assert not torch.allclose(model(ids()), model(ids()))
    seen = []
    model.layers[0].attn.register_forward_pre_hook(lambda _, inputs: seen.append(inputs[1].dropout))
    model.train()(ids())
    model.eval()
    torch.testing.assert_close(model(ids()), model(ids()), rtol=0, atol=0)
    torch.testing.assert_close(model(ids()), loosened_twin(model)(ids()), rtol=0, atol=0)
    assert seen[0] == 0.5 and set(seen[1:]) == {0.0}
    attn, x = model.layers[0].attn, torch.randn(2, 16, 32)
    on, off = (Context(model.position, model.position.tables(torch.arange(16)), dropout=p) for p in (0.5, 0.0))
    assert not torch.allclose(attn(x, on), attn(x, off))


def loosened_twin(model: DecoderLM) -> DecoderLM:
    twin = build(dropout=0.0)
    twin.load_state_dict(model.state_dict())
    return twin


@pytest.mark.parametrize("position", ["rope", "none"])
def test_more_tokens_than_the_context_are_refused_by_name(position):
    model = build(position=position)
    model(ids(length=16))
    with pytest.raises(UsageError, match=r"17 tokens .*model\.context_length=16"):
        model(ids(length=17))
    cache = model.new_cache()
    model(ids(length=16), cache=cache)
    with pytest.raises(UsageError, match=r"model\.context_length=16"):
        model(ids(length=1), cache=cache)


@pytest.mark.parametrize("bad", [VOCAB, -1])
def test_ids_outside_the_vocabulary_are_refused_by_name(bad):
    tokens = ids()
    tokens[1, 3] = bad
    for call in (build(), lambda x: build().loss(x, ids())):
        with pytest.raises(UsageError, match=rf"{bad} .*{VOCAB}"):
            call(tokens)


@pytest.mark.parametrize(
    ("changes", "words"),
    [
        ({"d_model": 30}, ["model.d_model=30", "model.n_heads=4"]),
        ({"d_model": 36}, ["model.d_model=36", "model.n_heads=4", "9"]),
        ({"n_layers": 0}, ["model.n_layers", "0"]),
        ({"context_length": 0}, ["model.context_length", "0"]),
        ({"dropout": 1.0}, ["model.dropout", "1.0"]),
        ({"ffn": {"d_ff": -1}}, ["ffn.d_ff", "-1"]),
        ({"ffn_width": 0}, ["model.ffn_width", "0"]),
        ({"norm": "rns"}, ["rns", "rms", "layer", "identity"]),
    ],
)
def test_sizes_that_do_not_fit_are_refused_by_name(changes, words):
    cfg = config(**{k: v for k, v in changes.items() if k != "norm" or v in ("rms", "layer")})
    cfg.choices.update({k: v for k, v in changes.items() if k == "norm"})
    with pytest.raises(UsageError) as error:
        build_model(cfg, VOCAB)
    assert all(word in str(error.value) for word in words)


def test_a_vocabulary_of_nothing_is_refused():
    with pytest.raises(UsageError, match="vocabulary"):
        build_model(config(), 0)


def test_a_users_ffn_is_matched_counted_initialised_and_paired():
    cfg = config(d_model=64, ffn="test_biased")
    model, reference = build_model(cfg, VOCAB), build_model(config(d_model=64), VOCAB)

    def count(m: DecoderLM) -> int:
        return sum(p.numel() for p in m.layers[0].ffn.parameters())

    assert resolved_d_ff(cfg, VOCAB) == model.layers[0].ffn.up.out_features == 285  # (36864 - 128) / 129
    assert abs(count(model) - count(reference)) <= (2 * 64 + 1) / 2
    ffn = model.layers[1].ffn
    assert ffn.up.bias.abs().max() == 0 and ffn.down.bias.abs().max() == 0
    assert ffn.down.weight.std().item() == pytest.approx(0.01, rel=0.05)  # found to write to the stream
    assert ffn.up.weight.std().item() == pytest.approx(0.02, rel=0.05)
    again = build_model(config(d_model=64, ffn="test_biased", norm="layer", position="none"), VOCAB)
    assert torch.equal(ffn.gain, again.layers[1].ffn.gain)
    assert not torch.equal(ffn.gain, model.layers[0].ffn.gain)
    model.loss(ids(), ids(seed=1))[0].backward()
    assert all(p.grad is not None for p in model.parameters())


def test_a_users_norm_keeps_the_start_its_class_gives_it():
    model = build(norm="test_scalar")
    norm = model.layers[0].ln1
    assert norm.alpha.item() == pytest.approx(0.7) and torch.equal(norm.mix, torch.eye(32))
    assert "layers.0.ln1.mix" not in matrices(model)


def test_options_reach_their_components():
    model = build_model(config(norm={"eps": 1e-2}, position={"theta": 7.0}, ffn={"d_ff": 9}), VOCAB)
    assert {m.eps for m in model.modules() if hasattr(m, "eps")} == {1e-2}
    assert model.position.theta == 7.0
    assert model.layers[1].ffn.w1.out_features == 9
    model = build_model(config(ffn_width=10), VOCAB)
    assert model.layers[0].ffn.w3.out_features == 10


def test_a_composed_config_builds_the_same_model_as_a_plain_mapping():
    cfg = compose(["norm=layer", "ffn=relu", "model.d_model=64"])
    model = build_model(cfg, vocab_size=1000)
    twin = build_model(OmegaConf.to_container(cfg, resolve=True), vocab_size=1000)
    assert model.layers[0].ffn.w1.out_features == 288
    assert all(torch.equal(a, b) for a, b in zip(model.parameters(), twin.parameters(), strict=True))
    with torch.no_grad():
        assert model(ids()).shape == (2, 16, 1000)


def test_autocast_and_bfloat16_stay_close_to_float32():
    model = loosened(build())
    with torch.no_grad():
        want = model.loss(ids(), ids(seed=1))[0]
        with torch.autocast("cpu", dtype=torch.bfloat16):
            cast = model.loss(ids(), ids(seed=1))[0]
        half = model.bfloat16().loss(ids(), ids(seed=1))[0]
    assert cast.dtype == half.dtype == torch.float32
    assert abs(cast / want - 1) < 0.02 and abs(half / want - 1) < 0.02


@pytest.mark.parametrize(("cell", "whole"), [(CELLS[0], False), (CELLS[1], True)], ids=str)
def test_a_compiler_sees_one_graph_and_gives_the_same(cell, whole):
    torch._dynamo.reset()
    model = loosened(build(**cell, n_layers=1 if whole else 2))
    plain = torch.autograd.grad(model.loss(ids(), ids(seed=1))[0], list(model.parameters()))
    for part in (model,) if whole else model.layers:
        part.compile(fullgraph=True, dynamic=False, backend="aot_eager")
    compiled = torch.autograd.grad(
        F.cross_entropy(model(ids()).flatten(0, 1), ids(seed=1).flatten(), reduction="sum"), list(model.parameters())
    )
    for a, b in zip(compiled, plain, strict=True):
        torch.testing.assert_close(a, b, rtol=1e-3, atol=1e-3)
