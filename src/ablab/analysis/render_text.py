"""The report as Markdown, and its tables as CSV and LaTeX (booktabs)."""

from __future__ import annotations

import csv
import io
import re
from typing import Any

from ablab.analysis.document import MINUS, MISSING, Code, Document, Grid, Items, Picture, Text


def markdown(document: Document) -> str:
    """The whole report as GitHub Markdown; figures are links into `figures/`."""
    parts = [f"# {document.title}", document.subtitle]
    for section in document.sections:
        if section.title:
            parts.append(f"## {section.title}")
        parts += [_block(block) for block in section.blocks]
    return "\n\n".join(part for part in parts if part) + "\n"


def _block(block: Any) -> str:
    if isinstance(block, Text):
        return f"> **Note:** {escape(block.text)}" if block.tone == "warning" else escape(block.text)
    if isinstance(block, Items):
        return "\n".join(f"- {escape(item)}" for item in block.items)
    if isinstance(block, Code):
        return f"```\n{block.text}\n```"
    if isinstance(block, Picture):
        return f"![{escape(block.alt)}](figures/{block.name}.png)\n\n*{escape(block.caption)}*"
    if isinstance(block, Grid):
        return _table(block)
    raise TypeError(type(block).__name__)


def _table(grid: Grid) -> str:
    lines = [
        "| " + " | ".join(cell(column.title) for column in grid.columns) + " |",
        "|" + "|".join("---:" if column.number else "---" for column in grid.columns) + "|",
    ]
    lines += ["| " + " | ".join(map(cell, row)) + " |" for row in grid.written()]
    return "\n".join(lines) + (f"\n\n*{escape(grid.caption)}*" if grid.caption else "")


def escape(text: str) -> str:
    """Text in which only backticks are markup: other marks of Markdown and HTML are escaped, outside of code."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(part if part.startswith("`") else re.sub(r"([\\*_\[\]<>#~])", r"\\\1", part) for part in parts)


def cell(text: str) -> str:
    """Text inside a table: one line, with `|` escaped, inside code too."""
    return escape(" ".join(text.splitlines())).replace("|", "\\|")


def csv_text(grid: Grid) -> str:
    """A table as CSV, numbers with all their digits, nothing as an empty field."""
    out = io.StringIO()
    writer = csv.writer(out, lineterminator="\n")
    writer.writerow([column.title for column in grid.columns])
    writer.writerows([[_raw(value) for value in row] for row in grid.rows])
    return out.getvalue()


def _raw(value: Any) -> str:
    if value is None:
        return ""
    if isinstance(value, bool):
        return "yes" if value else "no"
    if isinstance(value, (list, tuple)):
        return " ".join(map(_raw, value))
    return repr(value) if isinstance(value, float) else str(value)


_TEX = {
    "\\": r"\textbackslash{}", "&": r"\&", "%": r"\%", "$": r"\$", "#": r"\#", "_": r"\_", "{": r"\{", "}": r"\}",
    "~": r"\textasciitilde{}", "^": r"\textasciicircum{}", "<": r"$<$", ">": r"$>$", MINUS: r"$-$", MISSING: "---",
    "±": r"$\pm$", "∞": r"$\infty$", "×": r"$\times$", "σ": r"$\sigma$", "≥": r"$\geq$", "–": "--",
}  # fmt: skip


def tex(text: str) -> str:
    """Text with LaTeX's special characters escaped."""
    return "".join(_TEX.get(letter, letter) for letter in text.replace("`", ""))


def latex(grid: Grid) -> str:
    """A table as a LaTeX tabular in booktabs style (needs `\\usepackage{booktabs}`)."""
    lines = [
        "\\begin{tabular}{" + "".join("r" if column.number else "l" for column in grid.columns) + "}",
        "\\toprule",
        " & ".join(tex(column.title) for column in grid.columns) + " \\\\",
        "\\midrule",
    ]
    lines += [" & ".join(map(tex, row)) + " \\\\" for row in grid.written()]
    return "\n".join([*lines, "\\bottomrule", "\\end{tabular}", ""])
