"""Sentences and how values are written: in words, in Markdown, LaTeX and CSV."""

from __future__ import annotations

import math

import pytest

from ablab.analysis import words
from ablab.analysis.cells import Row
from ablab.analysis.document import (
    Column,
    Grid,
    compact,
    count,
    duration,
    fixed,
    interval,
    listed,
    p_value,
    short_count,
)
from ablab.analysis.levels import default_level, label, natural, ordered, spans, text
from ablab.analysis.pages import noise
from ablab.analysis.render_html import inline
from ablab.analysis.render_text import cell, csv_text, escape, latex
from ablab.analysis.report import read_facts


@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("python run.py -m norm=rms,layer", "python run.py -m norm=rms,layer seed=0,1,2"),
        ("python run.py -m norm=rms,layer seed=0", "python run.py -m norm=rms,layer seed=0,1,2"),
        ("python run.py -m seed=0 norm=rms 'note=\"a  b\"'", "python run.py -m norm=rms 'note=\"a  b\"' seed=0,1,2"),
        ("python run.py norm=rms", "python run.py -m norm=rms seed=0,1,2"),
        ("python run.py", "python run.py -m seed=0,1,2"),
        ("ablab experiment=norm_ffn seed=0", "ablab experiment=norm_ffn seed=0,1,2"),
        ("ablab --multirun norm=rms", "ablab --multirun norm=rms seed=0,1,2"),
        ("python run.py -m seeds.salt=0,1", "python run.py -m seeds.salt=0,1 seed=0,1,2"),
        (None, None),
    ],
)
def test_the_command_with_more_seeds(command: str | None, expected: str | None) -> None:
    assert words.more_seeds(command, [0, 1, 2]) == expected


@pytest.mark.parametrize(
    ("verdict", "practical", "ci", "expected"),
    [
        ("better", "yes", [-0.03, -0.01], "better, and beyond the margin of ±0.005"),
        ("better", "no", [-0.004, -0.001], "better, but smaller than the margin of ±0.005"),
        ("worse", "unclear", [0.001, 0.01], "worse; whether it exceeds the margin of ±0.005 is open"),
        ("equivalent", "no", [-0.002, 0.003], "equivalent within ±0.005"),
        ("inconclusive", "unclear", [-0.02, 0.02], "inconclusive ("),
        ("inconclusive", "unclear", None, "no verdict with fewer than three seeds"),
    ],
)
def test_a_verdict_in_words(verdict: str, practical: str, ci: list[float] | None, expected: str) -> None:
    base = Row("norm=rms,ffn=relu", {"norm": "rms", "ffn": "relu"}, {}, [])
    row = Row("norm=layer,ffn=relu", {"norm": "layer", "ffn": "relu"}, {}, [])
    item = {"n_pairs": 3, "difference": 0.0, "ci": ci, "p_adjusted": 0.00001, "verdict": verdict, "practical": practical,
            "n_needed": 12}  # fmt: skip
    sentence = words.verdict(item, row, base, 0.005)
    assert sentence.startswith("layer instead of rms: ") and expected in sentence
    assert ("about 12 seeds would settle it" in sentence) == (verdict == "inconclusive" and ci is not None)
    assert ci is None or "p < 0.0001" in sentence


def test_a_number_is_named_with_its_key() -> None:
    base = Row("", {"optimizer.lr": 1e-3, "position": "none"}, {}, [])
    row = Row("", {"optimizer.lr": 1e-4, "position": "none"}, {}, [])
    assert words.swap(row, base) == "optimizer.lr=0.0001 instead of optimizer.lr=0.001"


def test_levels_sort_as_people_sort_them() -> None:
    assert ordered("x", ["v10", "v9", "v2"]) == ["v2", "v9", "v10"]
    assert ordered("optimizer.lr", [1e-3, 3e-5, 1e-4]) == [3e-5, 1e-4, 1e-3]
    assert ordered("norm", ["zeta", "identity", "rms", "layer"]) == ["rms", "layer", "identity", "zeta"]
    assert sorted(["a10", "a9"], key=natural) == ["a9", "a10"]
    assert default_level("position", ["none", "rope"]) == "rope" and default_level("x", [10, 9]) == 9


@pytest.mark.parametrize(
    ("level", "written"),
    [
        (1e-3, "0.001"),
        (3e-5, "3e-05"),
        (None, "null"),
        (True, "true"),
        ([0.9, 0.95], "[0.9,0.95]"),
        ("none", "none"),
        (2.0, "2"),
    ],
)
def test_levels_are_written_one_way(level: object, written: str) -> None:
    assert text(level) == written and label({"k": level}) == f"k={written}"


def test_numbers_are_written_for_people() -> None:
    assert fixed(2, signed=True)(-1.005) == "−1.00" and fixed(2)(None) == "—" and fixed(1)(math.inf) == "∞"
    assert fixed(1)(math.nan) == "—" and interval(2)([-1, 2]) == "[−1.00, +2.00]" and interval()(None) == "—"
    assert [p_value(p) for p in (1e-9, 0.0214, 0.5, None)] == ["< 0.0001", "0.0214", "0.50", "—"]
    assert [count(n) for n in (1234567, None)] == ["1,234,567", "—"]
    assert [short_count(n) for n in (8.1e6, 999, 2e12, None)] == ["8.1 M", "999", "2 T", "—"]
    assert [duration(s) for s in (12.3, 600, 7200, None)] == ["12 s", "10 min", "2.0 h", "—"]
    assert [listed(x) for x in ([], ["a"], ["a", "b"], ["a", "b", "c"])] == ["", "a", "a and b", "a, b and c"]
    assert spans([4, 0, 1, 2, 8, 9]) == "0–2, 4, 8, 9"


def test_tables_escape_what_their_format_reads() -> None:
    grid = Grid("t", [Column("a|b"), Column("x", fixed(2), True)], [["50% of_a & <b>\n#1", 1.23456], ["`c|d`", None]])
    assert cell("a|b `c|d`") == "a\\|b `c\\|d`"
    assert escape("*a* [b](c) <i> `x*y`") == "\\*a\\* \\[b\\](c) \\<i\\> `x*y`"
    assert csv_text(grid) == 'a|b,x\n"50% of_a & <b>\n#1",1.23456\n`c|d`,\n'
    assert "50\\% of\\_a \\& $<$b$>$" in latex(grid) and "--- \\\\" in latex(grid)
    assert inline("a <b> `c<d`") == "a &lt;b&gt; <code>c&lt;d</code>"


def test_empty_columns_vanish() -> None:
    grid = compact("t", [Column("a"), Column("b"), Column("c")], [[1, None, 0], [2, "", None]])
    assert [column.title for column in grid.columns] == ["a", "c"] and grid.rows == [[1, 0], [2, None]]


def test_pairs_of_one_variant_with_itself_give_the_noise_floor(pool) -> None:
    for salt, shift in ((0, 0.0), (1, 0.01)):
        for seed in range(3):
            pool.run({"norm": "rms"}, seed, 1.5 + shift * (seed - 1), name=f"salt{salt}-{seed}",
                     config={"seeds": {"salt": salt}})  # fmt: skip
    lines = noise.same_variant(read_facts([pool.root]))
    assert lines[0].startswith("Noise floor: 3 pairs that differ in their initial weights alone")
    assert "standard deviation of 0.0100 nats (interval 0.00" in lines[0] and lines[0].endswith("0.0100 at most")
    assert lines[1] == "0 of 1 comparisons of a variant with itself was called different: as it should be"


def test_no_such_pairs_no_noise_floor(pool) -> None:
    pool.run({"norm": "rms"})
    pool.run({"norm": "layer"})
    assert noise.same_variant(read_facts([pool.root])) == []
