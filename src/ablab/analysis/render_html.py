"""The report as one HTML file that needs nothing else: styles and figures are inside, there is no script."""

from __future__ import annotations

import re
from collections.abc import Mapping
from html import escape
from typing import Any

from ablab.analysis.document import Code, Document, Grid, Items, Picture, Section, Text

STYLE = """
:root{--ink:#1b1f24;--soft:#57606a;--line:#d8dee4;--wash:#f6f8fa;--accent:#0b5394;color-scheme:light}
*{box-sizing:border-box}
html{scroll-behavior:smooth;-webkit-text-size-adjust:100%}
body{margin:0;background:#fff;color:var(--ink);font:16px/1.55 system-ui,-apple-system,"Segoe UI",Roboto,"Helvetica Neue",Arial,"DejaVu Sans",sans-serif}
main{max-width:62rem;margin:0 auto;padding:2rem 1.25rem 4rem}
h1{font-size:1.7rem;line-height:1.2;margin:0 0 .3rem;letter-spacing:-.01em;text-wrap:balance;overflow-wrap:anywhere}
h2{font-size:1.2rem;margin:2.6rem 0 .7rem;padding-bottom:.3rem;border-bottom:1px solid var(--line)}
p{margin:.6rem 0;max-width:46rem}
.subtitle{color:var(--soft);margin:0 0 1.2rem;font-size:.92rem}
.lead{font-size:1.06rem}
.note{color:var(--soft);font-size:.92rem}
.warning,ul.warning{background:#fff8e6;border-left:4px solid #d9a400;padding:.6rem .9rem;border-radius:0 4px 4px 0;max-width:none;font-size:.93rem;overflow-wrap:anywhere}
ul{padding-left:1.3rem;margin:.6rem 0}li{margin:.25rem 0;max-width:46rem}
ul.lead{list-style:none;padding:0}ul.lead li{padding:.5rem .8rem;margin:.45rem 0;border-left:4px solid var(--accent);background:var(--wash);border-radius:0 4px 4px 0;max-width:none}
ul.warning{padding-left:2rem}
code{font:.88em ui-monospace,SFMono-Regular,Menlo,Consolas,"DejaVu Sans Mono",monospace;background:var(--wash);padding:.08em .3em;border-radius:3px;overflow-wrap:anywhere}
pre{background:var(--wash);border:1px solid var(--line);border-radius:5px;padding:.7rem .9rem;overflow-x:auto;margin:.7rem 0}
pre code{background:none;padding:0;white-space:pre-wrap;overflow-wrap:anywhere}
figure{margin:1.1rem 0;page-break-inside:avoid;break-inside:avoid}
figure svg{display:block;width:100%;height:auto}
figure .wide{overflow-x:auto}
figcaption,.caption{color:var(--soft);font-size:.86rem;text-align:left;margin-top:.35rem;max-width:46rem}
.table+.caption{margin-top:-.4rem}
.table{overflow-x:auto;margin:.8rem 0;-webkit-overflow-scrolling:touch}
table{border-collapse:collapse;font-size:.86rem;line-height:1.35;font-variant-numeric:tabular-nums;border-top:2px solid var(--ink);border-bottom:2px solid var(--ink)}
th,td{padding:.32rem .7rem .32rem 0;text-align:left;vertical-align:top}
th{border-bottom:1px solid var(--ink);font-weight:600;vertical-align:bottom}
td.num,th.num{text-align:right;white-space:nowrap}
tbody tr:nth-child(even){background:#fafbfc}
nav{font-size:.86rem;color:var(--soft);margin-top:1.6rem}nav a{margin-right:.9rem;white-space:nowrap;display:inline-block}
a{color:var(--accent);text-decoration:none}a:hover{text-decoration:underline}
summary{cursor:pointer;color:var(--accent);font-size:.92rem}
.tag{display:inline-block;padding:.02rem .45rem;border-radius:999px;font-size:.8rem;font-weight:600;white-space:nowrap;border:1px solid}
.better{color:#00533b;background:#e3f4ec;border-color:#8fcbb3}.worse{color:#8a2f00;background:#fdeade;border-color:#eab08c}
.equivalent{color:#0b4a7d;background:#e4f0fa;border-color:#9cc3e4}.inconclusive{color:#4d5560;background:#f0f2f4;border-color:#c5ccd3}
@media (max-width:640px){body{font-size:15px}main{padding:1.1rem .9rem 3rem}h1{font-size:1.35rem}figure svg{min-width:34rem}figure.forest svg{min-width:26rem}}
@media print{main{max-width:none;padding:0}body{font-size:10pt}nav,summary{display:none}details::details-content{content-visibility:visible;display:block;height:auto}.table,figure .wide{overflow:visible}table{font-size:7.5pt}h2{break-after:avoid}tr{break-inside:avoid}a{color:inherit}}
"""
SCALE = 1.75  # pixels of the page per point of a figure
_TAGS = ("better", "worse", "equivalent", "inconclusive")
_VERDICT = re.compile(rf": ({'|'.join(_TAGS)})\b")


def html(document: Document, figures: Mapping[str, str]) -> str:
    """The whole report; `figures` holds the SVG text of every picture by name."""
    anchors = "".join(
        f'<a href="#{section.anchor}">{escape(section.title)}</a>' for section in document.sections if section.title
    )
    body = "\n".join(
        _section(section, figures, f"<nav>{anchors}</nav>" if number == 0 else "")
        for number, section in enumerate(document.sections)
    )
    return (
        '<!DOCTYPE html>\n<html lang="en"><head><meta charset="utf-8">'
        '<meta name="viewport" content="width=device-width,initial-scale=1">'
        '<link rel="icon" href="data:,">'
        f"<title>{escape(document.title)}</title><style>{STYLE}</style></head>\n<body><main>\n"
        f'<h1>{inline(document.title)}</h1>\n<p class="subtitle">{inline(document.subtitle)}</p>\n'
        f"{body}\n</main></body></html>\n"
    )


def _section(section: Section, figures: Mapping[str, str], after: str) -> str:
    title = f"<h2>{inline(section.title)}</h2>\n" if section.title else ""
    blocks = "\n".join(_block(block, figures) for block in section.blocks)
    return f'<section id="{section.anchor}">\n{title}{blocks}\n{after}</section>'


def _block(block: Any, figures: Mapping[str, str]) -> str:
    if isinstance(block, Text):
        return f"<p{_class(block.tone)}>{inline(block.text)}</p>"
    if isinstance(block, Items):
        return (
            f"<ul{_class(block.tone)}>"
            + "".join(f"<li>{_item(item, block.tone)}</li>" for item in block.items)
            + "</ul>"
        )
    if isinstance(block, Code):
        return f"<pre><code>{escape(block.text)}</code></pre>"
    if isinstance(block, Picture):
        picture = prefixed(figures[block.name], block.name, block.alt)
        return f'<figure class="{block.name}"><div class="wide">{picture}</div><figcaption>{inline(block.caption)}</figcaption></figure>'
    if isinstance(block, Grid):
        table = _table(block)
        if block.folded:
            return f"<details><summary>Show all {len(block.rows)} rows</summary>{table}</details>"
        return table
    raise TypeError(type(block).__name__)


def _item(item: str, tone: str) -> str:
    """A list item; in the leading list the first verdict becomes a tag."""
    written = inline(item)
    return _VERDICT.sub(r': <span class="tag \1">\1</span>', written, count=1) if tone == "lead" else written


def _class(tone: str) -> str:
    return f' class="{tone}"' if tone else ""


def _table(grid: Grid) -> str:
    kinds = [' class="num"' if column.number else "" for column in grid.columns]
    head = "".join(f"<th{kind}>{inline(column.title)}</th>" for column, kind in zip(grid.columns, kinds, strict=True))
    rows = "\n".join(
        "<tr>" + "".join(f"<td{kind}>{_cell(text)}</td>" for text, kind in zip(row, kinds, strict=True)) + "</tr>"
        for row in grid.written()
    )
    caption = f'<p class="caption">{inline(grid.caption)}</p>' if grid.caption else ""
    table = f"<table><thead><tr>{head}</tr></thead>\n<tbody>{rows}</tbody></table>"
    return f'<div class="table">{table}</div>{caption}'


def _cell(text: str) -> str:
    return f'<span class="tag {text}">{text}</span>' if text in _TAGS else inline(text)


def inline(text: str) -> str:
    """Running text: escaped, with backticks as code."""
    parts = re.split(r"`([^`]*)`", text)
    return "".join(f"<code>{escape(part)}</code>" if number % 2 else escape(part) for number, part in enumerate(parts))


def prefixed(svg: str, name: str, alt: str) -> str:
    """An SVG made fit to stand in a page with others: no prolog, ids of its own, a title for screen readers."""
    body = svg[svg.index("<svg") :]
    body = re.sub(r'\bid="([^"]+)"', rf'id="{name}-\1"', body)
    body = re.sub(r'(href="#|url\(#)', rf"\g<1>{name}-", body)
    body = re.sub(r"<metadata>.*?</metadata>", "", body, flags=re.DOTALL)
    body = re.sub(r"<!--.*?-->\s*", "", body, flags=re.DOTALL)
    start = body.index(">") + 1
    head = re.sub(r'\s(width|height)="[^"]*"', "", body[:start])
    size = re.search(r'viewBox="0 0 ([\d.]+) ', head)
    widest = f' style="max-width:{float(size.group(1)) * SCALE:.0f}px"' if size else ""
    return f'{head[:-1]}{widest} role="img" aria-label="{escape(alt)}">{body[start:]}'.strip()
