"""How figures look: one style for paper and screen, one colour per variant, files that come out the same every time."""

from __future__ import annotations

import io
from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from matplotlib.figure import Figure

#: Okabe and Ito's colours without yellow, then the darker ones of Paul Tol's muted scheme; told apart by the
#: colour-blind, and by lightness in grey print
COLOURS = (
    "#0072B2", "#D55E00", "#009E73", "#CC79A7", "#56B4E9", "#E69F00", "#882255", "#332288", "#999933", "#44AA99",
    "#117733", "#AA4499",
)  # fmt: skip
BASELINE = "#2b2f36"
DASHES: tuple[Any, ...] = ("-", (0, (4, 1.5)), (0, (1.2, 1.2)), (0, (5, 1.2, 1.2, 1.2)))
MARKERS = ("o", "s", "^", "D", "v", "P", "X", "p", "h", "<", ">", "*")
GREY, BAND = "#6b7280", "#e8edf3"

RC: Any = {
    "figure.dpi": 100, "savefig.dpi": 200, "figure.constrained_layout.use": True,
    "font.family": "sans-serif", "font.sans-serif": ["DejaVu Sans", "Arial", "Helvetica"], "font.size": 8.5,
    "axes.titlesize": 9, "axes.titleweight": "bold", "axes.titlelocation": "left", "axes.labelsize": 8.5,
    "axes.spines.top": False, "axes.spines.right": False, "axes.linewidth": 0.7, "axes.edgecolor": "#4b5563",
    "axes.grid": True, "grid.color": "#e5e7eb", "grid.linewidth": 0.6, "axes.axisbelow": True,
    "xtick.labelsize": 8, "ytick.labelsize": 8, "xtick.color": "#374151", "ytick.color": "#374151",
    "xtick.major.width": 0.7, "ytick.major.width": 0.7, "lines.linewidth": 1.5, "lines.solid_capstyle": "round",
    "legend.frameon": False, "legend.fontsize": 8, "legend.handlelength": 2.2,
    "svg.fonttype": "none", "svg.hashsalt": "ablab", "pdf.fonttype": 42, "path.simplify": True,
}  # fmt: skip


@dataclass(frozen=True)
class Look:
    """Colour, dash and marker of a variant, the same in every figure."""

    colour: str
    dash: Any
    marker: str


def looks(labels: Sequence[str], baseline: str | None) -> dict[str, Look]:
    """A look for every variant, by its place in the plan; the baseline is dark, whatever its place."""
    found, place = {}, 0
    for label in labels:
        if label == baseline:
            found[label] = Look(BASELINE, "-", "o")
            continue
        turn = place // len(COLOURS)
        found[label] = Look(
            COLOURS[place % len(COLOURS)], DASHES[turn % len(DASHES)], MARKERS[(place + 1) % len(MARKERS)]
        )
        place += 1
    return found


def render(figure: Figure, formats: Sequence[str]) -> dict[str, bytes]:
    """A figure as bytes by format, without dates, so that the same data gives the same file."""
    dates = {"svg": {"Date": None}, "pdf": {"CreationDate": None}, "png": {"Software": None}}
    made = {}
    figure.draw_without_rendering()  # lay out once, not once per format
    figure.set_layout_engine("none")
    for form in formats:
        out = io.BytesIO()
        figure.savefig(out, format=form, metadata=dates[form])
        made[form] = out.getvalue()
    return made
