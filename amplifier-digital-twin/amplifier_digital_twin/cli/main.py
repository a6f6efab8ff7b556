"""Entry point: the tree of commands, how errors become JSON and exit codes, and what signals do."""

from __future__ import annotations

import os
import signal
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext
from importlib import import_module
from types import FrameType
from typing import Any, Final, NamedTuple

import click

from amplifier_digital_twin import __version__
from amplifier_digital_twin.cli.output import discard_stdout, print_error, report, report_error
from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.errors import FoundationError, did_you_mean

PASS: Final = 0
FAIL: Final = 1
ERROR: Final = 2
#: Signals that end the program after it has removed what it was making.
SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)


class Interrupted(BaseException):
    """A signal asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        self.number = number

    @property
    def exit_code(self) -> int:
        """The exit code that shells expect of a program that a signal ended."""
        return 128 + self.number


class StreamedError(Exception):
    """An error of a command whose standard output belongs to another program: it is reported to people alone."""

    def __init__(self, fault: Exception, exit_code: int) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.exit_code = exit_code


class Entry(NamedTuple):
    """One command: the name of its function in `cli.commands`, and its line in the list of commands."""

    function: str
    summary: str


COMMANDS: Final = {
    "check": Entry("check", "Launch a profile, run its checks, keep the evidence, destroy it: pass or fail."),
    "check-readiness": Entry("check_readiness", "Report whether a universe is ready."),
    "destroy": Entry("destroy", "End a universe and remove every trace of it."),
    "doctor": Entry("doctor", "Report what this machine can do, and why something does not work."),
    "exec": Entry("exec_", "Run a command in a universe."),
    "file-pull": Entry("file_pull", "Copy files out of a universe."),
    "file-push": Entry("file_push", "Copy a file or directory into a universe."),
    "launch": Entry("launch", "Make a universe from a profile."),
    "list": Entry("list_", "List all universes."),
    "logs": Entry("logs", "Show what happened in a universe."),
    "prune": Entry("prune", "Remove what crashed universes left."),
    "reset": Entry("reset", "Take a universe back to a snapshot, or to its start."),
    "snapshot": Entry("snapshot", "Keep the file system of a universe under a name."),
    "status": Entry("status", "Report the state of a universe."),
    "update": Entry("update", "Run the update of a universe's profile."),
    "validate": Entry("validate", "Check a profile, and report how it would be launched."),
}


class Program(click.Group):
    """A group that imports its commands on demand, and turns errors into JSON and an exit code."""

    entries = COMMANDS

    def list_commands(self, context: click.Context) -> list[str]:
        """Return the names of all commands, sorted."""
        return sorted(self.entries)

    def get_command(self, context: click.Context, name: str) -> click.Command | None:
        """Return the command of that name, None when there is none."""
        if name not in self.entries:
            return None
        commands = import_module("amplifier_digital_twin.cli.commands")
        command: click.Command = getattr(commands, self.entries[name].function)
        return command

    def format_commands(self, context: click.Context, formatter: click.HelpFormatter) -> None:
        """Write the list of commands without importing them."""
        with formatter.section("Commands"):
            formatter.write_dl([(name, self.entries[name].summary) for name in self.list_commands(context)])

    def resolve_command(
        self, context: click.Context, arguments: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        """Find the command, or suggest the one that may have been meant."""
        name = arguments[0] if arguments else ""
        if name not in self.entries:
            raise click.UsageError(f"no such command {name!r}: {did_you_mean(name, sorted(self.entries))}", context)
        return super().resolve_command(context, arguments)

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program and exit: 0, 1 or 2, or the code of the signal that ended it."""
        options = {"prog_name": "amplifier-digital-twin", **options, "standalone_mode": False}
        is_main = threading.current_thread() is threading.main_thread()
        try:
            with _signals_raise() if is_main else nullcontext():
                code = self._run(arguments, options)
        except (Interrupted, KeyboardInterrupt, click.Abort) as error:
            report("amplifier-digital-twin: stopped")
            code = error.exit_code if isinstance(error, Interrupted) else 130
        sys.exit(code)

    def _run(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> int:
        try:
            code = super().main(*arguments, **options)
            sys.stdout.flush()
        except BrokenPipeError:
            discard_stdout()
            return FAIL
        except Exception as error:
            return _print(error)
        return code if isinstance(code, int) else PASS


@contextmanager
def _signals_raise() -> Iterator[None]:
    """Raise Interrupted for signals while the block runs; those the program was started to ignore stay ignored."""

    def interrupt(number: int, _: FrameType | None) -> None:
        # A second signal must not stop the cleanup that the first one started.
        for each in SIGNALS:
            signal.signal(each, signal.SIG_IGN)
        raise Interrupted(number)

    handled = [number for number in SIGNALS if signal.getsignal(number) is not signal.SIG_IGN]
    before = {number: signal.signal(number, interrupt) for number in handled}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _print(error: Exception) -> int:
    """Print an error; return the exit code."""
    if isinstance(error, StreamedError):
        _, message, remedy = described(error.fault)
        report_error(message, remedy)
        return error.exit_code
    try:
        print_error(*described(error))
    except OSError:
        discard_stdout()  # the error may be that standard output cannot be written
        _, message, remedy = described(error)
        report_error(message, remedy)
    return ERROR


def described(error: Exception) -> tuple[str, str, str]:
    """Return code, message and remedy of an error; an unexpected one is printed with its traceback."""
    if isinstance(error, TwinError):
        return error.code, error.message, error.remedy
    if isinstance(error, FoundationError):
        return error.code, str(error), ""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return "usage", "no command given", "`amplifier-digital-twin --help` lists them"
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "amplifier-digital-twin"
        return "usage", error.format_message(), f"`{where} --help` shows how it is used"
    if isinstance(error, click.ClickException):
        return "usage", error.format_message(), ""
    if isinstance(error, OSError):
        path = os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else ""
        reason = error.strerror or str(error)
        return "os_error", f"{path}: {reason}" if path else reason, "correct the cause, then try again"
    import traceback

    traceback.print_exception(error)
    return "internal", f"{type(error).__name__}: {error}", "this is a bug of the program: report it with the above"


@click.group(cls=Program)
@click.version_option(__version__, prog_name="amplifier-digital-twin", message="%(prog)s %(version)s")
def main() -> None:
    """Prove a whole stack in an environment like a user's: isolated, real, gone in the end.

    \b
    Every command prints one JSON object on standard output; progress goes to standard error.
    Errors are {"error": {"code", "message", "remedy"}}.
    Exit codes: 0 ready or passed, 1 not ready or failed, 2 error, 130 interrupted.
    ID is an identifier, the unique start of one, or a name.

    \b
    Examples:
      amplifier-digital-twin doctor
      amplifier-digital-twin check e2e-event-logging
      amplifier-digital-twin launch my-profile.yaml --name mine
      amplifier-digital-twin exec mine -- amplifier --version
      amplifier-digital-twin destroy mine
    """


if __name__ == "__main__":
    main()
