"""From what was typed to the list of variants."""

from __future__ import annotations

import pytest
from hydra.core.override_parser.overrides_parser import OverridesParser
from hypothesis import given
from hypothesis import strategies as st

from ablab import UsageError
from ablab.study.expand import Axes, axes, parse_assignments, variants

PARSER = OverridesParser.create()


def sorted_out(text: str) -> Axes:
    return axes(text.split(), PARSER)


def test_swept_fixed_and_seeds() -> None:
    found = sorted_out("norm=rms,layer model.d_model=32 seed=2,1 optimizer.lr=1e-3,1e-4 note=x")
    assert dict(found.swept) == {"norm": ("rms", "layer"), "optimizer.lr": ("0.001", "0.0001")}
    assert found.fixed == ("model.d_model=32", "note=x")
    assert found.seeds == ("2", "1")


@pytest.mark.parametrize(
    ("text", "seeds"),
    [
        ("norm=layer", ()),
        ("seed=3", ("3",)),
        ("seed=1,1,2", ("1", "2")),
        ("seed=range(0,3)", ("0", "1", "2")),
        ("seed=1 seed=4,5", ("4", "5")),
    ],
)
def test_seeds(text: str, seeds: tuple[str, ...]) -> None:
    assert sorted_out(text).seeds == seeds


def test_the_last_of_a_key_counts_and_values_are_distinct() -> None:
    assert dict(sorted_out("norm=rms,layer norm=layer,rms,layer").swept) == {"norm": ("layer", "rms")}
    assert sorted_out("norm=rms,layer norm=identity").fixed == ("norm=identity",)


def test_one_value_wrapped_for_hydra_is_fixed() -> None:
    assert sorted_out("ffn.d_ff=choice(128)").fixed == ("ffn.d_ff=128",)
    assert dict(sorted_out("norm=choice(rms)").swept) == {"norm": ("rms",)}  # a factor with one level


def test_no_intervals() -> None:
    with pytest.raises(UsageError, match=r"optimizer\.lr"):
        sorted_out("optimizer.lr=interval(0,1)")


SWEPT = {"norm": ("rms", "layer"), "ffn": ("swiglu", "relu", "gelu")}


def test_a_factorial_in_the_order_typed() -> None:
    assert variants(SWEPT) == [
        (f"norm={norm}", f"ffn={ffn}") for norm in ("rms", "layer") for ffn in ("swiglu", "relu", "gelu")
    ]
    assert variants({}) == [()]


def test_one_at_a_time() -> None:
    base = {"norm": "layer"}
    assert variants(SWEPT, design="one_at_a_time", baseline=base) == [
        ("norm=layer", "ffn=swiglu"),
        ("norm=rms", "ffn=swiglu"),
        ("norm=layer", "ffn=relu"),
        ("norm=layer", "ffn=gelu"),
    ]


@given(st.lists(st.integers(1, 4), min_size=1, max_size=4), st.booleans())
def test_counts(sizes: list[int], tuned: bool) -> None:
    swept = {f"k{i}": [f"v{j}" for j in range(size)] for i, size in enumerate(sizes)}
    product = 1
    for size in sizes:
        product *= size
    assert len(set(variants(swept))) == product
    nuisance = ["k0"] if tuned else []
    rest = sizes[1:] if tuned else sizes
    expected = (1 + sum(size - 1 for size in rest)) * (sizes[0] if tuned else 1)
    assert len(set(variants(swept, design="one_at_a_time", nuisance=nuisance))) == expected


def test_tuned_keys_cross_every_variant_and_arm() -> None:
    swept = {"norm": ("rms", "layer"), "optimizer.lr": ("1e-3", "1e-2")}
    found = variants(
        swept, design="one_at_a_time", nuisance=["optimizer.lr"], arms=["embedding=tied model.ffn_width=96"]
    )
    assert found == [
        (*words, f"optimizer.lr={rate}")
        for words in (("norm=rms",), ("norm=layer",), ("norm=rms", "embedding=tied", "model.ffn_width=96"))
        for rate in ("1e-3", "1e-2")
    ]


def test_a_baseline_must_be_swept() -> None:
    with pytest.raises(UsageError, match=r"study\.baseline: norm=identity is not swept; values of norm: rms, layer"):
        variants(SWEPT, baseline={"norm": "identity"})


def test_assignments() -> None:
    assert parse_assignments("norm=rms,ffn=swiglu", "k") == {"norm": "rms", "ffn": "swiglu"}
    assert parse_assignments("norm=rms ffn=swiglu", "k") == {"norm": "rms", "ffn": "swiglu"}
    assert parse_assignments(None, "k") == {}
    for text in ("norm", "norm=", "=rms"):
        with pytest.raises(UsageError, match=r"study\.baseline"):
            parse_assignments(text, "study.baseline")
