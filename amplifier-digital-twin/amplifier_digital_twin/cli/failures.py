"""Turn faults into JSON, one or two lines, and exit code 2: no command shows a traceback for a user's mistake."""

from __future__ import annotations

import os

import click

from amplifier_digital_twin.cli.answers import complain, forget_stdout, refuse
from amplifier_digital_twin.cli.tree import ERROR
from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.errors import FoundationError


class StreamedError(Exception):
    """A fault of a command whose standard output belongs to somebody else: it is told to people alone."""

    def __init__(self, fault: Exception, exit_code: int) -> None:
        super().__init__(str(fault))
        self.fault = fault
        self.exit_code = exit_code


def tell(error: Exception) -> int:
    """Tell what went wrong; return the exit code."""
    if isinstance(error, StreamedError):
        _, message, remedy = described(error.fault)
        complain(message, remedy)
        return error.exit_code
    try:
        refuse(*described(error))
    except OSError:
        forget_stdout()  # the fault may be that standard output cannot be written
        _, message, remedy = described(error)
        complain(message, remedy)
    return ERROR


def described(error: Exception) -> tuple[str, str, str]:
    """Return code, message and remedy of a fault; one that is ours is told with where it happened."""
    if isinstance(error, TwinError):
        return error.code, error.message, error.remedy
    if isinstance(error, FoundationError):
        return error.code, str(error), ""
    if isinstance(error, click.exceptions.NoArgsIsHelpError):
        return "usage", "nothing was asked for", "`amplifier-digital-twin --help` shows what can be"
    if isinstance(error, click.UsageError):
        where = error.ctx.command_path if error.ctx is not None else "amplifier-digital-twin"
        return "usage", error.format_message(), f"`{where} --help` shows how it is used"
    if isinstance(error, click.ClickException):
        return "usage", error.format_message(), ""
    if isinstance(error, OSError):
        path = os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else ""
        said = error.strerror or str(error)
        return "os_error", f"{path}: {said}" if path else said, "see to it that this can be done, then try again"
    import traceback

    traceback.print_exception(error)
    return "internal", f"{type(error).__name__}: {error}", "this is a fault of the program: report it with the above"
