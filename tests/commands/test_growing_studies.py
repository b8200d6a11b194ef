"""One study named by hand, grown by commands that sweep other keys."""

from __future__ import annotations

from collections.abc import Callable

from support.commands import Lab, load


def test_a_study_grows_by_what_it_did_not_sweep(new_lab: Callable[..., Lab]) -> None:
    lab = new_lab()
    first = ["study.name=A", "norm=rms,layer", "seed=1,2"]
    assert lab.tiny(*first).code == 0
    kept = {run.name: (run / "metrics.jsonl").read_bytes() for run in lab.cells()}
    one = lab.tiny("study.name=A", "norm=layer", "seed=7", sweep=False, NO_REPORT="")
    assert one.code == 0 and "Traceback" not in one.text, one.text
    cells = lab.study("A")["cells"]
    assert [cell["factors"]["norm"] for cell in cells] == ["rms", "layer", "rms", "layer", "layer"]
    # a factor that the first cells were not asked for: their runs say what it was
    assert lab.tiny("study.name=A", "position=rope,none", "seed=1").code == 0
    done = lab.tiny(*first, NO_REPORT="")
    assert done.code == 0 and "reused 4, ran 0" in done.out and "Traceback" not in done.text, done.text
    report = load(lab.runs / "studies" / "A" / "report" / "report.json")
    assert {cell["label"] for cell in report["cells"]} >= {
        "norm=rms,position=rope", "norm=layer,position=rope", "norm=rms,position=none",
    }  # fmt: skip
    assert sum(cell["planned"] for cell in report["cells"]) == len(lab.study("A")["cells"]) == 6
    for name, content in kept.items():
        assert (lab.runs / name / "metrics.jsonl").read_bytes() == content
