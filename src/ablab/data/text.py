"""`data=text`: your own text, `data.path` a file or a folder of .txt files.

Strict UTF-8. A byte order mark is dropped, CRLF and CR become LF, and both are said. The files of a folder
(sub-folders too, hidden ones not) are documents in order of their names; empty ones and exact repeats are
left out.

What is held out, never in both splits: the last `data.val_fraction` of the characters of a single text; of a
folder the last whole files whose share is nearest to it, or, where that share is not within a factor of two,
the last `data.val_fraction` of the characters of the whole folder (one file is then cut in two).
"""

from __future__ import annotations

from itertools import accumulate
from pathlib import Path

from ..errors import UsageError
from .corpora import Split, corpus


@corpus("text")
def text(*, path: str | None = None, val_fraction: float = 0.1) -> Split:
    """Read `path`.

    Raises:
        UsageError: no path, nothing there, a fraction outside (0, 1), or a byte that is not UTF-8 (file,
        offset).
    """
    if path is None:
        raise UsageError("data.path is not set: data=text reads a file or a folder of .txt files")
    if not isinstance(val_fraction, float) or not 0 < val_fraction < 1:
        raise UsageError(f"data.val_fraction={val_fraction}: it must be a number above 0 and below 1")
    root = Path(str(path)).expanduser()
    if root.is_dir():
        files = sorted(_text_files(root), key=lambda file: file.relative_to(root).as_posix())
        if not files:
            raise UsageError(f"data.path: the folder '{path}' holds no .txt file")
    elif root.is_file():
        files = [root]
    else:
        raise UsageError(f"data.path: no file or folder '{path}' (looked in {Path.cwd()})")
    notes: list[str] = []
    documents = _documents(files, notes)
    if len(documents) > 1 and (split := _whole_files(documents, val_fraction, notes)):
        return split
    return _tail(documents, val_fraction, notes)


def read_text(path: Path) -> tuple[str, bool, bool]:
    """Text of one file, whether it began with a byte order mark, and whether line ends were changed to LF."""
    try:
        raw = path.read_bytes()
    except OSError as error:
        raise UsageError(f"data.path: cannot read '{path}': {error.strerror}") from error
    try:
        content = raw.decode("utf-8")
    except UnicodeDecodeError as error:
        raise UsageError(
            f"data.path: '{path}' is not UTF-8: byte 0x{raw[error.start]:02x} at offset {error.start}; "
            "convert it first, for example with iconv -f cp1252 -t utf-8"
        ) from error
    unix = content.removeprefix("\ufeff").replace("\r\n", "\n").replace("\r", "\n")
    return unix, content.startswith("\ufeff"), "\r" in content


def _text_files(root: Path) -> list[Path]:
    """Files under a folder that end in .txt, without hidden ones (an editor's or a file system's)."""
    return [
        file
        for file in root.rglob("*")
        if file.suffix.lower() == ".txt"
        and file.is_file()
        and not any(part.startswith(".") for part in file.relative_to(root).parts)
    ]


def _documents(files: list[Path], notes: list[str]) -> dict[str, str]:
    """Name -> text without empty files and repeats; what was changed goes to `notes`."""
    texts: dict[str, str] = {}
    marks = line_ends = empty = repeats = 0
    seen: set[str] = set()
    for file in files:
        content, had_mark, changed = read_text(file)
        marks += had_mark
        line_ends += changed
        empty += not content
        repeats += bool(content) and content in seen
        if content and content not in seen:
            seen.add(content)
            texts[str(file)] = content
    for count, what in (
        (marks, "began with a byte order mark, which was dropped"),
        (line_ends, "had CRLF or CR line ends, which became LF"),
        (empty, "had no text"),
        (repeats, "repeated another file word for word and was left out"),
    ):
        if count:
            notes.append(f"{count} of {len(files)} file{'s' if len(files) > 1 else ''} {what}")
    return texts


def _whole_files(documents: dict[str, str], fraction: float, notes: list[str]) -> Split | None:
    names, texts = list(documents), list(documents.values())
    held = list(accumulate(len(content) for content in reversed(texts)))  # held[k - 1]: characters of the last k
    target = fraction * held[-1]
    count = min(range(1, len(texts)), key=lambda k: abs(held[k - 1] - target))
    if not target / 2 <= held[count - 1] <= target * 2:
        return None
    last = f"the last {count} of {len(texts)} files, from {Path(names[-count]).name} on"
    return Split(texts[:-count], texts[-count:], last, tuple(notes))


def _tail(documents: dict[str, str], fraction: float, notes: list[str]) -> Split:
    total = sum(map(len, documents.values()))
    left = int(total * fraction + 1e-9)  # 0.29 * 100 is 28.999...
    what = f"the last {left:,} of {total:,} characters"
    train: list[str] = []
    val: list[str] = []
    for content in reversed(documents.values()):
        cut = max(0, len(content) - left)
        left -= len(content) - cut
        val += [content[cut:]] if content[cut:] else []
        train += [content[:cut]] if content[:cut] else []
    return Split(train[::-1], val[::-1], what, tuple(notes))
