"""`ablab publish STUDY`: a study's report as a W&B run of its own: text, figures, and the whole report as an artifact."""

from __future__ import annotations

import argparse
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from ablab.errors import UsageError
from ablab.runfolder import read_json
from ablab.tracking.names import safe_id
from ablab.tracking.sink import RunInfo
from ablab.tracking.wandb_sink import WandbSink


def publish(study: Path, options: dict[str, Any]) -> WandbSink:
    """Show the report of a study folder in W&B; returns the sink, which knows where (`url`, `mode`, `folder`).

    Args:
        study: `runs/studies/<study>` with its `report/`.
        options: as in the config group `tracker`.

    Raises:
        UsageError: the folder has no report, or W&B cannot be opened.
    """
    folder = study / "report"
    report = read_json(folder / "report.json")
    if report is None:
        raise UsageError(f"{study} has no report; make it with: ablab report {study} --out {folder}")
    sink = WandbSink({**options, "artifacts": True})
    # A report is published as it is now; another one later is another run.
    sink.start(
        RunInfo(
            id=safe_id(f"report-{study.name[:40]}-{int(time.time())}"),
            name=f"report of {study.name}",
            group=study.name,
            job_type="report",
            tags=(study.name,),
            config={key: report.get(key) for key in ("baseline", "factors", "margin", "alpha")},
            runs_dir=study.parents[1],
            run_dir=folder,
            notes=report.get("question"),
        )
    )
    for figure in sorted((folder / "figures").glob("*.png")):
        sink.log_figure(f"figures/{figure.stem}", figure, 0)
    sink.log_text("report", (folder / "report.md").read_text(encoding="utf-8"), 0)
    sink.log({"step": 0, "tokens": 0, "cells": len(report["cells"])})
    sink.log_artifact(f"report-{study.name}", "report", sorted(p for p in folder.rglob("*") if p.is_file()))
    sink.finish("finished", {"verdicts": {c["label"]: c["verdict"] for c in report["comparisons"]}})
    return sink


def main(argv: Sequence[str]) -> int:
    """`ablab publish ...`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="ablab publish", description="Show a study's report in Weights & Biases.")
    parser.add_argument("study", type=Path, help="study folder, e.g. runs/studies/ffn+norm-1a2b3c")
    parser.add_argument("--project", default="ablab")
    parser.add_argument("--entity")
    parser.add_argument("--mode", choices=("auto", "online", "offline"), default="auto")
    args = parser.parse_args(list(argv))
    sink = publish(args.study.resolve(), {"project": args.project, "entity": args.entity, "mode": args.mode})
    where = sink.url or f"{sink.folder} (offline; upload: wandb sync --yes {sink.folder})"
    print(f"report published: {where}")
    return 0
