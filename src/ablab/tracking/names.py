"""Names that every W&B server accepts.

Limits (W&B documentation and server checks): run and group names 128 characters, tags and job types 64, ids
64 without ``/ \\ # ? % : ; ,`` or quotes. A client that is offline accepts longer ones and the upload fails
weeks later, so they are made to fit before anything is logged. Shortened names end in a hash of the whole
text: two different names stay different.
"""

from __future__ import annotations

import hashlib
import re

NAME_LIMIT = 128
GROUP_LIMIT = 128
TAG_LIMIT = 64
JOB_TYPE_LIMIT = 64
ID_LIMIT = 64
PROJECT_LIMIT = 128
_HASH = 8


def _digest(text: str) -> str:
    return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:_HASH]


def shorten(text: str, limit: int) -> str:
    """`text` on one line with at most `limit` characters; what is cut is replaced by a hash of the whole."""
    line = " ".join(text.split())
    if len(line) <= limit:
        return line
    return f"{line[: limit - _HASH - 1]}~{_digest(text)}"


def safe_id(text: str) -> str:
    """`text` as a W&B run id: `[A-Za-z0-9._=+-]`, at most 64 characters, different for different texts."""
    clean = re.sub(r"[^A-Za-z0-9._=+-]", "_", text)
    if clean == text and 0 < len(clean) <= ID_LIMIT:
        return clean
    return f"{clean[: ID_LIMIT - _HASH - 1]}-{_digest(text)}"


def safe_tags(tags: tuple[str, ...]) -> tuple[str, ...]:
    """Non-empty tags of 1 to 64 characters, without repeats, in the order given."""
    short = (shorten(tag, TAG_LIMIT) for tag in tags)
    return tuple(dict.fromkeys(tag for tag in short if tag))
