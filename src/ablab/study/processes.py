"""Processes for cells: forked from a server that has torch loaded and has touched no GPU.

A process of its own keeps a cell's crash, memory and global state to itself; forking from a warm server makes that
cost a fraction of a second instead of an import of torch.
"""

from __future__ import annotations

import importlib
import multiprocessing
import multiprocessing.forkserver
import sys
from collections.abc import Callable
from multiprocessing.connection import Connection
from multiprocessing.process import BaseProcess
from typing import Any

from ..errors import UsageError

#: loaded once, in the server
PRELOAD = ["ablab.study.preload"]

_context = multiprocessing.get_context("forkserver")


def warm_up() -> None:
    """Start the server now, so that it loads torch while this process composes and checks configs."""
    _context.set_forkserver_preload(PRELOAD)
    multiprocessing.forkserver.ensure_running()


def start(target: str, *arguments: Any) -> tuple[BaseProcess, Connection]:
    """Start a function, named `package.module:function`, as `function(*arguments, connection)` in a new process.

    Returns the process and this side of the connection. The function goes by name, so that its module, and with it
    torch, stays out of this process. The main script is not imported again in the child: cells need ablab, not what
    stands around the command.
    """
    here, there = _context.Pipe()
    process = _context.Process(target=_call, args=(target, *arguments, there), daemon=False)
    main = sys.modules["__main__"]
    spec, file = getattr(main, "__spec__", None), getattr(main, "__file__", None)
    try:
        main.__spec__ = None  # multiprocessing names the script to import by these two
        if file is not None:
            del main.__file__
        process.start()
    except (EOFError, ConnectionError) as error:  # the server is gone: most likely torch does not import
        raise UsageError("the process that loads torch has ended; does `python -c 'import torch'` work?") from error
    finally:
        main.__spec__ = spec
        if file is not None:
            main.__file__ = file
    there.close()
    return process, here


class Died(RuntimeError):
    """A process that was asked a question ended without an answer."""


class Answered(Exception):
    """Raised here for an exception that a question raised in its process; carries its traceback."""


def ask(question: str, *arguments: Any) -> Any:
    """Run a function, named `package.module:function`, in a process of the server and return its answer.

    Raises:
        UsageError: the function raised one.
        Answered: the function raised something else.
        Died: its process did.
    """
    process, connection = start("ablab.study.processes:_answer", question, arguments)
    try:
        kind, *rest = connection.recv()
    except EOFError:
        process.join()
        raise Died(f"the planning process ended unasked (exit code {process.exitcode})") from None
    process.join()
    if kind == "usage error":
        raise UsageError(rest[0])
    if kind == "error":
        raise Answered(rest[0])
    return rest[0]


def _named(name: str) -> Callable[..., Any]:
    module, _, function = name.partition(":")
    return getattr(importlib.import_module(module), function)  # type: ignore[no-any-return]


def _call(name: str, *arguments: Any) -> None:
    _named(name)(*arguments)


def _answer(question: str, arguments: tuple[Any, ...], connection: Connection) -> None:
    import traceback

    try:
        connection.send(("answer", _named(question)(*arguments)))
    except UsageError as error:
        connection.send(("usage error", str(error)))
    except Exception as error:
        connection.send(("error", f"{error}\n{traceback.format_exc()}"))
