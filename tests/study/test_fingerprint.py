"""A fingerprint follows behaviour, not layout."""

from __future__ import annotations

import importlib
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from ablab.study import fingerprint

SOURCE = '''"""Module."""
import math
from .helper import shift

SCALE = 2.0
OTHER = 1


def double(x):
    """Twice."""
    return x * SCALE


def unused(x):
    return x


class Mine:
    """Doc."""

    def forward(self, x):
        # a comment
        return shift(double(x)) + math.pi


class Neighbour:
    def forward(self, x):
        return x
'''
HELPER = "def shift(x):\n    return x + 1\n"


def forget() -> None:
    """Have sources read again."""
    importlib.invalidate_caches()
    for cached in (fingerprint.of_class, fingerprint.of_module, fingerprint._tree):
        cached.cache_clear()


class Package:
    def __init__(self, folder: Path) -> None:
        self.folder = folder / "fingerprinted"
        self.folder.mkdir()
        (self.folder / "__init__.py").write_text("")

    def hashes(self, source: str = SOURCE, helper: str = HELPER) -> tuple[str, str, str]:
        """Fingerprints of Mine, of Neighbour and of the module, for these sources."""
        (self.folder / "parts.py").write_text(source)
        (self.folder / "helper.py").write_text(helper)
        forget()
        name = "fingerprinted.parts"
        return (*(fingerprint.of_class(name, cls) for cls in ("Mine", "Neighbour")), fingerprint.of_module(name))


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Package]:
    monkeypatch.syspath_prepend(str(tmp_path))
    yield Package(tmp_path)
    for name in [name for name in sys.modules if name.startswith("fingerprinted")]:
        del sys.modules[name]
    forget()


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("# a comment", "# another one"),
        ('"""Doc."""', '"""Other words."""'),
        ('"""Twice."""', '"""Two times."""'),
        ('    """Doc."""\n\n', ""),
        ("return x * SCALE", "return (x *\n            SCALE)"),
        ('"""Module."""', ""),
    ],
)
def test_words_and_layout_do_not_count(package: Package, old: str, new: str) -> None:
    before = package.hashes()
    assert old in SOURCE
    assert package.hashes(SOURCE.replace(old, new, 1)) == before


@pytest.mark.parametrize(
    ("old", "new"),
    [
        ("+ math.pi", "- math.pi"),
        ("return x * SCALE", "return x + SCALE"),  # a function that it calls
        ("SCALE = 2.0", "SCALE = 3.0"),  # a constant of that function
    ],
)
def test_what_it_uses_counts_for_it_alone(package: Package, old: str, new: str) -> None:
    mine, neighbour, module = package.hashes()
    assert old in SOURCE
    other = package.hashes(SOURCE.replace(old, new, 1))
    assert other[0] != mine and other[1] == neighbour and other[2] != module


def test_imported_helpers_of_the_package_count(package: Package) -> None:
    mine, neighbour, _ = package.hashes()
    other = package.hashes(helper=HELPER.replace("+ 1", "+ 2"))
    assert other[0] != mine and other[1] == neighbour
    assert package.hashes(helper=HELPER + "\n\ndef more(x):\n    return x\n")[0] == mine


def test_what_it_does_not_use_does_not_count(package: Package) -> None:
    mine, _, module = package.hashes()
    other = package.hashes(
        SOURCE.replace("OTHER = 1", "OTHER = 2").replace("def unused(x):\n    return x", "def unused(x):\n    return 2")
    )
    assert other[0] == mine and other[2] != module


def test_a_base_class_counts(package: Package) -> None:
    source = SOURCE + "\n\nclass Child(Mine):\n    pass\n"
    package.hashes(source)
    before = fingerprint.of_class("fingerprinted.parts", "Child")
    package.hashes(source.replace("+ math.pi", "- math.pi"))
    assert fingerprint.of_class("fingerprinted.parts", "Child") != before


def test_no_source_is_an_error() -> None:
    with pytest.raises(FileNotFoundError):
        fingerprint.of_module("ablab.no_such_module")


@pytest.mark.parametrize(
    "line",
    [
        "from .helper import shift", "from . import helper", "from . import helper as h", "import fingerprinted.helper",
        "import fingerprinted.helper as h", "from fingerprinted import helper", "from fingerprinted.helper import shift",
    ],
)  # fmt: skip
@pytest.mark.parametrize("home", ["parts.py", "__init__.py"])
def test_helpers_are_followed_however_they_are_imported(package: Package, line: str, home: str) -> None:
    used = {"shift": "shift(x)", "h": "h.shift(x)", "helper": "helper.shift(x)"}
    name = "shift" if line.endswith("shift") else "h" if line.endswith(" h") else "helper"
    call = "fingerprinted.helper.shift(x)" if line == "import fingerprinted.helper" else used[name]
    source = f"{line}\n\n\nclass Mine:\n    def forward(self, x):\n        return {call}\n"
    module = "fingerprinted" if home == "__init__.py" else "fingerprinted.parts"

    def hashed(helper: str, deep: str) -> str:
        (package.folder / home).write_text(source)
        (package.folder / "helper.py").write_text(helper)
        (package.folder / "deep.py").write_text(deep)
        forget()
        return fingerprint.of_class(module, "Mine")

    helper, deep = "from .deep import ONE\n\n\ndef shift(x):\n    return x + ONE\n", "ONE = 1\n"
    first = hashed(helper, deep)
    assert hashed(helper + "# a comment\n", deep) == first
    assert hashed(helper.replace("+", "-"), deep) != first
    assert hashed(helper, "ONE = 2\n") != first
