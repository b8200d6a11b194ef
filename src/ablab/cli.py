"""The command line: `python run.py ...`, or `ablab ...` from anywhere."""

from __future__ import annotations

import os
import sys
from collections.abc import Sequence

from .errors import UsageError

#: further commands: `ablab runs ...`; the module's main(argv) returns the exit code
COMMANDS = {
    "runs": "ablab.study.housekeeping",
    "collect": "ablab.analysis.collect",
    "report": "ablab.analysis.report",
    "generate": "ablab.generate",
    "publish": "ablab.tracking.publish",
}


def main(argv: Sequence[str] | None = None) -> int:
    """Run a command; returns the exit code. A usage error is one message, not a traceback."""
    words = list(sys.argv[1:] if argv is None else argv)
    try:
        if words and words[0] in COMMANDS:
            import importlib

            return int(importlib.import_module(COMMANDS[words[0]]).main(words[1:]) or 0)
        return _hydra(words)
    except UsageError as error:
        if os.environ.get("HYDRA_FULL_ERROR"):
            raise
        print(f"error: {error}", file=sys.stderr)
        return 2
    except KeyboardInterrupt:
        return 130


def _hydra(words: list[str]) -> int:
    from hydra._internal.utils import get_args_parser

    parser = get_args_parser()
    args = parser.parse_intermixed_args(words)  # flags may stand anywhere
    if args.help:
        from .help import text

        print(text())
        return 0
    if args.hydra_help or args.info or args.shell_completion or args.cfg:
        return _plain_hydra(words)
    unusable = {
        "--config-name": args.config_name, "--config-path": args.config_path, "--package": args.package,
        "--experimental-rerun": args.experimental_rerun,
    }  # fmt: skip
    for flag, value in unusable.items():
        if value:
            raise UsageError(f"{flag} {value}: not supported; --config-dir DIR adds a folder of configs")
    from .commandline import prepare

    command = prepare(args.overrides, multirun=bool(args.multirun))
    from .study.processes import warm_up

    warm_up()  # loads torch beside what follows; not for a typing error, which would then outlive its message
    return sweep(list(command.overrides), args.config_dir)


def sweep(overrides: list[str], config_dir: str | None = None) -> int:
    """Compose with Hydra and hand over to the sweeper of the config; a single run is a sweep of one cell."""
    from hydra._internal.hydra import Hydra
    from hydra._internal.utils import create_config_search_path
    from hydra.core.config_search_path import SearchPathQuery
    from hydra.core.global_hydra import GlobalHydra

    from .composition import store_options
    from .explain import explained
    from .paths import shipped

    store_options()
    path = create_config_search_path(str(shipped("conf")))
    if config_dir:
        if not os.path.isdir(config_dir):
            raise UsageError(f"--config-dir {config_dir}: no such folder")
        before = SearchPathQuery(provider="schema")  # Hydra wants its own schemas last
        path.prepend("command-line", f"file://{os.path.abspath(config_dir)}", anchor=before)
    GlobalHydra.instance().clear()
    with explained(overrides):
        hydra = Hydra.create_main_hydra2(task_name="ablab", config_search_path=path)
        try:
            return int(hydra.multirun("config", _task, overrides, with_log_configuration=False) or 0)
        finally:
            GlobalHydra.instance().clear()


def _task(cfg: object) -> None:
    """What a launcher of Hydra's calls for one cell."""
    raise UsageError("this launcher cannot train cells")


def _plain_hydra(words: list[str]) -> int:
    """Hydra's own flags: --cfg, --info, --hydra-help, --shell-completion."""
    import hydra

    from .composition import store_options
    from .paths import shipped

    store_options()
    sys.argv = [sys.argv[0], *words]
    hydra.main(config_path=str(shipped("conf")), config_name="config", version_base="1.3")(lambda cfg: None)()
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
