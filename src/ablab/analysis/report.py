"""The report of a study: facts, figures and tables, written to one folder."""

from __future__ import annotations

import argparse
import json
import math
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablab.analysis.cells import override_baseline
from ablab.analysis.facts import Facts, gather
from ablab.analysis.load import load
from ablab.analysis.read import is_study
from ablab.analysis.verify import SOURCE, files_of, source_of, verify
from ablab.errors import UsageError

SCREEN = ("svg", "png")
PAPER = ("svg", "png", "pdf")


def build_report(
    paths: Sequence[Path | str], out: Path | str, *, baseline: str | None = None, margin: float | None = None,
    alpha: float | None = None, formats: Sequence[str] = SCREEN,
) -> Path:  # fmt: skip
    """Write the report over study folders, run folders or folders of run folders to `out`; returns `out`.

    The same runs give the same bytes. `baseline` ("norm=rms,ffn=swiglu"), `margin` (nats per token) and `alpha`
    replace what the study declared.

    Raises:
        UsageError: no runs, an unreadable study, an unknown baseline.
    """
    options = {"baseline": baseline, "margin": margin, "alpha": alpha}
    facts = read_facts(paths, baseline, margin, alpha)
    return write_report(facts, Path(out), formats, source_of(paths, Path(out), options, formats))


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
    if margin is not None and not 0 < margin < math.inf:
        raise UsageError(f"margin={margin:g}: must be greater than 0")
    if alpha is not None and not 0 < alpha < 0.5:
        raise UsageError(f"alpha={alpha:g}: must lie between 0 and 0.5")
    plan.margin, plan.alpha = margin or plan.margin, alpha or plan.alpha
    return gather(plan, runs)


def write_report(facts: Facts, out: Path, formats: Sequence[str], source: dict[str, Any]) -> Path:
    """Write facts to a folder; files that an older report there made and this one does not vanish, others stay."""
    from ablab.analysis.document import Grid
    from ablab.analysis.drawing import draw
    from ablab.analysis.pages.build import document, spoken
    from ablab.analysis.render_html import html
    from ablab.analysis.render_text import csv_text, latex, markdown

    figures = draw(facts, formats)
    pages = document(facts, figures)
    facts.report["words"] = spoken(pages)
    files: dict[str, bytes] = {
        "report.json": _json(facts.report),
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
    files[SOURCE] = _json(source | {"files": sorted(files)})
    for name in files_of(out) - files.keys():
        (out / name).unlink(missing_ok=True)
    for name, content in files.items():
        path = out / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_bytes(content)
    return out


def _json(content: dict[str, Any]) -> bytes:
    return (json.dumps(content, indent=1, ensure_ascii=False, allow_nan=False) + "\n").encode()


def summary_text(report: dict[str, Any]) -> str:
    """A report in a few plain lines for a terminal: the cells, then the verdicts or what is missing to one."""
    cells = report["cells"]
    width = max(len(cell["label"] or "all runs") for cell in cells)
    lines = []
    for cell in cells:
        mean = "—" if cell["mean"] is None else f"{cell['mean']:.4f}"
        spread = "" if cell["std"] is None else f" ± {cell['std']:.4f}"
        lines.append(f"{cell['label'] or 'all runs':<{width}}  {mean}{spread}  n={cell['n']} of {cell['planned']}")
    lines += ["", *(line.replace("`", "") for line in report["words"])]
    lines += [f"warning: {warning}" for warning in report["warnings"]]
    return "\n".join(lines)


def main(arguments: Sequence[str] | None = None) -> int:
    """Command line of `analysis/report.py`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="report.py", description="Judge a study and write its report.")
    parser.add_argument("paths", nargs="*", metavar="PATH", help="study folder, run folder, or folder of run folders")
    parser.add_argument("--out", help="folder of the report (default: report/ inside a study, else ./report)")
    parser.add_argument("--baseline", help="norm=rms,ffn=swiglu (default: as the study declared)")
    parser.add_argument("--margin", type=float, help="differences below this many nats per token do not matter")
    parser.add_argument("--alpha", type=float, help="level of the tests")
    parser.add_argument(
        "--verify", metavar="REPORT", help="make this report again from its runs; fail on any difference"
    )
    options = parser.parse_args(arguments)
    try:
        if options.verify:
            return _verify(Path(options.verify), options.paths)
        if not options.paths:
            raise UsageError("give a PATH: a study folder, a run folder, or a folder of run folders")
        first = Path(options.paths[0])
        out = Path(options.out) if options.out else first / "report" if is_study(first) else Path("report")
        build_report(options.paths, out, baseline=options.baseline, margin=options.margin, alpha=options.alpha,
                     formats=PAPER)  # fmt: skip
    except UsageError as error:
        print(f"report.py: {error}", file=sys.stderr)
        return 2
    print(summary_text(json.loads((out / "report.json").read_text(encoding="utf-8"))))
    print(f"report: {out / 'report.html'}")
    return 0


def _verify(report: Path, paths: Sequence[str]) -> int:
    found = verify(report, paths)
    for line in found:
        print(f"report.py: {line}", file=sys.stderr)
    print(f"{report}: {'differs from its runs' if found else 'the same as made again from its runs'}")
    return 1 if found else 0
