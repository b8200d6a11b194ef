"""Variants that read other tokens: bits per byte where one text allows it, no comparison where none does."""

from __future__ import annotations

import pytest

from ablab.analysis.pages.build import document
from ablab.analysis.render_text import markdown
from ablab.analysis.report import read_facts


def tokenizers(pool, sizes: tuple[int | None, int | None], data: tuple[str, str] = ("kjv", "kjv")) -> None:
    """Characters against byte pairs: three seeds each; losses per token differ, bits per byte nearly not."""
    for name, scale, size, corpus in (("char", 1.0, sizes[0], data[0]), ("bpe", 3.0, sizes[1], data[1])):
        for seed in range(3):
            rows = [{"step": step, "tokens": step * 8, "val/loss": scale * (2 - step / 100) + seed / 100,
                     "val/bits_per_byte": 2.0 + seed / 100 - step / 100 + 0.05 * (name == "bpe") + seed * seed / 1e4}
                    for step in (0, 30, 60)]  # fmt: skip
            pool.run({"norm": "rms", "data": corpus}, seed, name=f"{name}-{seed}", rows=rows, config={"data": {"tokenizer": name}},
                     status={"data_hash": name * 16, "val_bytes": size, "batch_hash": name + str(seed)})  # fmt: skip


def test_one_text_is_compared_in_bits_per_byte(pool) -> None:
    tokenizers(pool, (130000, 130000))
    facts = read_facts([pool.root])
    report = facts.report
    assert report["metric"] == "val/bits_per_byte"
    assert report["comparisons"][0]["difference"] == pytest.approx(-0.05) and report["baseline"] == {
        "data.tokenizer": "bpe"
    }
    assert any("bits per byte" in line for line in report["warnings"])
    assert not any("batch_hash" in line for line in report["warnings"])
    text = markdown(document(facts, ()))
    assert (
        "char instead of bpe" in text
        and "−0.0500 bits per byte" in text
        and "nats per token" not in text.split("## Cells")[0]
    )


@pytest.mark.parametrize(
    ("sizes", "data"), [((130000, 99), ("kjv", "kjv")), ((None, None), ("kjv", "kjv")), ((7, 7), ("kjv", "text"))]
)
def test_without_one_text_nothing_is_judged(pool, sizes, data) -> None:
    tokenizers(pool, sizes, data)
    facts = read_facts([pool.root])
    assert facts.report["comparisons"] == [] and facts.report["main_effects"] == []
    assert any("do not compare" in line for line in facts.report["warnings"])
    assert "do not compare" in markdown(document(facts, ())).split("## Declared plan")[0]


def test_other_data_under_one_name_is_kept_apart(pool) -> None:
    for norm, hashed in (("rms", "a"), ("layer", "b"), ("mine", "a")):
        pool.run({"norm": norm}, 0, 1.5 + len(norm) / 100, status={"data_hash": hashed * 64})
    report = read_facts([pool.root]).report
    assert [(item["label"], item["baseline"]) for item in report["comparisons"]] == [
        ("norm=mine [data_hash=aaaaaaaa]", "norm=rms [data_hash=aaaaaaaa]")
    ]
    assert any("data_hash" in line for line in report["warnings"])
