"""The report of a study: facts, figures and tables, written to one folder."""

from __future__ import annotations

import argparse
import json
import shutil
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablab.analysis.cells import override_baseline
from ablab.analysis.facts import Facts, gather
from ablab.analysis.plan import is_study, load
from ablab.errors import UsageError

SOURCE = "source.json"


def build_report(
    paths: Sequence[Path | str], out: Path | str, *, baseline: str | None = None, margin: float | None = None,
    alpha: float | None = None, formats: Sequence[str] = ("svg", "png", "pdf"),
) -> Path:  # fmt: skip
    """Write the report over study folders, run folders or folders of run folders to `out`; returns `out`.

    The same runs give the same bytes. `baseline` ("norm=rms,ffn=swiglu"), `margin` (nats per token) and `alpha`
    replace what the study declared.

    Raises:
        UsageError: no runs, an unreadable study, an unknown baseline.
    """
    return write_report(read_facts(paths, baseline, margin, alpha), paths, Path(out), formats)


def read_facts(
    paths: Sequence[Path | str],
    baseline: str | None = None,
    margin: float | None = None,
    alpha: float | None = None,
) -> Facts:
    """Everything the report says about the runs under `paths`."""
    plan, runs = load(paths)
    if baseline is not None:
        override_baseline(plan, baseline)
    for name, value in (("margin", margin), ("alpha", alpha)):
        if value is not None:
            if not 0 < value < 1:
                raise UsageError(f"{name}={value:g}: must lie between 0 and 1")
            setattr(plan, name, value)
    return gather(plan, runs)


def write_report(facts: Facts, paths: Sequence[Path | str], out: Path, formats: Sequence[str]) -> Path:
    """Write facts to a folder; files of an older report there that are no longer made vanish."""
    from ablab.analysis.document import Grid
    from ablab.analysis.drawing import draw
    from ablab.analysis.render_html import html
    from ablab.analysis.render_text import csv_text, latex, markdown
    from ablab.analysis.sections import document

    figures = draw(facts, formats)
    pages = document(facts, figures)
    files: dict[str, bytes] = {
        "report.json": (
            json.dumps(facts.report, indent=1, ensure_ascii=False, allow_nan=False) + "\n"
        ).encode(),
        "report.md": markdown(pages).encode(),
        "report.html": html(pages, {name: made["svg"].decode() for name, made in figures.items()}).encode(),
    }
    for name, made in figures.items():
        files.update({f"figures/{name}.{form}": content for form, content in made.items() if form in formats})
    for section in pages.sections:
        for block in section.blocks:
            if isinstance(block, Grid) and block.name:
                files[f"tables/{block.name}.csv"] = csv_text(block).encode()
                files[f"tables/{block.name}.tex"] = latex(block).encode()
    for folder in ("figures", "tables"):
        shutil.rmtree(out / folder, ignore_errors=True)
    for name, content in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return out


def summary_text(report: dict[str, Any]) -> str:
    """A report in a few plain lines for a terminal."""
    lines = []
    for cell in report["cells"]:
        mean = "—" if cell["mean"] is None else f"{cell['mean']:.4f}"
        spread = "" if cell["std"] is None else f" ± {cell['std']:.4f}"
        lines.append(f"{cell['label'] or 'all runs'}: {mean}{spread} (n={cell['n']} of {cell['planned']})")
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `analysis/report.py`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="report.py", description="Judge a study and write its report.")
    parser.add_argument(
        "paths", nargs="*", metavar="PATH", help="study folder, run folder, or folder of run folders"
    )
    parser.add_argument("--out", help="folder of the report (default: report/ inside a study, else ./report)")
    parser.add_argument("--baseline", help="norm=rms,ffn=swiglu (default: as the study declared)")
    parser.add_argument(
        "--margin", type=float, help="differences below this many nats per token do not matter"
    )
    parser.add_argument("--alpha", type=float, help="level of the tests")
    options = parser.parse_args(arguments)
    try:
        if not options.paths:
            raise UsageError("give a PATH: a study folder, a run folder, or a folder of run folders")
        first = Path(options.paths[0])
        out = Path(options.out) if options.out else first / "report" if is_study(first) else Path("report")
        facts = read_facts(options.paths, options.baseline, options.margin, options.alpha)
        write_report(facts, options.paths, out, ("svg", "png", "pdf"))
    except UsageError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    print(summary_text(facts.report))
    print(f"report: {out / 'report.html'}")
    return 0
