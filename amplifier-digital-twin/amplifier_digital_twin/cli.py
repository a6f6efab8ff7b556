"""The program: its commands, from their options to what they print; errors as JSON, exit codes, signals.

One JSON object on standard output for programs, lines on standard error for people.
"""

from __future__ import annotations

import json
import os
import re
import signal
import sys
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from itertools import chain
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING, Any, Final, TypeVar

import click

from amplifier_digital_twin import __version__
from amplifier_digital_twin.errors import TwinError
from amplifier_foundation.errors import FoundationError
from amplifier_kit.guard.invisible_characters import printable_json

if TYPE_CHECKING:
    from amplifier_digital_twin.state import Found, Home
    from amplifier_digital_twin.universe import Universe

PASS: Final = 0
FAIL: Final = 1
ERROR: Final = 2
#: Signals that end the program after it has removed what it was making.
SIGNALS: Final = (signal.SIGHUP, signal.SIGINT, signal.SIGTERM)
LEASE: Final = "8h"
#: As `timeout` and container engines have it: no command's own codes.
TIMED_OUT: Final = 124
NOT_RUN: Final = 125
#: The shell's codes for a program that cannot be executed, and for one that is missing.
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_POLL: Final = 0.2
#: Escape sequences and control characters: output of a universe must not control the terminal.
_CONTROL: Final = re.compile(
    r"\x1b(?:\[[0-?]*[ -/]*[@-~]|\][^\x07\x1b]*(?:\x07|\x1b\\)?|[@-Z\\-_])"
    r"|[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069]"
)

_F = TypeVar("_F", bound=Callable[..., Any])


# -- output --


def print_result(record: dict[str, Any], *, is_line: bool = False) -> None:
    """Print the result of a command: one object, indented on a terminal unless it is one of many lines."""
    indent = 2 if sys.stdout.isatty() and not is_line else None
    text = printable_json(json.dumps(record, indent=indent, ensure_ascii=False, default=str))
    try:
        text.encode(sys.stdout.encoding or "utf-8")
    except UnicodeEncodeError:
        # A terminal without the character, or bytes of a file name that are not text: JSON can write both in ASCII.
        text = "".join(char if ord(char) < 128 else json.dumps(char)[1:-1] for char in text)
    sys.stdout.write(f"{text}\n")
    sys.stdout.flush()


def report(text: str) -> None:
    """Write a line to standard error; failure to do so is ignored, because there is nowhere to report it."""
    try:
        encoding = sys.stderr.encoding or "utf-8"
        sys.stderr.write(_CONTROL.sub("", text).encode(encoding, "replace").decode(encoding) + "\n")
        sys.stderr.flush()
    except (OSError, ValueError, AttributeError):
        pass  # closed, full, or a pipe without a reader


def report_error(message: str, remedy: str) -> None:
    """Report what went wrong and what to do, to people alone."""
    report(f"amplifier-digital-twin: {message}" + (f"\n  → {remedy}" if remedy else ""))


def described(error: Exception) -> tuple[str, str, str]:
    """Return code, message and remedy of an error; an unexpected one is printed with its traceback."""
    if isinstance(error, TwinError):
        return error.code, error.message, error.remedy
    if isinstance(error, FoundationError):
        return error.code, str(error), ""
    if isinstance(error, click.ClickException):
        context = getattr(error, "ctx", None)
        where = context.command_path if context is not None else "amplifier-digital-twin"
        return "usage", error.format_message() or "no command given", f"`{where} --help` shows how it is used"
    if isinstance(error, OSError):
        path = os.fsdecode(error.filename) if isinstance(error.filename, bytes | str) else ""
        reason = error.strerror or str(error)
        return "os_error", f"{path}: {reason}" if path else reason, "correct the cause, then try again"
    import traceback

    traceback.print_exception(error)
    return "internal", f"{type(error).__name__}: {error}", "this is a bug of the program: report it with the above"


# -- the program --


class Interrupted(BaseException):
    """A signal asks the program to end."""

    def __init__(self, number: int) -> None:
        super().__init__(f"signal {number}")
        #: What shells expect of a program that a signal ended.
        self.exit_code = 128 + number


class StreamedError(Exception):
    """An error of a command whose standard output belongs to another program: it is reported to people alone."""

    def __init__(self, fault: TwinError) -> None:
        super().__init__(fault.message)
        self.fault = fault


class Program(click.Group):
    """A group that turns errors into JSON and an exit code."""

    def main(self, *arguments: Any, **options: Any) -> Any:
        """Run the program and exit: 0, 1 or 2, or the code of the signal that ended it."""
        options = {"prog_name": "amplifier-digital-twin", **options, "standalone_mode": False}
        is_main = threading.current_thread() is threading.main_thread()
        try:
            with _signals_raise() if is_main else nullcontext():
                status = self._run(arguments, options)
        except (Interrupted, KeyboardInterrupt, click.Abort) as error:
            report("amplifier-digital-twin: stopped")
            status = error.exit_code if isinstance(error, Interrupted) else 130
        sys.exit(status)

    def _run(self, arguments: tuple[Any, ...], options: dict[str, Any]) -> int:
        try:
            code = super().main(*arguments, **options)
            sys.stdout.flush()
            return code if isinstance(code, int) else PASS
        except BrokenPipeError:
            _discard_stdout()
            return FAIL
        except StreamedError as error:
            report_error(error.fault.message, error.fault.remedy)
            return NOT_RUN
        except Exception as error:
            return _print_error(*described(error))


def _print_error(code: str, message: str, remedy: str) -> int:
    try:
        print_result({"error": {"code": code, "message": message, "remedy": remedy}})
    except OSError:
        _discard_stdout()  # the error may be that standard output cannot be written
    report_error(message, remedy)
    return ERROR


def _discard_stdout() -> None:
    """Point standard output at /dev/null, so that the interpreter does not fail to flush it when it ends."""
    nowhere = os.open(os.devnull, os.O_WRONLY)
    os.dup2(nowhere, 1)
    os.close(nowhere)


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


# -- commands that make universes --


def _home() -> Home:
    from amplifier_digital_twin.state import Home

    return Home.of()


def _open(given: str) -> Universe:
    """Return the universe that a user named, which must run."""
    from amplifier_digital_twin.lifecycle import open_universe

    home = _home()
    return open_universe(home.find(given), home, report)


def _launch_options(command: _F) -> _F:
    """Add what `launch` and `check` have in common."""
    options = (
        click.argument("profile"),
        click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a profile's variable."),
        click.option("--name", metavar="NAME", help="Name of the universe, for use instead of its identifier."),
        click.option("--base", metavar="IMAGE", help="Use this base instead of the profile's: host, debian:12."),
        click.option("--backend", metavar="BACKEND", help="podman, docker or incus, instead of the profile's."),
        click.option("--lease", default=LEASE, show_default=True, help="How long it may exist: 30m, 8h, 2d."),
    )
    for option in reversed(options):
        command = option(command)
    return command


def _create(profile: str, variables: tuple[str, ...], **options: Any) -> Universe:
    """Load the profile and make a universe's directory."""
    from amplifier_digital_twin.lifecycle import create
    from amplifier_digital_twin.profile.load import load, parse_variables

    loaded = load(profile, parse_variables(variables))
    for note in loaded.notes:
        report(f"note: {note}")
    return create(loaded, _home(), report, **options)


def _destroy(given: str) -> None:
    from amplifier_digital_twin.lifecycle import destroy as destroy_universe

    home = _home()
    destroy_universe(home.find(given), home)


def _after_failure(universe: Universe, error: BaseException, *, keep: bool) -> None:
    """Destroy a universe whose launch or check failed, unless its user wants to look around in it."""
    universe.log.event("failed", message=str(error), code=getattr(error, "code", "internal"))
    is_wanted = keep or universe.profile.on_failure == "keep"
    if is_wanted and isinstance(error, TwinError) and universe.engine.init_pid(universe.container) is not None:
        universe.release()
        universe.folder.update(phase="failed")
        report(f"the universe is kept: {universe.id}")
        return
    try:
        _destroy(universe.id)
    except TwinError as fault:
        report_error(fault.message, "`amplifier-digital-twin prune --mine` tries again")


@main.command()
@_launch_options
@click.option("--keep", is_flag=True, help="Keep a universe whose launch failed, to look around in it.")
def launch(keep: bool, **options: Any) -> None:
    """Make a universe from PROFILE, a path or the name of a profile that ships, and print how it can be reached.

    It exists until `destroy`, or until its lease is over. Ctrl-C during the launch destroys it.
    """
    universe = _create(**options)
    try:
        record = universe.launch()
    except BaseException as error:
        _after_failure(universe, error, keep=keep)
        raise
    print_result({**_described(_home().find(universe.id)), **record})


@main.command()
@_launch_options
@click.option("--evidence", type=click.Path(path_type=Path), metavar="DIR", help="Directory for the evidence.")
@click.option("--keep", is_flag=True, help="Do not destroy the universe, whatever the verdict.")
def check(evidence: Path | None, keep: bool, **options: Any) -> int:
    """Launch PROFILE, run its checks, collect the evidence and destroy the universe.

    The exit code is the verdict: 0 pass, 1 fail, 2 when it could not be found out. Evidence goes to DIR, a directory
    that is empty or does not exist yet; by default to `digital-twin/evidence/ID` in the home of Amplifier. Ctrl-C
    destroys the universe.
    """
    from amplifier_digital_twin.checks import check_universe, keep_failure

    if evidence is not None and evidence.exists() and (not evidence.is_dir() or any(evidence.iterdir())):
        remedy = "name a directory that is empty or does not exist yet"
        raise TwinError("evidence_exists", f"{evidence}: exists and is not an empty directory", remedy)
    universe = _create(**options)
    folder = evidence.absolute() if evidence is not None else _home().evidence / universe.id
    try:
        launched = universe.launch(is_checked=True)
        result = check_universe(universe, folder)
    except BaseException as error:
        if isinstance(error, TwinError):
            keep_failure(universe, folder, error)
        _after_failure(universe, error, keep=keep)
        raise
    is_passed = result["verdict"] == "pass"
    is_kept = keep or (not is_passed and universe.profile.on_failure == "keep")
    names = {"id": universe.id, "name": universe.name, "profile": universe.profile.name}
    result = {**names, **result, "launch": launched, "kept": is_kept}
    if is_kept:
        universe.release()
    else:
        report("destroying the universe")
        try:
            _destroy(universe.id)
        except TwinError as error:
            print_result({**result, "left_behind": error.record()})
            report_error(error.message, error.remedy)
            return ERROR
    print_result(result)
    report(f"verdict: {result['verdict']}")
    return PASS if is_passed else FAIL


@main.command()
@click.argument("profile")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a profile's variable.")
@click.option("--base", metavar="IMAGE", help="Plan with this base instead of the profile's.")
@click.option("--backend", metavar="BACKEND", help="Plan with this engine instead of the profile's.")
def validate(profile: str, variables: tuple[str, ...], base: str | None, backend: str | None) -> int:
    """Check PROFILE and report how it would be launched here: exit code 1 when it is valid, but cannot be launched."""
    from amplifier_digital_twin.engines.select import select_engine
    from amplifier_digital_twin.profile.load import load, parse_variables

    loaded = load(profile, parse_variables(variables))
    for note in loaded.notes:
        report(f"note: {note}")
    plan: dict[str, Any]
    try:
        engine, notes = select_engine(loaded.profile, backend)
        plan = {"backend": engine.name, "base": base or loaded.profile.base.image, "notes": notes}
    except TwinError as error:
        report_error(error.message, error.remedy)
        plan = {"error": error.record()}
    print_result({"name": loaded.profile.name, **loaded.describe(), "plan": plan})
    return FAIL if "error" in plan else PASS


@main.command()
def doctor() -> int:
    """Report what this machine can do and why something does not work: exit code 1 when no universe can be made."""
    from amplifier_digital_twin.doctor import examine

    record = examine(_home())
    print_result(record)
    for remedy in record["remedies"]:
        report(f"→ {remedy}")
    return PASS if record["usable"] else FAIL


# -- commands on universes --


@main.command("exec")
@click.argument("given", metavar="ID")
@click.argument("command", metavar="-- CMD...", nargs=-1, required=True, type=click.UNPROCESSED)
@click.option("--user", metavar="USER", help="User of the command: the profile's user, or root.")
@click.option("--timeout", type=click.FloatRange(min=0, min_open=True), metavar="SECONDS", help="How long it may take.")
@click.option("--stream", is_flag=True, help="Pass its output through, and end with its exit code.")
def exec_(given: str, command: tuple[str, ...], user: str | None, timeout: float | None, stream: bool) -> int:
    """Run a command in a universe. One word is a line for the shell; more than one are taken as they are.

    Prints {id, exit_code, stdout, stderr, timed_out, seconds}; the program's exit code is 0 when the command's is, else
    1. With --stream it is the command's own, 124 at a timeout, 125 when it could not be run. Ctrl-C ends the command.
    """
    try:
        universe = _open(given)
        words = command[0] if len(command) == 1 else command
        finished = universe.run(words, user=user, timeout=timeout, is_streamed=stream)
    except TwinError as error:
        if stream:
            raise StreamedError(error) from error
        raise
    if stream:
        if finished.is_timed_out:
            report(f"amplifier-digital-twin: the command was ended after {timeout:g} s")
        return TIMED_OUT if finished.is_timed_out else finished.exit_code
    print_result(
        {
            "id": universe.id,
            "exit_code": finished.exit_code,
            "stdout": finished.stdout.decode("utf-8", "replace"),
            "stderr": finished.stderr.decode("utf-8", "replace"),
            "timed_out": finished.is_timed_out,
            "seconds": round(finished.seconds, 3),
        }
    )
    return PASS if finished.exit_code == 0 and not finished.is_timed_out else FAIL


@main.command("check-readiness")
@click.argument("given", metavar="ID")
def check_readiness(given: str) -> int:
    """Look once at every sign of readiness that the profile names: exit code 0 when all are there, else 1."""
    universe = _open(given)
    results = universe.check_readiness(once=True)
    is_ready = all(item["ready"] for item in results)
    print_result({"id": universe.id, "ready": is_ready, "readiness": results})
    return PASS if is_ready else FAIL


@main.command()
@click.argument("given", metavar="ID")
def destroy(given: str) -> None:
    """End a universe and remove every trace of it, also one that has crashed."""
    identifier = _home().find(given).state.id
    _destroy(identifier)
    print_result({"id": identifier, "destroyed": True})


@main.command("file-pull")
@click.argument("given", metavar="ID")
@click.argument("source")
@click.argument("destination", type=click.Path(path_type=Path))
def file_pull(given: str, source: str, destination: Path) -> None:
    """Copy SOURCE of a universe, a file, directory or glob, to DESTINATION on this machine; links are not followed."""
    destination = destination.absolute()
    if not destination.parent.is_dir():
        raise TwinError("file_missing", f"{destination.parent}: no such directory", "make it first")
    universe = _open(given)
    print_result({"id": universe.id, **universe.pull(source, destination)})


@main.command("file-push")
@click.argument("given", metavar="ID")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination")
@click.option("-r", "--recursive", is_flag=True, help="SOURCE is a directory.")
@click.option("--create-dirs/--no-create-dirs", default=True, show_default=True, help="Make the directories above it.")
@click.option("--mode", metavar="OCTAL", help="Permissions, as in 644.")
@click.option("--uid", type=click.IntRange(0), help="Owner inside.")
@click.option("--gid", type=click.IntRange(0), help="Group inside.")
def file_push(given: str, source: Path, destination: str, mode: str | None, **options: Any) -> None:
    """Copy the file SOURCE of this machine, or a directory, to DESTINATION in a universe."""
    from amplifier_digital_twin.profile.model import PushedFile

    source = source.absolute()
    if not source.exists():
        raise TwinError("file_missing", f"{source}: no such file", "name one that exists")
    if mode is not None and re.fullmatch("[0-7]{3,4}", mode) is None:
        raise TwinError("bad_argument", f"invalid --mode {mode!r}", "write permissions in octal, like 644 or 0755")
    universe = _open(given)
    permissions = int(mode, 8) if mode is not None else None
    file = PushedFile.model_construct(src=source, dest=destination, mode=permissions, **options)
    print_result({"id": universe.id, "path": universe.push(file)})


@main.command("list")
def list_() -> None:
    """List all universes, the oldest first; `phase` is `dead` for those that no longer run."""
    universes, faults = _home().find_all()
    for error in faults.values():
        report_error(error.message, error.remedy)
    found = {str(folder): error.record() for folder, error in faults.items()}
    print_result({"universes": [_described(each) for each in universes], "faults": found})


def _described(found: Found) -> dict[str, Any]:
    """Return what is known of a universe without asking its engine."""
    from datetime import UTC, datetime

    state = found.state
    times = {
        name: datetime.fromtimestamp(seconds, UTC).isoformat(timespec="seconds").replace("+00:00", "Z")
        for name, seconds in (("created", state.created), ("lease_until", state.lease_until))
    }
    return {
        "id": state.id,
        "name": state.name,
        "profile": state.profile,
        "profile_path": str(state.profile_path),
        "phase": state.phase if state.is_alive else "dead",
        "last_phase": state.phase,
        "backend": state.engine or None,
        "owner": state.owner,
        "mine": not found.foreign_reason,
        **times,
        "ports": list(state.ports),
        "folder": str(found.folder.path),
    }


@main.command()
@click.argument("given", metavar="ID")
def status(given: str) -> int:
    """Report the state of a universe: exit code 0 when it is ready, 1 when it is launching, has failed or is dead."""
    found = _home().find(given)
    found.refuse_foreign()
    record = _described(found)
    if record["phase"] == "ready":
        record |= _open(given).status()
    print_result(record)
    return PASS if record["phase"] == "ready" else FAIL


@main.command()
@click.argument("given", metavar="ID")
@click.option(
    "--source",
    type=click.Choice(["universe", "gateway", "keeper"]),
    default="universe",
    show_default=True,
    help="Which log.",
)
@click.option("--tail", type=click.IntRange(0), default=200, show_default=True, help="How many lines, from the end.")
@click.option("--follow", is_flag=True, help="Continue, one JSON object per line, until the universe ends.")
def logs(given: str, source: str, tail: int, follow: bool) -> None:
    """Show what happened in a universe, also in one that has crashed.

    `universe` is its own log, `gateway` every request to its services, `keeper` what the processes that serve it wrote
    to their standard streams.
    """
    found = _home().find(given)
    found.refuse_foreign()
    folder = found.folder
    path = {"universe": folder.log, "gateway": folder.requests, "keeper": folder.services_log}[source]
    lines, rest = _complete_lines(path, 0)
    kept = lines[-tail:] if tail else []
    if not follow:
        entries = [_entry(line) for line in kept]
        print_result({"id": found.state.id, "source": source, "entries": entries, "cut": len(lines) - len(kept)})
        return
    for line in chain(kept, _following(found, path, rest)):
        print_result(_entry(line), is_line=True)


def _following(found: Found, path: Path, offset: int) -> Iterator[bytes]:
    is_over = False
    while not is_over:
        try:
            is_over = not found.folder.read().is_alive
        except TwinError:
            is_over = True
        lines, offset = _complete_lines(path, offset)
        yield from lines
        if not lines and not is_over:
            time.sleep(_POLL)


def _complete_lines(path: Path, offset: int) -> tuple[list[bytes], int]:
    """Return the complete lines from an offset on, and the offset behind them."""
    try:
        with open(path, "rb") as file:
            file.seek(offset)
            data = file.read()
    except FileNotFoundError:
        return [], offset
    end = data.rfind(b"\n") + 1
    return data[:end].splitlines(), offset + end


def _entry(line: bytes) -> dict[str, Any]:
    """Return a line of a log as an object; one that is not JSON as text."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) else {"text": line.decode("utf-8", "replace")}


@main.command()
@click.option("--mine", is_flag=True, required=True, help="Only your own: required, there is no other way.")
def prune(mine: bool) -> int:
    """Remove what crashed universes of yours left; running ones and other users' stay untouched."""
    from amplifier_digital_twin.lifecycle import prune as prune_all

    record = prune_all(_home())
    for error in record["failed"].values():
        report_error(error["message"], error["remedy"])
    print_result(record)
    return FAIL if record["failed"] else PASS


@main.command()
@click.argument("given", metavar="ID")
@click.argument("name", required=False)
def reset(given: str, name: str | None) -> None:
    """Take the file system of a universe back to the snapshot NAME, or to its start; all that runs inside ends."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.reset(name)})


@main.command()
@click.argument("given", metavar="ID")
@click.argument("name")
def snapshot(given: str, name: str) -> None:
    """Keep the file system of a universe as it is under NAME, for `reset`."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.snapshot(name)})


@main.command()
@click.argument("given", metavar="ID")
def update(given: str) -> None:
    """Serve the repositories of a universe as they are now, and run the commands of `update` in its profile."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.update()})


if __name__ == "__main__":
    main()
