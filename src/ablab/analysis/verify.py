"""A report proven by making it again from the run folders."""

from __future__ import annotations

import json
import os
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablab.errors import UsageError

SOURCE = "source.json"


def source_of(
    paths: Sequence[Path | str], out: Path, options: dict[str, Any], formats: Sequence[str]
) -> dict[str, Any]:
    """What a report was made from: paths relative to it, options, and what drew the figures."""
    import matplotlib

    return {
        "paths": [Path(os.path.relpath(Path(path).resolve(), out.resolve())).as_posix() for path in paths],
        "options": options,
        "formats": list(formats),
        "drawn_with": f"matplotlib {matplotlib.__version__}",
    }


def files_of(report: Path) -> set[str]:
    """Names of the files that a report made in a folder, inside that folder; none where there is no report."""
    try:
        named = json.loads((report / SOURCE).read_text(encoding="utf-8"))["files"]
    except (OSError, ValueError, KeyError, TypeError):
        return set()
    inside = report.resolve()
    return {str(name) for name in named if (report / str(name)).resolve().is_relative_to(inside)}


def verify(report: Path, paths: Sequence[Path | str] = ()) -> list[str]:
    """Make a report again in a temporary folder; returns the differences, in words, none if it is the same.

    `paths` replaces the runs that the report names as its source.

    Raises:
        UsageError: the folder holds no report, or its runs are gone.
    """
    from ablab.analysis.report import build_report

    try:
        source = json.loads((report / SOURCE).read_text(encoding="utf-8"))
        named = [report / path for path in source["paths"]]
        options, formats = dict(source["options"]), list(source["formats"])
    except (OSError, ValueError, KeyError, TypeError):
        raise UsageError(f"{report} is no report: it has no readable {SOURCE}") from None
    with tempfile.TemporaryDirectory() as folder:
        again = Path(folder)
        build_report(list(paths) or named, again, formats=formats, **options)
        mine, theirs = _files(report), _files(again)
        found = [f"{name} is missing" for name in sorted(theirs.keys() - mine.keys())]
        found += [f"{name} does not belong to the report" for name in sorted(mine.keys() - theirs.keys())]
        found += [
            f"{name} differs"
            for name in sorted(mine.keys() & theirs.keys())
            if name != SOURCE and mine[name] != theirs[name]
        ]
        now = json.loads(theirs[SOURCE])["drawn_with"]
        if any("figures/" in line or "html" in line for line in found) and now != source.get("drawn_with"):
            found.append(f"(figures were drawn with {source.get('drawn_with')}, here is {now})")
    return found


def _files(folder: Path) -> dict[str, bytes]:
    return {
        path.relative_to(folder).as_posix(): path.read_bytes()
        for path in sorted(folder.rglob("*"))
        if path.is_file() and not path.name.startswith(".")
    }
