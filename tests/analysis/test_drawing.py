"""Figures: never an exception, one colour per variant, legends in natural order, curves that do not jump."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import numpy as np
import pytest
from matplotlib import rc_context

from ablab.analysis import figures, style
from ablab.analysis.curves import difference_curve, mean_curve, thin
from ablab.analysis.drawing import draw
from ablab.analysis.read import Run, read_run
from ablab.analysis.report import read_facts


def made_run(seed: int, steps: list[int], values: list[float]) -> Run:
    """A run with only a validation curve."""
    history = {
        "step": np.array(steps, float),
        "tokens": np.array(steps, float) * 8,
        "val/loss": np.array(values, float),
    }
    return Run(f"r{seed}", None, {}, seed, {}, {}, "finished", history)


def test_losses_that_are_zero_or_not_finite_draw(pool) -> None:
    values = [4.0, 0.0, None, 3.0, None, 2.0]
    for number, odd in enumerate([values, [0.0] * 6, [None] * 6, [1e300, 800, 2, 1, 1, 1]]):
        rows = [
            {"step": step, "tokens": step, "val/loss": value, "train/loss": value} for step, value in enumerate(odd)
        ]
        pool.run({"norm": f"n{number}"}, rows=rows, steps=5)
    folder = pool.run({"norm": "z-inf"}, rows=[], steps=5)
    (folder / "metrics.jsonl").write_text(
        '{"step": 0, "tokens": 0, "val/loss": Infinity}\n{"step": 1, "tokens": 8, "val/loss": NaN}\n'
    )
    made = draw(read_facts([pool.root]), ("svg", "png"))
    assert {"forest", "curves_tokens", "difference"} <= set(made)
    assert all(len(content) > 1000 for figure in made.values() for content in figure.values())


def test_no_display_is_needed(pool) -> None:
    pool.run({"norm": "rms"}, 0, 1.5)
    pool.run({"norm": "layer"}, 0, 1.6)
    code = "import sys; from ablab.analysis.report import build_report; build_report([sys.argv[1]], sys.argv[2]); print(sorted(m for m in ('torch', 'matplotlib.pyplot', 'wandb', 'hydra') if m in sys.modules))"
    done = subprocess.run(
        [sys.executable, "-c", code, str(pool.root), str(pool.root.parent / "out")], capture_output=True, text=True,
        env={"PATH": "/usr/bin:/bin", "HOME": str(pool.root.parent), "PYTHONPATH": ":".join(filter(None, sys.path))},
    )  # fmt: skip
    assert (done.returncode, done.stdout.strip()) == (0, "[]"), done.stderr
    assert (pool.root.parent / "out/figures/curves_tokens.png").stat().st_size > 1000


def test_one_colour_per_variant_in_all_figures(pool) -> None:
    for number in range(1, 13):
        pool.run(
            {"norm": f"v{number}"}, 0, None if number == 3 else 1.5 + number / 100, rows=[] if number == 3 else None
        )
    facts = read_facts([pool.root])
    rows = facts.rows
    assert [row.label for row in rows] == [f"norm=v{number}" for number in range(1, 13)]  # 2 before 10
    look = style.looks([row.label for row in rows], "norm=v1")
    assert len({item.colour for item in look.values()}) == 12
    whole, part = figures.curves(rows, look, "tokens"), figures.difference_curves(rows, rows[0], look, 0.005)
    assert whole is not None and part is not None

    def legend(figure) -> dict[str, str]:
        return {line.get_label(): line.get_color() for line in figure.legends[0].legend_handles}

    assert list(legend(whole)) == [row.label for row in rows]
    assert list(legend(part)) == [row.label for row in rows[1:] if row.label != "norm=v3"]
    assert all(legend(whole)[name] == colour for name, colour in legend(part).items())


def test_looks_differ_beyond_the_number_of_colours() -> None:
    look = style.looks([str(number) for number in range(40)], "0")
    assert len({(item.colour, str(item.dash)) for item in look.values()}) == 40
    assert look["0"].colour == style.BASELINE


def test_a_figure_is_the_same_bytes_every_time(pool) -> None:
    item = {
        "label": "norm=layer",
        "baseline": "norm=rms",
        "n_pairs": 3,
        "difference": 0.01,
        "ci": [0.002, 0.018],
        "verdict": "worse",
    }
    look = style.looks(["norm=rms", "norm=layer"], "norm=rms")
    forms = ("svg", "png", "pdf")

    def made() -> dict[str, bytes]:
        with rc_context(style.RC):
            figure = figures.forest([item], {"norm=layer": {0: 0.011}}, look, 0.005)
            assert figure is not None
            return style.render(figure, forms)

    first = made()
    assert first == made() and set(first) == set(forms)
    assert b"worse, n = 3" in first["svg"]


@pytest.mark.parametrize("cadence", [(50, 50), (50, 70)])
def test_a_mean_curve_ends_with_its_shortest_run_and_never_jumps(cadence: tuple[int, int]) -> None:
    short = list(range(0, 601, cadence[0]))
    long = list(range(0, 1001, cadence[1]))
    low = made_run(0, short, [2 - step / 1000 for step in short])
    high = made_run(1, long, [4 - step / 1000 for step in long])
    curve = mean_curve([low, high], "val/loss")
    assert curve is not None and curve.n == 2 and curve.x[-1] <= 600
    np.testing.assert_allclose(curve.mean, 3 - curve.x / 1000, atol=1e-12)
    assert np.abs(np.diff(curve.mean)).max() < 0.1


def test_a_mean_curve_of_runs_without_a_common_stretch_is_none() -> None:
    assert mean_curve([], "val/loss") is None
    assert mean_curve([made_run(0, [1, 2], [1, 1]), made_run(1, [5, 6], [1, 1])], "val/loss") is None


def test_thinning_keeps_both_ends_and_the_mean() -> None:
    x = np.arange(1000.0)
    y = np.sin(x / 50)
    few_x, few_y = thin(x, y, 100)
    assert len(few_x) == 100 and (few_x[0], few_x[-1], few_y[0], few_y[-1]) == (0, 999, y[0], y[-1])
    np.testing.assert_allclose(few_y, np.interp(few_x, x, y), atol=0.02)
    assert thin(x[:5], y[:5], 100)[0].tolist() == [0, 1, 2, 3, 4]


def test_differences_are_paired_by_seed_and_step() -> None:
    base = {0: made_run(0, [0, 10, 20], [4, 3, 2]), 1: made_run(1, [0, 10], [5, 4])}
    mine = {0: made_run(0, [0, 5, 20], [4, 3.5, 2.5]), 2: made_run(2, [0], [1])}
    ((seed, steps, values),) = difference_curve(mine, base, "val/loss")
    assert seed == 0 and steps.tolist() == [0, 20] and values.tolist() == [0, 0.5]


def test_a_rate_that_diverged_is_marked_and_the_others_joined(pool) -> None:
    for lr, final in ((1e-4, 1.7), (1e-3, 1.5), (1e-2, None)):
        state = "diverged" if final is None else "finished"
        pool.run(
            {"norm": "rms"},
            0,
            final,
            name=f"lr{lr}",
            rows=[] if final is None else None,
            state=state,
            config={"optimizer": {"lr": lr}},
        )
    svg = draw(read_facts([pool.root]), ("svg",))["rates"]["svg"].decode()
    assert "optimizer.lr" in svg and "diverged" in svg


def test_time_comes_from_a_clock_else_from_speed(pool) -> None:
    from ablab.analysis.timing import seconds

    clock = pool.run(
        {"norm": "rms"}, rows=[{"step": 1, "tokens": 10, "seconds": 3.0}, {"step": 2, "tokens": 20, "seconds": 7.0}]
    )
    speed = pool.run({"norm": "layer"}, rows=[{"step": 0, "tokens": 0}, {"step": 1, "tokens": 100, "tokens_per_second": 50.0},
                                              {"step": 2, "tokens": 300, "tokens_per_second": 100.0}])  # fmt: skip
    neither = pool.run({"norm": "other"}, rows=[{"step": 1, "tokens": 10}])
    assert [seconds(read_run(folder)) for folder in (clock, speed, neither)] == [7.0, 4.0, None]


def test_spike_scores_are_those_of_the_exact_rule() -> None:
    from ablab.analysis.spikes import score
    from ablab.analysis.stats.curves import spike_score

    rng = np.random.default_rng(0)
    calm = rng.normal(2, 0.1, 500)
    odd = calm.copy()
    odd[[200, 350]] += 5
    for values in (calm, odd, np.full(300, 2.0), np.r_[np.nan, odd], np.r_[odd[:100], np.nan, odd[100:]], calm[:3]):
        assert score(values) == spike_score(values)
    assert score(odd) > 0


def test_rows_of_evaluations_alone_are_no_spikes(pool) -> None:
    from ablab.analysis.pages.verdicts import spikes

    rows = []
    for step in range(0, 301):
        row: dict = {"step": step, "tokens": step * 64}
        if step % 10 == 0 and step:
            row |= {"train/loss": 4 - step / 200, "train/grad_norm": 1.0 + step % 20 / 100, "lr": 1e-3}
        if step % 145 == 0:
            row["val/loss"] = 4 - step / 200
        if len(row) > 2:
            rows.append(row)
    run = read_run(pool.run({"norm": "rms"}, rows=rows, steps=300))
    assert spikes([run], "train/loss") == 0 and spikes([run], "train/grad_norm") == 0
    rows[-1] |= {"train/loss": None}  # a loss that was not finite is one
    broken = read_run(pool.run({"norm": "layer"}, rows=rows, steps=300))
    assert spikes([broken], "train/loss") > 0 and spikes([broken], "train/grad_norm") == 0


def test_nothing_to_draw_is_no_figure(pool) -> None:
    pool.run({"norm": "rms"}, rows=[{"step": 0, "train/loss": None}])
    assert draw(read_facts([pool.root]), ("svg",)) == {}


def test_the_source_names_nothing_private() -> None:
    folder = Path(figures.__file__).parent
    scripts = Path(__file__).parents[2] / "analysis"
    for file in [*folder.rglob("*.py"), *scripts.glob("*.py")]:
        text = file.read_text()
        assert not any(
            word in text for word in ("wandb.sdk", "sync --view", "wandb-summary", "import torch", "from torch")
        ), file
