"""Fork Python processes from one that has imported the program, which takes most of the time that a process needs.

The fixture `popen` (conftest.py at the root) starts this with a socket as its standard input. Each request is a byte
with five descriptors: a file that says what to run, the three standard streams, and a pipe for the process id and later
the exit status. The forked process gets its own arguments, environment, folder, streams, session and terminal, and ends
as every Python process does; only what was imported is there already.
"""

from __future__ import annotations

import fcntl
import gc
import importlib
import json
import os
import pkgutil
import runpy
import select
import signal
import socket
import sys
import termios
from io import TextIOWrapper
from types import ModuleType
from typing import Any, cast

from pydantic import BaseModel

_OURS = ("amplifier_core", "amplifier_kit", "amplifier_foundation", "amplifier_app_cli")
#: Libraries that it imports when it needs them.
_LIBRARIES = ("orjson", "prompt_toolkit.input.vt100", "rich.markdown")


def main() -> None:
    """Answer requests until the connection is closed; in a forked process, run the request."""
    del sys.path[0]  # the folder of this file
    _import_program()
    gc.freeze()  # collections in forks would copy the memory that they share
    request = _serve()
    if request is not None:
        _run(request)


def _import_program() -> None:
    packages = [*_OURS, *(each.name for each in pkgutil.iter_modules() if each.name.startswith("amplifier_module_"))]
    for library in _LIBRARIES:
        importlib.import_module(library)
    while packages:
        package = importlib.import_module(packages.pop())
        modules = pkgutil.iter_modules(getattr(package, "__path__", ()), f"{package.__name__}.")
        packages += [each.name for each in modules if not each.name.endswith((".testing", ".__main__"))]
    _build_models(BaseModel)


def _build_models(model: type[BaseModel]) -> None:
    """Let models of data be built that would be built when they are first used."""
    for each in model.__subclasses__():
        if each.__module__.startswith("amplifier_") and not each.__pydantic_complete__:
            each.model_rebuild(raise_errors=False)
        _build_models(each)


def _serve() -> dict[str, Any] | None:
    """Return in a forked process what it has to run, and in this one when the other end is closed."""
    asked = socket.socket(fileno=os.dup(0))
    os.dup2(os.open(os.devnull, os.O_RDWR), 0)
    ended, wake = os.pipe()
    os.set_blocking(wake, False)
    signal.set_wakeup_fd(wake)
    signal.signal(signal.SIGCHLD, lambda *_: None)
    reports: dict[int, int] = {}
    while True:
        readable, _, _ = select.select([asked.fileno(), ended], [], [])
        if ended in readable:
            os.read(ended, 4096)
            _report(reports)
        if asked.fileno() not in readable:
            continue
        message, descriptors, _, _ = socket.recv_fds(asked, 1, 5)
        if not message:
            return None
        order, *streams, report = descriptors
        process = os.fork()
        if not process:
            signal.set_wakeup_fd(-1)
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            asked.close()
            for descriptor in (ended, wake, report, *reports.values()):
                os.close(descriptor)
            return _become(order, streams)
        os.write(report, f"{process}\n".encode())
        reports[process] = report
        for descriptor in (order, *streams):
            os.close(descriptor)


def _report(reports: dict[int, int]) -> None:
    """Send the status of every process that has ended."""
    while reports:
        process, status = os.waitpid(-1, os.WNOHANG)
        if not process:
            return
        report = reports.pop(process)
        try:
            os.write(report, f"{status}\n".encode())
        except BrokenPipeError:
            pass  # the test has stopped waiting for it
        os.close(report)


def _become(order: int, streams: list[int]) -> dict[str, Any]:
    """Set up everything that a process inherits from its parent, and return the request."""
    with os.fdopen(order, encoding="utf-8") as file:
        request: dict[str, Any] = json.load(file)
    if request["is_new_session"]:
        os.setsid()
    for number, descriptor in enumerate(streams):
        os.dup2(descriptor, number)
        os.close(descriptor)
    if request["has_terminal"]:
        fcntl.ioctl(0, termios.TIOCSCTTY, 0)
    os.chdir(request["folder"])
    os.environ.clear()
    os.environ.update(request["environment"])
    sys.dont_write_bytecode = bool(os.environ.get("PYTHONDONTWRITEBYTECODE"))
    # As the interpreter opens them.
    sys.stdin = sys.__stdin__ = _stream(0, "strict")  # type: ignore[misc]
    sys.stdout = sys.__stdout__ = _stream(1, "strict")  # type: ignore[misc]
    sys.stderr = sys.__stderr__ = _stream(2, "backslashreplace")  # type: ignore[misc]
    return request


def _stream(number: int, errors: str) -> TextIOWrapper:
    return open(
        number,
        "r" if number == 0 else "w",
        buffering=1 if number == 2 or os.isatty(number) else -1,
        encoding="utf-8",
        errors=errors,
        closefd=False,
    )


def _run(request: dict[str, Any]) -> None:
    arguments = cast("list[str]", request["arguments"])
    paths = filter(None, os.environ.get("PYTHONPATH", "").split(os.pathsep))
    sys.orig_argv = [sys.executable, *arguments]
    option, code, *rest = arguments
    sys.path[:0] = [os.getcwd() if option == "-m" else "", *paths]
    importlib.invalidate_caches()
    sys.argv = [option, *rest]
    if option == "-m":
        runpy.run_module(code, run_name="__main__", alter_sys=True)
    else:
        sys.modules["__main__"] = ModuleType("__main__")
        exec(compile(code, "<string>", "exec"), vars(sys.modules["__main__"]))


if __name__ == "__main__":
    main()
