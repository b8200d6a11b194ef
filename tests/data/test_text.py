"""Your own text: one file or a folder, the same on every machine, never in both splits."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from ablab.data.text import _tail, _whole_files, text
from ablab.errors import UsageError


def write(folder, **files):
    for name, content in files.items():
        raw = content if isinstance(content, bytes) else content.encode("utf-8")
        (folder / f"{name}.txt").write_bytes(raw)
    return str(folder)


def test_the_end_of_a_single_file_is_held_out(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("0123456789" * 10)
    split = text(path=str(path), val_fraction=0.29)  # 0.29 * 100 is 28.999... in floating point
    assert (len(split.train[0]), len(split.val[0])) == (71, 29)
    assert split.train[0] + split.val[0] == "0123456789" * 10
    assert split.held_out == "the last 29 of 100 characters" and split.notes == ()


def test_whole_files_in_order_of_their_names(tmp_path):
    (tmp_path / "sub").mkdir()
    folder = write(tmp_path, a="A" * 50, b="B" * 40, z="Z" * 10, B="b" * 10)
    write(tmp_path / "sub", c="C" * 5)
    split = text(path=folder, val_fraction=0.1)
    assert [document[0] for document in split.train] == ["b", "A", "B", "C"]  # B.txt a.txt b.txt sub/c.txt
    assert split.val == ["Z" * 10]
    assert split.held_out == "the last 1 of 5 files, from z.txt on"


@pytest.mark.parametrize("sizes", [(100, 1), (1, 100), (50, 50)])
def test_a_folder_whose_files_do_not_allow_it_is_cut_at_its_end(tmp_path, sizes):
    folder = write(tmp_path, a="A" * sizes[0], b="B" * sizes[1])
    split = text(path=folder, val_fraction=0.1)
    total = sum(sizes)
    assert sum(map(len, split.val)) == total // 10
    assert "".join(split.train + split.val) == "A" * sizes[0] + "B" * sizes[1]


@given(
    st.lists(st.text("abc", min_size=1, max_size=30), min_size=2, max_size=8, unique=True),
    st.floats(0.01, 0.99),
)
def test_every_character_is_in_exactly_one_split(documents, fraction):
    named = {str(i): document for i, document in enumerate(documents)}
    for split in (_tail(named, fraction, []), _whole_files(named, fraction, [])):
        if split is not None:
            assert "".join(split.train + split.val) == "".join(documents)
            assert all(split.train) and all(split.val)


def test_a_repeated_file_cannot_be_in_both_splits(tmp_path):
    folder = write(tmp_path, a="one " * 20, b="two " * 20, c="", d="one " * 20)
    split = text(path=folder, val_fraction=0.5)
    assert (split.train, split.val) == (["one " * 20], ["two " * 20])
    assert split.notes == (
        "1 of 4 files had no text",
        "1 of 4 files repeated another file word for word and was left out",
    )


def test_other_files_and_hidden_ones_are_not_read(tmp_path):
    (tmp_path / ".hidden").mkdir()
    write(tmp_path / ".hidden", x="x" * 50)
    folder = write(tmp_path, a="a" * 50, b="b" * 50)
    (tmp_path / "._b.txt").write_bytes(b"\x00\xff")
    (tmp_path / "notes.md").write_text("m" * 50)
    (tmp_path / "C.TXT").write_text("c" * 10)
    split = text(path=folder, val_fraction=0.5)
    assert "".join(split.train + split.val) == "c" * 10 + "a" * 50 + "b" * 50


@pytest.mark.parametrize(("end", "mark"), [("\r\n", ""), ("\r", ""), ("\n", "\ufeff"), ("\r\n", "\ufeff")])
def test_line_ends_and_byte_order_mark_change_nothing_and_are_said(tmp_path, end, mark):
    lines = ["é漢😀", "", "two"] * 20
    folder = tmp_path / "x"
    folder.mkdir()
    write(folder, lf="\n".join(lines), other=mark + end.join(["other", *lines]))
    split = text(path=str(folder / "other.txt"))
    assert "".join(split.train + split.val) == "\n".join(["other", *lines])
    assert any("CRLF" in note for note in split.notes) == ("\r" in end)
    assert any("byte order mark" in note for note in split.notes) == bool(mark)
    assert text(path=str(folder / "lf.txt")).notes == ()


@pytest.mark.parametrize("prefix", [b"", b"\xef\xbb\xbf"])
def test_a_byte_that_is_not_utf8_is_named_with_its_offset_in_the_file(tmp_path, prefix):
    write(tmp_path, bad=prefix + b"a" * (1000 - len(prefix)) + b"\x92 is cp1252")
    with pytest.raises(UsageError, match=r"bad\.txt' is not UTF-8: byte 0x92 at offset 1000"):
        text(path=str(tmp_path / "bad.txt"))


def test_what_is_no_text_is_refused(tmp_path):
    with pytest.raises(UsageError, match=r"data\.path is not set"):
        text()
    with pytest.raises(UsageError, match=r"data\.path: no file or folder 'nope\.txt'"):
        text(path="nope.txt")
    with pytest.raises(UsageError, match=r"data\.path: the folder '.*' holds no \.txt file"):
        text(path=str(tmp_path))


@pytest.mark.parametrize("fraction", [0, 0.0, 1, 1.0, -0.1, 2, True, "abc", None, float("nan")])
def test_a_fraction_outside_its_range_is_refused(tmp_path, fraction):
    path = tmp_path / "a.txt"
    path.write_text("abc")
    with pytest.raises(UsageError, match=r"data\.val_fraction"):
        text(path=str(path), val_fraction=fraction)
