"""Several commands at once in one pool: no cell is trained twice, none is lost."""

from __future__ import annotations

from support.commands import Lab, finished, tiny

SAME = ["norm=rms,layer", "seed=1,2"]


def test_two_same_and_one_overlapping_sweep(lab: Lab) -> None:
    commands = [SAME, SAME, ["norm=identity,layer", "seed=1", "study.name=other"]]
    started = [lab.start(*tiny(*words)) for words in commands]
    ends = [finished(process) for process in started]
    assert [done.code for done in ends] == [0, 0, 0], [done.text for done in ends]
    runs = lab.cells()
    assert len(runs) == 5
    for run in runs:
        assert (run / "run.log").read_text().count("starting") == 1
        assert [line for line in (run / "metrics.jsonl").read_text().splitlines() if '"step": 6' in line]
    counted = [done.out.partition("reused ")[2].partition(" in ")[0] for done in ends]
    trained = sum(int(text.partition("ran ")[2].split(" ")[0]) for text in counted)
    reused = sum(int(text.partition(",")[0]) for text in counted)
    assert (trained, reused) == (5, 5)
    assert lab.states("norm-*") == ["finished"] * 4 and lab.states("other") == ["finished"] * 2
