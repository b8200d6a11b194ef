"""The report as a whole: its files, its words, and that it can be trusted to come out the same."""

from __future__ import annotations

import json
import math
import re
import shutil
from html.parser import HTMLParser
from pathlib import Path

import pytest
from scipy import stats

from ablab.analysis.report import build_report, main, read_facts, summary_text
from ablab.analysis.verify import files_of, verify
from ablab.errors import UsageError

FINALS = {
    ("rms", "swiglu"): [1.500, 1.510, 1.495, 1.505],
    ("rms", "relu"): [1.531, 1.542, 1.524, 1.536],
    ("layer", "swiglu"): [1.501, 1.511, 1.497, 1.504],
    ("layer", "relu"): [1.533, 1.541, 1.526, 1.537],
}
KEYS = ["metric", "baseline", "factors", "margin", "alpha", "cells", "comparisons", "main_effects", "interactions",
        "simple_effects", "excluded", "warnings"]  # fmt: skip


@pytest.fixture(scope="module")
def four_seeds(module_pool) -> Path:
    """A factorial with four seeds and its report, made once."""
    module_pool.grid(FINALS)
    return build_report([module_pool.root], module_pool.root.parent / "report", formats=("svg", "png"))


@pytest.fixture
def no_figures(monkeypatch: pytest.MonkeyPatch) -> None:
    """Reports with one empty figure: what is tested is the rest."""
    monkeypatch.setattr(
        "ablab.analysis.drawing.draw", lambda facts, formats: {"forest": {"svg": b'<svg viewBox="0 0 9 9"></svg>'}}
    )


def load(report: Path) -> dict:
    """What report.json holds."""
    return json.loads((report / "report.json").read_text())


def test_report_json_has_every_list_and_name(four_seeds: Path) -> None:
    report = load(four_seeds)
    assert [key for key in report if key in KEYS] == KEYS
    assert report["metric"] == "val/loss" and report["baseline"] == {"norm": "rms", "ffn": "swiglu"}
    assert report["factors"] == {"norm": ["rms", "layer"], "ffn": ["swiglu", "relu"]}
    cell = report["cells"][1]
    assert cell["label"] == "norm=rms,ffn=relu" and cell["factors"] == {"norm": "rms", "ffn": "relu"}
    assert (cell["planned"], cell["finished"], cell["n"]) == (4, 4, 4)
    assert cell["values"] == dict(zip("0123", FINALS["rms", "relu"], strict=True))
    assert cell["std"] == pytest.approx(stats.tstd(FINALS["rms", "relu"]), rel=1e-12)
    assert cell["ci"] == pytest.approx(
        stats.t.interval(0.95, 3, cell["mean"], stats.sem(FINALS["rms", "relu"])), rel=1e-12
    )
    assert cell["best"] == {"loss": 1.524, "step": 60, "seed": 2}
    keys = {"label", "baseline", "primary", "n_pairs", "difference", "ci", "p", "p_adjusted", "method", "verdict", "practical",
            "mde", "n_needed"}  # fmt: skip
    assert all(set(item) == keys for item in report["comparisons"])
    assert [(item["label"], item["primary"]) for item in report["comparisons"]] == [
        ("norm=layer,ffn=swiglu", True), ("norm=rms,ffn=relu", True), ("norm=layer,ffn=relu", False),
    ]  # fmt: skip
    relu = report["comparisons"][1]
    assert (relu["verdict"], relu["practical"], relu["method"]) == ("worse", "yes", "blocked Dunnett")
    assert relu["difference"] == pytest.approx(0.03075) and relu["ci"][0] > 0.005
    assert [item["factor"] for item in report["main_effects"]] == ["norm", "ffn"]
    assert report["main_effects"][1]["levels"] == pytest.approx({"swiglu": 1.502875, "relu": 1.53375})
    assert [item["factors"] for item in report["interactions"]] == [["norm", "ffn"]]
    assert len(report["simple_effects"]) == 4 and report["excluded"] == [] and report["warnings"] == []


def test_two_variants_are_the_paired_t_test(pool) -> None:
    first, second = FINALS["rms", "swiglu"], FINALS["rms", "relu"]
    for seed in range(4):
        pool.run({"ffn": "swiglu"}, seed, first[seed])
        pool.run({"ffn": "relu"}, seed, second[seed])
    (item,) = read_facts([pool.root]).report["comparisons"]
    test = stats.ttest_rel(second, first)
    assert item["method"] == "paired t" and item["p"] == pytest.approx(test.pvalue, rel=1e-9)
    assert item["ci"] == pytest.approx(list(test.confidence_interval(0.95)), rel=1e-9)


def test_declared_looks_are_tested_at_a_lower_level(pool) -> None:
    cells = []
    for ffn in ("swiglu", "relu"):
        for seed in range(3):
            folder = pool.run({"ffn": ffn}, seed, FINALS["rms", ffn][seed]).name
            cells.append({"factors": {"ffn": ffn}, "seed": seed, "folder": folder})
    factors = {"ffn": ["swiglu", "relu"]}
    one = read_facts([pool.study("one", cells, factors)]).report
    looks = read_facts([pool.study("looks", cells, factors, looks=[3, 5, 8])]).report
    assert one["level"] == 0.05 and 0.015 < looks["level"] < 0.027
    wide, narrow = looks["comparisons"][0]["ci"], one["comparisons"][0]["ci"]
    assert wide[0] < narrow[0] < narrow[1] < wide[1]


def test_below_three_seeds_there_is_no_interval(pool) -> None:
    for seed in range(2):
        pool.run({"ffn": "swiglu"}, seed, 1.5 + seed)
        pool.run({"ffn": "relu"}, seed, 1.6 + seed)
    report = read_facts([pool.root]).report
    (item,) = report["comparisons"]
    assert item["difference"] == pytest.approx(0.1) and item["n_pairs"] == 2
    assert [item[key] for key in ("ci", "p", "p_adjusted", "mde", "n_needed")] == [None] * 5
    assert (item["verdict"], item["practical"]) == ("inconclusive", "unclear")
    assert report["cells"][0]["ci"] is None and report["cells"][0]["std"] is not None


def test_the_folder_holds_every_kind_of_file(four_seeds: Path) -> None:
    names = {path.relative_to(four_seeds).as_posix() for path in four_seeds.rglob("*") if path.is_file()}
    for figure in ("forest", "curves_tokens", "curves_time", "difference", "seeds", "interactions"):
        assert {f"figures/{figure}.{form}" for form in ("svg", "png")} <= names
    for table in ("verdicts", "cells", "costs", "noise", "effects", "simple_effects", "runs", "pairing"):
        assert {f"tables/{table}.csv", f"tables/{table}.tex"} <= names
    assert {"report.html", "report.md", "report.json"} <= names
    assert all((four_seeds / name).stat().st_size for name in names)
    tex = (four_seeds / "tables/cells.tex").read_text()
    assert tex.startswith("\\begin{tabular}{lrr") and "\\toprule" in tex and "norm=rms,ffn=relu & 4" in tex


class Page(HTMLParser):
    """Checks that tags nest and collects what the page would load."""

    def __init__(self) -> None:
        super().__init__()
        self.open: list[str] = []
        self.loads: list[str] = []
        self.ids: list[str] = []
        self.tags: set[str] = set()

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        if tag not in ("meta", "link", "br", "path", "use", "rect"):
            self.open.append(tag)
        self.tags.add(tag)
        for key, value in attributes:
            if key in ("src", "href", "xlink:href") and value and not value.startswith(("#", "data:")):
                self.loads.append(value)
            if key == "id":
                self.ids.append(value or "")

    def handle_startendtag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.handle_starttag(tag, attributes)
        if self.open and self.open[-1] == tag:
            self.open.pop()

    def handle_endtag(self, tag: str) -> None:
        if tag in ("path", "use", "rect"):
            return
        assert self.open and self.open[-1] == tag, f"</{tag}> closes {self.open[-3:]}"
        self.open.pop()


def test_the_page_needs_nothing_else(four_seeds: Path) -> None:
    content = (four_seeds / "report.html").read_text()
    page = Page()
    page.feed(content)
    assert page.open == [] and page.loads == [] and "script" not in page.tags
    assert len(page.ids) == len(set(page.ids))
    assert "url(http" not in content and "@import" not in content
    assert (
        content.index("<h1>")
        < content.index('<span class="tag worse">')
        < content.index("forest-figure")
        < content.index("Declared plan")
    )
    assert 'name="viewport"' in content and "@media print" in content
    assert len(content) < 1_000_000


def test_verdicts_are_said_in_words(four_seeds: Path) -> None:
    text = (four_seeds / "report.md").read_text()
    assert "relu instead of swiglu: worse, and beyond the margin of ±0.005" in text
    assert "layer instead of rms: " in text and "Lowest mean final loss: norm=rms,ffn=swiglu" in text
    assert "No interaction was found (norm × ffn)" in text
    assert "## Proof of pairing" in text and "All variants of a seed saw the same batches" in text


def test_the_same_runs_give_the_same_bytes_and_verify_says_so(four_seeds: Path, capsys) -> None:
    assert main(["--verify", str(four_seeds)]) == 0
    assert "the same as made again" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
@pytest.mark.parametrize("what", ["a number", "a figure", "an extra file", "a lost table"])
def test_verify_finds_every_difference(pool, tmp_path: Path, what: str, capsys) -> None:
    pool.run({"norm": "rms"}, 0, 1.5)
    pool.run({"norm": "layer"}, 0, 1.6)
    out = build_report([pool.root], tmp_path / "report", formats=("svg",))
    assert verify(out) == []
    if what == "a number":
        (out / "report.json").write_text((out / "report.json").read_text().replace("1.6", "1.4"))
    elif what == "a figure":
        (out / "figures/forest.svg").write_text("<svg/>")
    elif what == "an extra file":
        (out / "tables/mine.csv").write_text("a\n")
    else:
        (out / "tables/cells.csv").unlink()
    assert len(verify(out)) == 1
    assert main(["--verify", str(out)]) == 1
    assert "differs from its runs" in capsys.readouterr().out


@pytest.mark.usefixtures("no_figures")
def test_verify_notices_changed_runs(pool, tmp_path: Path) -> None:
    folder = pool.run({"norm": "rms"}, 0, 1.5)
    pool.run({"norm": "layer"}, 0, 1.6)
    out = build_report([pool.root], tmp_path / "report", formats=("svg",))
    text = (folder / "metrics.jsonl").read_text()
    (folder / "metrics.jsonl").write_text(text.replace('"val/loss": 1.5}', '"val/loss": 1.4}'))
    assert "report.json differs" in verify(out)


@pytest.mark.usefixtures("no_figures")
def test_one_seed_gives_no_verdict_but_the_way_to_one(pool, tmp_path: Path) -> None:
    cells = []
    for (norm, ffn), values in FINALS.items():
        folder = pool.run({"norm": norm, "ffn": ffn}, 0, values[0]).name
        cells.append({"factors": {"norm": norm, "ffn": ffn}, "seed": 0, "folder": folder})
    study = pool.study(
        "s", cells, {"norm": ["rms", "layer"], "ffn": ["swiglu", "relu"]}, looks=[3, 5, 8],
        command="python run.py -m norm=rms,layer ffn=swiglu,relu", noise={"sd": 0.004, "n": 12, "machine": "two cores"},
    )  # fmt: skip
    text = (build_report([study], tmp_path / "report", formats=("svg",)) / "report.md").read_text()
    assert "layer − rms: +0.0010 under swiglu, +0.0020 under relu" in text
    assert "relu − swiglu: +0.0310 under rms, +0.0320 under layer" in text
    assert "It gives no verdict" in text and "0.0040 nats, measured on 12 pairs, two cores" in text
    assert "0.2 to 8.0 times that" in text
    assert "python run.py -m norm=rms,layer ffn=swiglu,relu seed=0,1,2" in text
    assert "about 48 s of training" in text  # 4 variants x 2 more seeds x 60 steps x 64 tokens at 640 tokens/s
    assert re.search(r"3 seeds 0\.0\d{3} nats and 5 seeds 0\.0\d{3} nats", text)
    for word in ("better", "worse", "equivalent"):
        assert f": {word}" not in text.split("## Declared plan")[0]


@pytest.mark.usefixtures("no_figures")
def test_the_declared_question_leads(pool, tmp_path: Path) -> None:
    cells = [
        {"factors": {"norm": n}, "seed": 0, "folder": pool.run({"norm": n}, 0, f).name}
        for n, f in (("rms", 1.5), ("layer", 1.6))
    ]
    study = pool.study("s", cells, {"norm": ["rms", "layer"]}, question="Is <rms> enough?",
                       treatments=[{"label": "norm=layer", "added": ["layers.*.ln1.bias 32"], "removed": [], "reshaped": [],
                                    "norm_modules": 5, "first_loss": 3.3, "shared_equal": True}])  # fmt: skip
    out = build_report([study], tmp_path / "report", formats=("svg",))
    assert "<h1>Is &lt;rms&gt; enough?</h1>" in (out / "report.html").read_text()
    text = (out / "report.md").read_text()
    assert text.startswith("# Is") and "Declared 2026-01-02T03:04:05+0000, before the first step" in text
    assert "layers.\\*.ln1.bias 32" in text


@pytest.mark.usefixtures("no_figures")
def test_notes_are_kept_verbatim_and_escaped_in_tables(pool, tmp_path: Path) -> None:
    note = "50% @ a|b, #1 naïve <b>"
    pool.run({"norm": "rms"}, 0, 1.5, config={"note": note})
    pool.run({"norm": "layer"}, 0, 1.6)
    out = build_report([pool.root], tmp_path / "report", formats=("svg",))
    (line,) = [line for line in (out / "report.md").read_text().splitlines() if "naïve" in line]
    assert "a\\|b" in line and len(re.findall(r"(?<!\\)\|", line)) == 9
    assert note in (out / "tables/runs.csv").read_text().replace('"', "")
    assert "naïve &lt;b&gt;" in (out / "report.html").read_text()
    assert "50\\% @ a|b, \\#1" in (out / "tables/runs.tex").read_text()


@pytest.mark.usefixtures("no_figures")
def test_final_and_best_are_both_shown_and_named(pool, tmp_path: Path) -> None:
    rows = [{"step": step, "tokens": step * 64, "val/loss": loss} for step, loss in ((0, 3.0), (10, 2.0), (20, 2.5))]
    pool.run({"norm": "rms"}, 0, rows=rows, steps=20)
    out = build_report([pool.root], tmp_path / "report", formats=("svg",))
    (cell,) = load(out)["cells"]
    assert cell["mean"] == 2.5 and cell["best"] == {"loss": 2.0, "step": 10, "seed": 0}
    assert "final loss" in (out / "report.md").read_text() and "best loss" in (out / "report.md").read_text()


def test_unequal_lengths_are_flagged_with_the_last_common_step(pool) -> None:
    pool.run({"norm": "rms"}, 0, 1.5, steps=600, every=50)
    pool.run({"norm": "layer"}, 0, 1.5, steps=1000, every=70)
    (line,) = [line for line in read_facts([pool.root]).report["warnings"] if "ended at step" in line]
    assert "1000" in line and "600" in line and "step 350, the last evaluated in both" in line


@pytest.mark.parametrize("arguments", [[], ["nowhere"], ["."], ["runs", "--baseline", "norm=zeta"], ["runs", "--baseline", "ffn=relu"],
                                       ["runs", "--margin", "0"], ["--verify", "runs"]])  # fmt: skip
def test_bad_calls_make_no_report(pool, monkeypatch, capsys, arguments: list[str]) -> None:
    pool.run({"norm": "rms"})
    pool.run({"norm": "layer"})
    monkeypatch.chdir(pool.root.parent)
    assert main(arguments) != 0
    error = capsys.readouterr().err
    assert error.startswith("report.py: ") and len(error.splitlines()) == 1
    assert not Path("report").exists()


def test_a_chosen_baseline_is_used(pool, monkeypatch) -> None:
    pool.run({"norm": "rms"}, 0, 1.5)
    pool.run({"norm": "layer"}, 0, 1.6)
    (item,) = read_facts([pool.root], baseline="norm=layer").report["comparisons"]
    assert (item["label"], item["baseline"]) == ("norm=rms", "norm=layer") and item["difference"] == pytest.approx(-0.1)


def test_the_summary_is_plain_text(four_seeds: Path) -> None:
    text = summary_text(load(four_seeds))
    assert "norm=rms,ffn=swiglu    1.5025 ± 0.0065  n=4 of 4" in text
    assert "relu instead of swiglu: worse, and beyond the margin of ±0.005 (+0.0307 nats per token" in text


@pytest.mark.usefixtures("no_figures")
def test_an_interrupted_study_is_reported_as_it_is(pool, tmp_path: Path) -> None:
    cells = [
        {"factors": {"norm": norm}, "seed": seed, "folder": f"{norm}-{seed}"}
        for seed in (1, 2)
        for norm in ("rms", "layer")
    ]
    pool.run({"norm": "rms"}, 1, 1.5, name="rms-1")
    pool.run({"norm": "layer"}, 1, 2.0, name="layer-1", state="interrupted", status={"step": 2, "reason": "SIGINT"})
    out = build_report([pool.study("s", cells, {"norm": ["rms", "layer"]})], tmp_path / "report", formats=("svg",))
    reasons = {item["run"]: item["reason"] for item in load(out)["excluded"]}
    assert reasons["layer-1"] == "interrupted at step 2: SIGINT" and reasons["rms-2"].startswith(
        "missing: norm=rms seed=2"
    )
    assert "| norm=layer | 0 | 2 | — |" in (out / "report.md").read_text()


def test_divergence_is_an_outcome_with_its_own_numbers(pool) -> None:
    for seed in range(4):
        pool.run({"norm": "rms"}, seed, 1.5 + seed / 100)
        lost = seed < 3
        pool.run(
            {"norm": "identity"},
            seed,
            1.6,
            state="diverged" if lost else "finished",
            status={"reason": "loss is not finite"},
        )
    report = read_facts([pool.root]).report
    assert [(item["label"], item["diverged"], item["outcomes"]) for item in report["divergence"]] == [
        ("norm=rms", 0, 4), ("norm=identity", 3, 4),
    ]  # fmt: skip
    assert report["divergence"][1]["mcnemar_p"] == 0.25
    assert sum("counted as an outcome" in item["reason"] for item in report["excluded"]) == 3


@pytest.mark.usefixtures("no_figures")
def test_only_files_of_an_older_report_make_room(pool, tmp_path: Path) -> None:
    for seed in range(3):
        pool.run({"norm": "rms"}, seed)
        pool.run({"norm": "layer"}, seed)
    out = tmp_path / "paper"
    for name in ("figures/mine.svg", "tables/mine.tex", "notes.md"):
        (out / name).parent.mkdir(parents=True, exist_ok=True)
        (out / name).write_text("mine")
    build_report([pool.root], out, formats=("svg",))
    old = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert "tables/verdicts.tex" in old
    for folder in pool.root.glob("layer-*"):
        shutil.rmtree(folder)
    build_report([pool.root], out, formats=("svg",))
    left = {p.relative_to(out).as_posix() for p in out.rglob("*") if p.is_file()}
    assert {"figures/mine.svg", "tables/mine.tex", "notes.md"} <= left and "tables/verdicts.tex" not in left


def test_a_manifest_cannot_reach_outside_its_report(pool, tmp_path: Path) -> None:
    precious = tmp_path / "precious.txt"
    precious.write_text("mine")
    out = tmp_path / "report"
    out.mkdir()
    (out / "source.json").write_text(json.dumps({"files": ["../precious.txt", str(precious)]}))
    assert files_of(out) == set()


def test_a_run_whose_last_loss_is_not_finite_does_not_count(pool) -> None:
    """An earlier evaluation is no stand-in for the last one."""
    good = [{"step": s, "tokens": s, "val/loss": 3 - s / 100} for s in (0, 50, 100)]
    broken = [*good[:2], {"step": 100, "tokens": 100, "val/loss": None}]
    for seed in range(3):
        pool.run({"norm": "rms"}, seed, rows=good, steps=100)
        pool.run({"norm": "layer"}, seed, rows=broken, steps=100)
    report = read_facts([pool.root]).report
    assert [cell["n"] for cell in report["cells"]] == [3, 0] and report["comparisons"][0]["ci"] is None
    assert {item["reason"] for item in report["excluded"]} == {"finished, but its last val/loss is not finite"}


@pytest.mark.parametrize(
    ("name", "values"), [("margin", (0, -1, math.inf, math.nan)), ("alpha", (0, 0.5, 1, math.nan))]
)
def test_levels_out_of_range_are_refused(pool, name: str, values: tuple[float, ...]) -> None:
    pool.run({"norm": "rms"})
    for value in values:
        with pytest.raises(UsageError, match=name):
            read_facts([pool.root], **{name: value})
    assert read_facts([pool.root], margin=2.0).report["margin"] == 2.0


def two_studies(pool, first: dict, second: dict) -> list[Path]:
    """Two studies of one factor each over the same pool."""
    paths = []
    for name, norm, declared in (("a", "layer", first), ("b", "identity", second)):
        cells = []
        for option in ("rms", norm):
            for seed in range(3):
                folder = pool.root / f"{option}-seed{seed}"
                if not folder.exists():
                    pool.run({"norm": option}, seed, 1.5 + 0.1 * (option != "rms") + 0.01 * seed)
                cells.append({"factors": {"norm": option}, "seed": seed, "folder": folder.name})
        paths.append(pool.study(name, cells, {"norm": ["rms", norm]}, **declared))
    return paths


def test_several_studies_keep_the_strictest_of_what_they_declared(pool) -> None:
    paths = two_studies(pool, {"alpha": 0.001, "looks": [3, 5], "slope": -0.5, "unstable": ["norm=identity"]},
                        {"alpha": 0.05, "margin": 0.02, "slope": -0.5, "target": 2.0})  # fmt: skip
    facts = read_facts(paths)
    assert (facts.plan.alpha, facts.plan.margin, facts.plan.looks) == (0.001, 0.02, [3, 5])
    assert facts.plan.unstable == ["norm=identity"] and facts.plan.slope == -0.5 and facts.plan.target is None
    assert facts.inference.level < 0.001
    assert any("different study.target" in line for line in facts.report["warnings"])
