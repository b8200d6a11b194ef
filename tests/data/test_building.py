"""From config to token files: built once, found by content, the same everywhere."""

from __future__ import annotations

import logging
import os
import subprocess
import sys
import time
from concurrent.futures import ThreadPoolExecutor

import numpy as np
import pytest
from omegaconf import OmegaConf

from ablab.data import batch_hash, building, prepare
from ablab.data.batches import Batches
from ablab.data.windows import eval_windows
from ablab.errors import UsageError


def config(path, **options):
    data = {"path": str(path), "tokenizer": "char", "vocab_size": None, "val_fraction": 0.1, **options}
    return OmegaConf.create({"choices": {"data": "text"}, "data": data})


@pytest.fixture
def fox(tmp_path):
    path = tmp_path / "fox.txt"
    path.write_text("the quick brown fox jumps over the lazy dog\n" * 50)
    return path


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_tokens_are_the_text(tmp_path, tokenizer):
    text = "Ünïcödé 漢字 😀 and plain words, again and again\n" * 40
    (tmp_path / "a.txt").write_bytes(text.encode())
    data = prepare(config(tmp_path / "a.txt", tokenizer=tokenizer, vocab_size=400), tmp_path / "cache")
    assert data.tokenizer.decode(data.train) + data.tokenizer.decode(data.val) == text
    assert data.train_bytes + data.val_bytes == len(text.encode())
    assert data.vocab_size == 400 and data.train.dtype == np.uint16 and isinstance(data.val, np.memmap)
    facts = data.describe()
    assert facts["corpus"] == "text" and facts["tokenizer"] == tokenizer and facts["hash"] == data.hash
    assert facts["train"]["tokens"] == len(data.train) and facts["held_out"].endswith("characters")
    assert facts["train"]["characters"] + facts["val"]["characters"] == len(text)


@pytest.mark.parametrize("tokenizer", ["char", "byte", "bpe"])
def test_documents_are_joined_by_end_of_text(tmp_path, tokenizer):
    folder = tmp_path / "texts"
    folder.mkdir()
    for name in "abcd":
        (folder / f"{name}.txt").write_text(name * 10 + "abcd")
    data = prepare(config(folder, tokenizer=tokenizer, vocab_size=300, val_fraction=0.5), tmp_path / "cache")
    assert data.tokenizer.decode(data.train) == "aaaaaaaaaaabcd<|endoftext|>bbbbbbbbbbabcd"
    assert data.tokenizer.decode(data.val) == "ccccccccccabcd<|endoftext|>ddddddddddabcd"
    assert (data.train == data.tokenizer.eot_id).sum() == 1
    assert data.train_bytes == 28  # end of text is no text


def test_a_folder_is_built_once_and_a_changed_text_or_option_gets_another(fox, tmp_path, monkeypatch):
    cache = tmp_path / "cache"
    first = prepare(config(fox), cache)
    monkeypatch.setattr(building, "_build", None)  # another build would fail
    again = prepare(config(fox), cache)
    assert (again.folder, again.hash, again.describe()) == (first.folder, first.hash, first.describe())
    monkeypatch.undo()
    with open(fox, "a") as file:
        file.write("!")
    others = [
        prepare(config(fox, **options), cache)
        for options in ({}, {"vocab_size": 40}, {"tokenizer": "byte"}, {"val_fraction": 0.2})
    ]
    assert len({data.folder for data in [first, *others]}) == len({data.hash for data in [first, *others]}) == 5
    assert all("fox" not in data.folder.name and data.folder.parent == cache / "tokens" for data in others)


def test_a_copy_with_other_line_ends_or_mark_is_the_same_data(tmp_path):
    lines = [f"line {i} é漢😀" for i in range(50)]
    hashes = set()
    for name, end, mark in (("lf", "\n", ""), ("crlf", "\r\n", ""), ("bom", "\n", "\ufeff")):
        path = tmp_path / f"{name}.txt"
        path.write_bytes((mark + end.join(lines)).encode())
        data = prepare(config(path), tmp_path / "cache")
        hashes.add(data.hash)
        assert "\r" not in data.tokenizer.characters and "\ufeff" not in data.tokenizer.characters
        assert len(data.notes) == (name != "lf")
    assert len(hashes) == 1


def test_the_vocabulary_is_of_the_training_text_and_the_rest_is_counted_and_said(tmp_path, caplog):
    path = tmp_path / "a.txt"
    path.write_text("ab" * 45 + "abéé漢abaaa", encoding="utf-8")  # the last 10 are held out
    with caplog.at_level(logging.WARNING):
        data = prepare(config(path), tmp_path / "cache")
    assert data.tokenizer.characters == "ab"
    assert (data.val == data.tokenizer.unk_id).sum() == data.describe()["unknown"] == 3
    said = "3 characters of the validation text never occur in training and became <unk>: 'é漢'"
    assert data.notes == (said,) and said in caplog.text
    assert prepare(config(path), tmp_path / "cache").notes == (said,)  # also when found in the cache


def test_a_vocabulary_too_small_for_the_text_is_refused_before_anything_is_left(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(chr(65 + i) for i in range(63)) * 20)
    with pytest.raises(UsageError, match=r"data\.vocab_size=60 .*up to 64"):
        prepare(config(path, vocab_size=60), tmp_path / "cache")
    assert not [entry for entry in (tmp_path / "cache" / "tokens").iterdir() if entry.is_dir()]
    assert prepare(config(path, vocab_size=65), tmp_path / "cache").vocab_size == 65


def test_a_thousand_distinct_tokens_are_split_without_overlap(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(chr(0x4E00 + i) for i in range(1000)), encoding="utf-8")
    data = prepare(config(path), tmp_path / "cache")
    assert not set(data.train.tolist()) & set(data.val.tolist())
    windows = Batches(data.train, 16, 1, order="sequential")
    targets = np.concatenate([windows.step(i)[1][0] for i in range(windows.windows_per_epoch)])
    assert sorted(targets[targets >= 0]) == sorted(data.train[1:])
    assert len(eval_windows(data.val, 16)) == 7


@pytest.mark.parametrize("tokenizer", ["char", "byte"])
def test_the_unigram_entropy_is_that_of_the_training_frequencies(tmp_path, tokenizer):
    path = tmp_path / "a.txt"
    path.write_text("aab" * 30_000)
    data = prepare(config(path, tokenizer=tokenizer), tmp_path / "cache")
    assert data.unigram_entropy == pytest.approx(np.log(3) - 2 / 3 * np.log(2), abs=0.004)


def test_progress_reaches_the_whole_text(fox, tmp_path):
    calls = []
    prepare(config(fox), tmp_path / "cache", progress=lambda done, total: calls.append((done, total)))
    assert calls[-1] == (2200, 2200) and calls == sorted(calls)


@pytest.mark.parametrize(
    ("options", "message"),
    [
        ({"tokenizer": "word/../x"}, r"data\.tokenizer = 'word"),
        ({"vocab_size": "ten"}, r"data\.vocab_size=ten"),
    ],
)
def test_wrong_options_leave_nothing_behind(fox, tmp_path, options, message):
    with pytest.raises(UsageError, match=message):
        prepare(config(fox, **options), tmp_path / "cache")
    assert not (tmp_path / "cache").exists()


def test_a_folder_that_cannot_be_written_is_named(fox, tmp_path):
    (tmp_path / "cache").write_text("a file where the folder should be")
    with pytest.raises(UsageError, match=r"runs_dir: cannot write the token files to .*cache"):
        prepare(config(fox), tmp_path / "cache")


def test_a_build_that_fails_or_was_killed_leaves_no_half_folder(fox, tmp_path, monkeypatch):
    cache = tmp_path / "cache"

    def full(*arguments):
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(building, "write_tokens", full)
    with pytest.raises(UsageError, match="No space left on device"):
        prepare(config(fox), cache)
    monkeypatch.undo()
    assert not [entry for entry in (cache / "tokens").iterdir() if entry.is_dir()]
    folder = prepare(config(fox), cache).folder
    folder.rename(folder.with_name(f".{folder.name}.99999"))  # what a killed process leaves
    assert len(prepare(config(fox), cache).train) == 1980
    assert [entry.name for entry in (cache / "tokens").iterdir() if entry.is_dir()] == [folder.name]


PREPARE = """
import sys
from ablab.data import Batches, batch_hash, prepare
options = {"path": sys.argv[1], "tokenizer": sys.argv[3], "vocab_size": 400}
cfg = {"choices": {"data": "text"}, "data": options}
data = prepare(cfg, sys.argv[2])
assert "torch" not in sys.modules
print(data.hash, batch_hash("", *Batches(data.train, 16, 4, 1).step(7)))
"""


def in_process(path, cache, tokenizer="char", **environment):
    done = subprocess.run(
        [sys.executable, "-c", PREPARE, str(path), str(cache), tokenizer],
        env={**os.environ, **environment},
        capture_output=True,
        text=True,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.split()


@pytest.mark.parametrize("tokenizer", ["char", "bpe"])
def test_ids_do_not_depend_on_the_locale_and_no_torch_is_loaded(tmp_path, tokenizer):
    path = tmp_path / "é漢.txt"
    path.write_bytes("é漢😀 naïve\r\n".encode() * 100)
    here = prepare(config(path, tokenizer=tokenizer, vocab_size=400), tmp_path / "here")
    expected = [here.hash, batch_hash("", *Batches(here.train, 16, 4, 1).step(7))]
    assert in_process(path, tmp_path / "C", tokenizer, LC_ALL="C", PYTHONUTF8="0") == expected


def test_processes_that_build_at_once_share_one_folder(tmp_path):
    path = tmp_path / "a.txt"
    path.write_text("".join(chr(97 + i * i % 26) for i in range(400_000)))
    with ThreadPoolExecutor(3) as pool:
        results = list(pool.map(lambda _: in_process(path, tmp_path / "cache"), range(3)))
    assert results[0] == results[1] == results[2]
    assert len([entry for entry in (tmp_path / "cache" / "tokens").iterdir() if entry.is_dir()]) == 1


def test_whoever_waits_for_a_build_does_not_build_again(fox, tmp_path, monkeypatch):
    built = []
    build = building._build

    def slow(*arguments):
        built.append(arguments[0])
        time.sleep(0.2)  # long enough for the others to arrive
        build(*arguments)

    monkeypatch.setattr(building, "_build", slow)
    with ThreadPoolExecutor(3) as pool:
        hashes = set(pool.map(lambda _: prepare(config(fox), tmp_path / "cache").hash, range(3)))
    assert len(built) == len(hashes) == 1


def test_the_default_corpus_end_to_end(tmp_path):
    cfg = {"choices": {"data": "kjv"}, "data": {"tokenizer": "char"}}
    data = prepare(cfg, tmp_path)
    assert data.vocab_size == 65 and data.describe()["unknown"] == 0
    assert len(data.train) == 4_006_186 + 58 and len(data.val) == data.val_bytes + 6
    assert 2.9 < data.unigram_entropy < 3.1
    assert data.folder.name.startswith("kjv-char-")
    assert data.hash == "022c0f602d2aecd7e8b641646a55d3d70c1da08d9c4e4d69e30252591ed4c8ea"  # the same on every machine
