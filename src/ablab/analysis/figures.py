"""The figures of a report. Each function draws one `matplotlib` figure, or returns None where there is nothing to draw.

No display is needed: figures are made without pyplot.
"""

from __future__ import annotations

import math
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np

from ablab.analysis.cells import Row
from ablab.analysis.curves import difference_curve, mean_curve, thin
from ablab.analysis.metric import LOSS, UNITS
from ablab.analysis.style import BAND, BASELINE, GREY, Look

if TYPE_CHECKING:
    from matplotlib.axes import Axes
    from matplotlib.figure import Figure

HUGE = 1e4  # nats beyond which a loss is off every scale
MANY = 12  # variants beyond which single seeds are left out and the legend is put below
WIDTH = 7.4


def new(rows: int, columns: int, height: float, width: float = WIDTH, **options: Any) -> tuple[Figure, Any]:
    """An empty figure with its axes as an array (rows, columns); sizes in inches."""
    from matplotlib.backends.backend_agg import FigureCanvasAgg
    from matplotlib.figure import Figure

    figure = Figure(figsize=(width, height), layout="constrained")
    FigureCanvasAgg(figure)
    return figure, figure.subplots(rows, columns, squeeze=False, **options)


def forest(
    comparisons: Sequence[Mapping[str, Any]],
    singles: Mapping[str, Mapping[int, float]],
    look: Mapping[str, Look],
    margin: float,
    unit: str = UNITS[LOSS],
) -> Figure | None:
    """Difference to the baseline of every comparison, with its interval and the band of differences too small to matter.

    `singles` holds the paired differences per seed, drawn as small dots. nats per token; left is better.
    """
    shown = [item for item in comparisons if item["difference"] is not None]
    if not shown:
        return None
    figure, axes = new(1, 1, max(1.7, 0.9 + 0.36 * len(shown)))
    axis: Axes = axes[0, 0]
    axis.axvspan(-margin, margin, color=BAND, zorder=0, lw=0)
    axis.axvline(0, color=BASELINE, lw=0.9, zorder=1)
    reach = [margin * 1.6]
    for place, item in enumerate(shown):
        colour = look[item["label"]].colour
        dots = list(singles.get(item["label"], {}).values())
        axis.plot(dots, [place] * len(dots), "|", color=colour, ms=7, alpha=0.55, mew=1.1, zorder=2)
        if item["ci"]:
            axis.plot(item["ci"], [place, place], color=colour, lw=2.2, zorder=3, alpha=0.9)
        axis.plot(item["difference"], place, look[item["label"]].marker, color=colour, ms=6.5, zorder=4,
                  mec="white", mew=0.8)  # fmt: skip
        reach += [abs(value) for value in (*(item["ci"] or ()), item["difference"], *dots)]
    wide = _reach(reach)
    axis.set_xlim(-wide, wide)
    axis.set_ylim(len(shown) - 0.45, -0.55)
    axis.set_yticks(range(len(shown)), [_short(item["label"], item["baseline"]) for item in shown])
    axis.grid(axis="y", visible=False)
    axis.tick_params(axis="y", length=0)
    axis.set_xlabel(f"difference in final validation loss to the baseline ({unit})   ← better · worse →")
    for place, item in enumerate(shown):
        seeds = f"n = {item['n_pairs']}"
        word = item["verdict"] if item["ci"] else "no verdict"
        axis.annotate(f"{word}, {seeds}", (1.01, place), xycoords=("axes fraction", "data"), va="center", fontsize=7.5,
                      color="#374151", annotation_clip=False)  # fmt: skip
    return figure


def _reach(values: Sequence[float]) -> float:
    """Half width of the forest plot: all of it, unless one interval would press the others flat."""
    ordered = sorted(values)
    typical = ordered[int(0.9 * (len(ordered) - 1))]
    return min(ordered[-1], 6 * typical) * 1.08


def _short(label: str, baseline: str) -> str:
    """The parts of a label in which it differs from the baseline."""
    known = set(baseline.split(","))
    changed = [part for part in label.split(",") if part not in known]
    return "\n".join(changed) if 0 < len(changed) <= 2 else label.replace(",", ", ")


def curves(rows: Sequence[Row], look: Mapping[str, Look], x: str) -> Figure | None:
    """Validation and training loss against `tokens` or `minutes`: the mean over seeds, single seeds thin."""
    names = {"tokens": "training tokens", "minutes": "training time (minutes)", "flops": "training FLOPs"}
    panels = [(rows[0].metric, "validation"), ("train/loss", "training")]
    panels = [panel for panel in panels if any(len(run.points(panel[0], x)[0]) for row in rows for run in row.runs)]
    if not panels:
        return None
    figure, axes = new(1, len(panels), 3.1 + _legend_height(rows))
    points = max(60, min(400, 3000 // len(rows)))  # many lines on one page need fewer points each
    for axis, (metric, title) in zip(axes[0], panels, strict=True):
        shown: list[np.ndarray] = []
        for row in rows:
            shown += _curve(axis, row, look[row.label], metric, x, single=len(rows) <= MANY, points=points)
        unit = UNITS.get(metric, UNITS[LOSS])
        axis.set_title(f"{title} loss")
        axis.set_xlabel(names[x])
        axis.set_ylabel(unit)
        _zoom(axis, shown)
    _legend(figure, rows, look)
    return figure


def _curve(axis: Axes, row: Row, look: Look, metric: str, x: str, single: bool, points: int) -> list[np.ndarray]:
    """Draw one variant; returns its drawn values, for the limits of the axis."""
    finished = row.finished
    drawn = []
    if (mean := mean_curve(finished, metric, x, points)) is not None:
        values = _drawable(mean.mean)
        axis.plot(mean.x, values, color=look.colour, ls=look.dash, lw=1.5, label=row.label, zorder=3)
        drawn.append(values)
    lost = [run for run in row.runs if run not in finished]
    for run in [*finished, *lost] if single and len(finished) > 1 else lost if single else []:
        places, values = thin(*run.points(metric, x), 150)
        values = _drawable(values)
        broken = run in lost
        axis.plot(places, values, color=look.colour, lw=0.8 if broken else 0.5, ls=":" if broken else "-",
                  alpha=0.9 if broken else 0.4, zorder=2)  # fmt: skip
        if broken and run.state == "diverged" and len(values):
            axis.plot(places[-1], values[-1], "x", color=look.colour, ms=6, mew=1.6, zorder=4)
        drawn.append(values)
    return drawn


def _drawable(values: np.ndarray) -> np.ndarray:
    """The values that an axis can show, NaN for the others."""
    return np.where((values > 0) & (values < HUGE), values, np.nan)


def _zoom(axis: Axes, drawn: Sequence[np.ndarray]) -> None:
    """Limits that show the end of training; logarithmic where that is possible."""
    tails = [values[len(values) // 12 :] for values in drawn if np.isfinite(values).any()]
    flat = np.concatenate(tails) if tails else np.empty(0)
    flat = flat[np.isfinite(flat)]
    if not len(flat):
        return
    low, high = float(flat.min()), float(np.quantile(flat, 0.995))
    if low > 0 and high / low > 1.02:
        from matplotlib.ticker import LogLocator, MaxNLocator, NullFormatter, ScalarFormatter

        axis.set_yscale("log")
        axis.set_ylim(low * (low / high) ** 0.06, high * (high / low) ** 0.06)
        wide = high / low > 1.5
        axis.yaxis.set_major_locator(LogLocator(subs=(1, 1.5, 2, 3, 4, 5, 7)) if wide else MaxNLocator(6))
        axis.yaxis.set_major_formatter(ScalarFormatter())
        axis.yaxis.set_minor_formatter(NullFormatter())


def _named(rows: Sequence[Row]) -> list[str]:
    """Names for a legend: labels, without the keys where there are too many to read."""
    if len(rows) <= MANY:
        return [row.label or "all runs" for row in rows]
    return [
        ", ".join(part.partition("=")[2] if part[0].isalpha() else part for part in row.label.split(","))
        for row in rows
    ]


def _columns(names: Sequence[str], size: float) -> int:
    """How many names stand beside each other under a figure."""
    return max(1, min(len(names), int(8.5 * 118 / size / (max(map(len, names)) + 7))))


def _legend_height(rows: Sequence[Row]) -> float:
    """Inches that the legend takes beyond one line."""
    names = _named(rows)
    size = 8.0 if len(rows) <= MANY else 6.5
    return (math.ceil(len(names) / _columns(names, size)) - 1) * size * 1.55 / 72


def _legend(figure: Figure, rows: Sequence[Row], look: Mapping[str, Look], marker: bool = False) -> None:
    from matplotlib.lines import Line2D

    names, size = _named(rows), 8.0 if len(rows) <= MANY else 6.5
    handles = [
        Line2D([], [], color=look[row.label].colour, ls=look[row.label].dash, lw=1.8, label=name,
               marker=look[row.label].marker if marker else None, ms=4.5)
        for row, name in zip(rows, names, strict=True)
    ]  # fmt: skip
    figure.legend(handles=handles, loc="outside lower center", ncols=_columns(names, size), fontsize=size)


def difference_curves(rows: Sequence[Row], base: Row, look: Mapping[str, Look], margin: float) -> Figure | None:
    """Paired difference of the validation loss to the baseline along training; single seeds thin, mean thick."""
    baseline = {run.seed: run for run in base.finished}
    found = []
    for row in rows:
        if row is not base:
            series = difference_curve({run.seed: run for run in row.finished}, baseline, row.metric)
            series = [(seed, steps[steps > 0], values[steps > 0]) for seed, steps, values in series]
            series = [(seed, steps, np.clip(values, -HUGE, HUGE)) for seed, steps, values in series if len(steps) > 1]
            if series:
                found.append((row, series))
    if not found:
        return None
    figure, axes = new(1, 1, 3.0 + _legend_height([row for row, _ in found]))
    axis: Axes = axes[0, 0]
    axis.axhspan(-margin, margin, color=BAND, lw=0, zorder=0)
    axis.axhline(0, color=BASELINE, lw=0.9)
    tails = []
    for row, series in found:
        common = series[0][1]
        for _, steps, _ in series[1:]:
            common = np.intersect1d(common, steps)
        table = np.array([values[np.isin(steps, common)] for _, steps, values in series])
        if len(found) <= MANY and len(series) > 1:
            for _, steps, values in series:
                axis.plot(*thin(steps, values, 150), color=look[row.label].colour, lw=0.5, alpha=0.4)
        if len(common):
            mean = table.mean(axis=0)
            axis.plot(*thin(common, mean), color=look[row.label].colour, ls=look[row.label].dash, lw=1.6)
            tails.append(mean[len(mean) // 5 :])
    flat = np.concatenate(tails) if tails else np.zeros(1)
    low, high = min(float(flat.min()), -margin), max(float(flat.max()), margin)
    axis.set_ylim(low - 0.25 * (high - low), high + 0.25 * (high - low))
    axis.set_xlabel("optimizer steps")
    axis.set_ylabel(f"variant − baseline ({UNITS[base.metric]})")
    _legend(figure, [row for row, _ in found], look)
    return figure


def rates(
    lines: Sequence[tuple[str, Sequence[tuple[float, float | None, bool]]]],
    key: str,
    look: Mapping[str, Look],
    unit: str = UNITS[LOSS],
) -> Figure | None:
    """Final loss against a swept rate: per line (rate, mean loss or None, whether a run diverged there)."""
    known = [loss for _, points in lines for _, loss, _ in points if loss is not None]
    if not known:
        return None
    across = max(1, min(len(lines), int(110 / (max(len(name) for name, _ in lines) + 8))))
    figure, axes = new(1, 1, 3.0 + 0.17 * (math.ceil(len(lines) / across) - 1))
    axis: Axes = axes[0, 0]
    top = max(known) + 0.08 * (max(known) - min(known) + 1e-9)
    for name, points in lines:
        style = look[name]
        alive = [(rate, loss) for rate, loss, _ in points if loss is not None]
        axis.plot([rate for rate, _ in alive], [loss for _, loss in alive], color=style.colour, ls=style.dash,
                  marker=style.marker, ms=4.5, label=name or "all runs")  # fmt: skip
        lost = [rate for rate, _, diverged in points if diverged]
        if lost:  # an empty artist that is not clipped would count in the layout
            axis.plot(lost, [top] * len(lost), "x", color=style.colour, ms=7, mew=1.8)
    values = sorted({rate for _, points in lines for rate, _, _ in points})
    if values[0] > 0:
        axis.set_xscale("log")
    axis.minorticks_off()
    shown = values if len(values) <= 9 else values[:: math.ceil(len(values) / 9)]
    axis.set_xticks(shown, [f"{value:g}" for value in shown])
    axis.set_xlabel(f"{key}   (× diverged)")
    axis.set_ylabel(f"final loss ({unit})")
    figure.legend(loc="outside lower center", ncols=across)
    return figure


def interactions(pairs: Sequence[Mapping[str, Any]]) -> Figure | None:
    """Interaction plots: per pair of factors the mean loss over the levels of one, a line per level of the other.

    Each item: `{"x": factor, "line": factor, "x_levels", "line_levels", "means": 2-D list, "looks": None or 2-D}`.
    """
    if not pairs:
        return None
    columns = min(3, len(pairs))
    rows = math.ceil(len(pairs) / columns)
    figure, axes = new(rows, columns, 2.5 * rows + 0.2, width=min(WIDTH, 3.4 * columns + 0.6))
    for place, axis in enumerate(axes.ravel()):
        if place >= len(pairs):
            axis.set_visible(False)
            continue
        item = pairs[place]
        for number, level in enumerate(item["line_levels"]):
            means = [np.nan if value is None else value for value in item["means"][number]]
            shade = str(0.15 + 0.5 * number / max(1, len(item["line_levels"]) - 1))
            axis.plot(range(len(means)), means, color=shade, lw=1.3, ls=("-", "--", ":", "-.")[number % 4],
                      label=f"{item['line']}={level}", zorder=2)  # fmt: skip
            for spot, mean in enumerate(means):
                look = item["looks"][number][spot] if item.get("looks") else None
                colour, marker = (look.colour, look.marker) if look else (shade, "o")
                axis.plot(spot, mean, marker, color=colour, ms=6, mec="white", mew=0.7, zorder=3)
        crowded = sum(map(len, item["x_levels"])) > 24
        axis.set_xticks(range(len(item["x_levels"])), item["x_levels"], rotation=35 if crowded else 0,
                        ha="right" if crowded else "center", rotation_mode="anchor" if crowded else None)  # fmt: skip
        axis.set_xlim(-0.35, len(item["x_levels"]) - 0.65)
        axis.margins(y=0.22)
        axis.set_xlabel(item["x"])
        axis.set_ylabel("final val loss" if place % columns == 0 else "")
        axis.legend(loc="best", fontsize=7.5)
    return figure


def _stacked(label: str, width: int) -> str:
    """A label in lines of at most `width` letters, if breaking at commas, then at signs, can do it."""
    parts = label.split(",")
    if max(map(len, parts)) > width:
        parts = [part for piece in parts for part in piece.replace("=", "=\n").split("\n")]
    return "\n".join(parts)


def slopes(rows: Sequence[Row], look: Mapping[str, Look]) -> Figure | None:
    """Final loss of every seed in every variant, one line per seed: parallel lines mean that pairing pays."""
    rows = [row for row in rows if row.values]
    seeds = sorted({seed for row in rows for seed in row.values})
    if len(rows) < 2 or len(seeds) < 2:
        return None
    figure, axes = new(1, 1, 3.1 + (_legend_height(rows) if len(rows) > 6 else 0.0))
    axis: Axes = axes[0, 0]
    for seed in seeds:
        values = [row.values.get(seed, np.nan) for row in rows]
        axis.plot(range(len(rows)), values, color=GREY, lw=0.7, alpha=0.65, zorder=1)
        spots = np.flatnonzero(np.isfinite(values))
        if len(spots) and len(seeds) <= MANY:
            axis.annotate(f"seed {seed}", (spots[-1], values[spots[-1]]), xytext=(7, 0), textcoords="offset points",
                          fontsize=7, va="center", color=GREY)  # fmt: skip
    for place, row in enumerate(rows):
        axis.plot([place] * len(row.values), list(row.values.values()), look[row.label].marker, ls="",
                  color=look[row.label].colour, ms=5.5, mec="white", mew=0.6, zorder=2)  # fmt: skip
    if len(rows) <= 6:
        names = [_stacked(row.label, int(80 / len(rows))) for row in rows]
    else:
        names = [str(place + 1) for place in range(len(rows))]
    axis.set_xticks(range(len(rows)), names)
    axis.set_xlim(-0.3, len(rows) - 0.55)
    axis.set_ylabel(f"final loss ({UNITS[rows[0].metric]})")
    if len(rows) > 6:
        _legend(figure, rows, look, marker=True)
    return figure
