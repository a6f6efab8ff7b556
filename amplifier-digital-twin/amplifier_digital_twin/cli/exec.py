"""`amplifier-digital-twin exec`."""

from __future__ import annotations

import sys
from typing import Any, Final

import click

from amplifier_digital_twin.cli.answers import answer, say
from amplifier_digital_twin.cli.kept import request
from amplifier_digital_twin.cli.tree import FAIL, PASS
from amplifier_digital_twin.errors import TwinError

#: As `timeout` and container engines have it: no command's own codes.
_TIMED_OUT: Final = 124
_NOT_RUN: Final = 125


@click.command("exec")
@click.argument("given", metavar="ID")
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--user", metavar="USER", help="Whose command it is: the profile's user, or root.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="How long it may take.")
@click.option("--stream", is_flag=True, help="Pass its output through, and end with its exit code.")
def exec_(given: str, command: tuple[str, ...], user: str | None, timeout: float | None, stream: bool) -> int:
    """Run a command in a universe. One word is a line for the shell; more than one are taken as they are.

    Prints {id, exit_code, stdout, stderr, timed_out, seconds}; the program's exit code is 0 when the command's is, else
    1. With --stream it is the command's own, 124 at a timeout, 125 when it could not be run. Ctrl-C ends the command.
    """
    asked: dict[str, Any] = {"command": command[0] if len(command) == 1 else list(command), "user": user}
    if stream:
        return _stream(given, {**asked, "timeout": timeout, "stream": True})
    result = request(given, "exec", **asked, timeout=timeout)
    answer(result)
    return PASS if result["exit_code"] == 0 and not result["timed_out"] else FAIL


def _stream(given: str, asked: dict[str, Any]) -> int:
    from amplifier_digital_twin.cli.failures import StreamedError

    try:
        result = request(given, "exec", output=_pass_on, **asked)
    except TwinError as error:
        raise StreamedError(error, _NOT_RUN) from error
    if result.get("dropped_bytes"):
        say(f"amplifier-digital-twin: {result['dropped_bytes']} bytes of output were lost: they came too fast")
    if result["timed_out"]:
        say(f"amplifier-digital-twin: the command was ended after {asked['timeout']:g} s")
        return _TIMED_OUT
    code = int(result["exit_code"])
    return code if code >= 0 else 128 - code


def _pass_on(stream: str, data: bytes) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()
