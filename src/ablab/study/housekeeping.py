"""`ablab runs list|remove|prune`: what lies in the pool, which study uses it, how large it is."""

from __future__ import annotations

import argparse
import shutil
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path

from rich.console import Console
from rich.table import Table

from .. import runfolder
from ..errors import UsageError
from . import pool


@dataclass(frozen=True)
class Entry:
    """One run folder of a pool and the studies that show it."""

    path: Path
    state: str
    studies: tuple[str, ...]
    bytes: int

    @property
    def run_id(self) -> str:
        """The id at the end of the folder's name (before `.1` of a set-aside folder)."""
        return self.path.name.partition(".")[0].rpartition("-")[2]


def uses(runs_dir: Path) -> dict[str, list[str]]:
    """Run folder name -> studies that show it."""
    found: dict[str, list[str]] = {}
    for file in sorted((runs_dir / runfolder.STUDIES).glob(f"*/{runfolder.STUDY}")):
        content = runfolder.read_json(file)
        if content is None or not isinstance(content.get("cells"), list):
            raise UsageError(f"{file} cannot be read, so nobody knows which runs it shows; mend or remove it first")
        for cell in content["cells"]:
            found.setdefault(cell["folder"], []).append(file.parent.name)
    return found


def entries(runs_dir: Path) -> list[Entry]:
    """Every run folder of a pool, by name."""
    if not runs_dir.is_dir():
        raise UsageError(f"--runs-dir {runs_dir}: no such folder")
    used = uses(runs_dir)
    folders = [
        p for p in sorted(runs_dir.iterdir()) if (p / runfolder.CONFIG).exists() or (p / runfolder.STATUS).exists()
    ]
    return [Entry(p, runfolder.state(p), tuple(used.get(p.name, ())), pool.size(p)) for p in folders]


def show(console: Console, found: Sequence[Entry]) -> None:
    """Print a table of run folders."""
    table = Table(pad_edge=False, show_edge=False)
    for name in ("run", "state", "size", "studies"):
        table.add_column(name, justify="right" if name == "size" else "left", overflow="fold")
    for entry in found:
        table.add_row(entry.path.name, entry.state, pool.human(entry.bytes), ", ".join(entry.studies) or "—")
    console.print(table)
    console.print(f"{len(found)} runs, {pool.human(sum(e.bytes for e in found))}", highlight=False)


def select(found: Sequence[Entry], names: Sequence[str]) -> list[Entry]:
    """Entries by folder name or by run id; a UsageError for a name that is none."""
    chosen = []
    for name in names:
        matching = [e for e in found if name in (e.path.name, e.run_id)]
        if not matching:
            raise UsageError(f"no run '{name}' in this pool; `ablab runs list` names them")
        chosen += matching
    return chosen


def delete(console: Console, runs_dir: Path, chosen: Sequence[Entry], *, dry_run: bool) -> int:
    """Delete run folders that nobody is training; returns how many could not be deleted."""
    kept = 0
    for entry in chosen:
        with pool.owned(runs_dir, entry.run_id) as mine:
            if not mine:
                kept += 1
                console.print(f"kept {entry.path.name}: it is being trained", highlight=False)
                continue
            if not dry_run:
                shutil.rmtree(entry.path)
        console.print(
            f"{'would remove' if dry_run else 'removed'} {entry.path.name} ({pool.human(entry.bytes)})",
            highlight=False,
        )
    return kept


def main(argv: Sequence[str]) -> int:
    """`ablab runs ...`; returns the exit code."""
    parser = argparse.ArgumentParser(prog="ablab runs", description="Look after a pool of runs.")
    parser.add_argument("--runs-dir", type=Path, default=Path("runs"))
    commands = parser.add_subparsers(dest="command", required=True)
    commands.add_parser("list", help="every run: state, size, the studies that show it")
    remove = commands.add_parser("remove", help="delete runs, by folder name or id")
    remove.add_argument("runs", nargs="+")
    remove.add_argument("--force", action="store_true", help="also runs that a study shows")
    prune = commands.add_parser("prune", help="delete runs that no study shows (old source, set aside)")
    for command in (remove, prune):
        command.add_argument("--dry-run", action="store_true", help="only say what would be deleted")
    args = parser.parse_args(list(argv))
    console = Console()
    found = entries(args.runs_dir)
    if args.command == "list":
        show(console, found)
        return 0
    if args.command == "remove":
        chosen = select(found, args.runs)
        used = [e for e in chosen if e.studies]
        if used and not args.force:
            raise UsageError(
                f"{used[0].path.name} is shown by study {', '.join(used[0].studies)}; add --force to remove it"
            )
    else:
        chosen = [e for e in found if not e.studies]
        if not chosen:
            console.print("nothing to prune: every run is shown by a study")
    return 1 if delete(console, args.runs_dir, chosen, dry_run=args.dry_run) else 0
