"""The commands, from their options to what they print."""

from __future__ import annotations

import json
import os
import sys
import time
from collections.abc import Callable, Iterator
from itertools import chain
from pathlib import Path
from typing import Any, Final, TypeVar

import click

from amplifier_digital_twin.cli.main import ERROR, FAIL, PASS, StreamedError
from amplifier_digital_twin.cli.output import print_line, print_result, report, report_error
from amplifier_digital_twin.errors import TwinError
from amplifier_digital_twin.state import Found, Home, check_name, timestamp

LEASE: Final = "8h"
#: As `timeout` and container engines have it: no command's own codes.
TIMED_OUT: Final = 124
NOT_RUN: Final = 125
#: The shell's codes for a program that cannot be executed, and for one that is missing.
NOT_EXECUTABLE: Final = 126
NOT_FOUND: Final = 127
_POLL: Final = 0.2

_F = TypeVar("_F", bound=Callable[..., Any])


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


@click.command()
@_launch_options
@click.option("--keep", is_flag=True, help="Keep a universe whose launch failed, to look around in it.")
def launch(keep: bool, **options: Any) -> None:
    """Make a universe from PROFILE, a path or the name of a profile that ships, and print how it can be reached.

    It exists until `destroy`, or until its lease is over. Ctrl-C during the launch destroys it.
    """
    universe, home = _create(options)
    try:
        record = universe.launch()
    except BaseException as error:
        _after_failure(universe, home, error, keep=keep)
        raise
    found = home.find(universe.id)
    print_result({**_described(found), **record})


@click.command()
@_launch_options
@click.option("--evidence", type=click.Path(path_type=Path), metavar="DIR", help="Directory for the evidence.")
@click.option("--keep", is_flag=True, help="Do not destroy the universe, whatever the verdict.")
def check(evidence: Path | None, keep: bool, **options: Any) -> int:
    """Launch PROFILE, run its checks, collect the evidence and destroy the universe.

    The exit code is the verdict: 0 pass, 1 fail, 2 when it could not be found out. Evidence goes to DIR, a directory
    that is empty or does not exist yet; by default to `digital-twin/evidence/ID` in the home of Amplifier. Ctrl-C
    destroys the universe.
    """
    from amplifier_digital_twin.check import check_universe, keep_failure
    from amplifier_digital_twin.lifecycle import destroy as destroy_universe

    folder = _empty(evidence)
    universe, home = _create(options)
    folder = folder or home.evidence / universe.id
    try:
        launched = universe.launch(is_checked=True)
        result = check_universe(universe, folder)
    except BaseException as error:
        if isinstance(error, TwinError):
            keep_failure(universe, folder, error)
        _after_failure(universe, home, error, keep=keep)
        raise
    names = {"id": universe.id, "name": universe.name, "profile": universe.profile.name}
    is_kept = keep or (result["verdict"] != "pass" and universe.profile.on_failure == "keep")
    result = {**names, **result, "launch": launched, "kept": is_kept}
    if is_kept:
        universe.release()
    else:
        report("destroying the universe")
        try:
            destroy_universe(home.find(universe.id), home)
        except TwinError as error:
            print_result({**result, "left_behind": error.record()})
            report_error(error.message, error.remedy)
            return ERROR
    print_result(result)
    report(f"verdict: {result['verdict']}")
    return PASS if result["verdict"] == "pass" else FAIL


def _create(options: dict[str, Any]) -> tuple[Any, Home]:
    """Load the profile and make a universe's directory."""
    from amplifier_digital_twin.lifecycle import Request, create
    from amplifier_digital_twin.profile.load import load
    from amplifier_digital_twin.profile.variables import parse_variables

    profile, _, notes = load(options["profile"], parse_variables(options["variables"]), os.environ)
    for note in notes:
        report(f"note: {note}")
    home = Home.of()
    request = Request(profile, options["name"], options["base"], options["backend"], options["lease"])
    return create(request, home, os.environ, report), home


def _after_failure(universe: Any, home: Home, error: BaseException, *, keep: bool) -> None:
    """Destroy a universe whose launch or check failed, unless its user wants to look around in it."""
    from amplifier_digital_twin.lifecycle import destroy as destroy_universe

    universe.log.event("failed", message=str(error), code=getattr(error, "code", "internal"))
    is_wanted = keep or universe.profile.on_failure == "keep"
    if is_wanted and isinstance(error, TwinError) and universe.engine.init_pid(universe.container) is not None:
        universe.release()
        universe.folder.update(phase="failed")
        report(f"the universe is kept: {universe.id}")
        return
    try:
        destroy_universe(home.find(universe.id), home)
    except TwinError as fault:
        report_error(fault.message, "`amplifier-digital-twin prune --mine` tries again")


def _empty(folder: Path | None) -> Path | None:
    """Return the absolute path of a directory for evidence; raise TwinError when it is not empty."""
    if folder is None:
        return None
    folder = folder.absolute()
    if folder.exists() and (not folder.is_dir() or any(folder.iterdir())):
        remedy = "name a directory that is empty or does not exist yet"
        raise TwinError("evidence_exists", f"{folder}: exists and is not an empty directory", remedy)
    return folder


def _open(given: str) -> Any:
    """Return the universe that a user named, which must run."""
    from amplifier_digital_twin.lifecycle import open_universe

    home = Home.of()
    return open_universe(home.find(given), home, os.environ, report)


@click.command("exec")
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
    words: Any = command[0] if len(command) == 1 else list(command)
    try:
        universe = _open(given)
        finished = universe.run(words, user=user, timeout=timeout, output=_pass_on if stream else None)
    except TwinError as error:
        if stream:
            raise StreamedError(error, NOT_RUN) from error
        raise
    if stream:
        if finished.is_timed_out:
            report(f"amplifier-digital-twin: the command was ended after {timeout:g} s")
        return TIMED_OUT if finished.is_timed_out else int(finished.exit_code)
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


def _pass_on(stream: str, data: bytes) -> None:
    target = sys.stdout.buffer if stream == "stdout" else sys.stderr.buffer
    target.write(data)
    target.flush()


@click.command("check-readiness")
@click.argument("given", metavar="ID")
def check_readiness(given: str) -> int:
    """Look once at every sign of readiness that the profile names: exit code 0 when all are there, else 1."""
    universe = _open(given)
    results = universe.check_readiness(once=True)
    is_ready = all(item["ready"] for item in results)
    print_result({"id": universe.id, "ready": is_ready, "readiness": results})
    return PASS if is_ready else FAIL


@click.command()
@click.argument("given", metavar="ID")
def destroy(given: str) -> None:
    """End a universe and remove every trace of it, also one that has crashed."""
    from amplifier_digital_twin.lifecycle import destroy as destroy_universe

    home = Home.of()
    found = home.find(given)
    destroy_universe(found, home)
    print_result({"id": found.state.id, "destroyed": True})


@click.command()
def doctor() -> int:
    """Report what this machine can do and why something does not work: exit code 1 when no universe can be made."""
    from amplifier_digital_twin.doctor import examine

    record = examine(Home.of())
    print_result(record)
    for remedy in record["remedies"]:
        report(f"→ {remedy}")
    return PASS if record["usable"] else FAIL


@click.command("file-pull")
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


@click.command("file-push")
@click.argument("given", metavar="ID")
@click.argument("source", type=click.Path(path_type=Path))
@click.argument("destination")
@click.option("-r", "--recursive", is_flag=True, help="SOURCE is a directory.")
@click.option("--create-dirs/--no-create-dirs", default=True, show_default=True, help="Make the directories above it.")
@click.option("--mode", metavar="OCTAL", help="Permissions, as in 644.")
@click.option("--uid", type=click.IntRange(0), help="Owner inside.")
@click.option("--gid", type=click.IntRange(0), help="Group inside.")
def file_push(given: str, source: Path, destination: str, **options: Any) -> None:
    """Copy the file SOURCE of this machine, or a directory, to DESTINATION in a universe."""
    from amplifier_digital_twin.profile.model import PushedFile

    source = source.absolute()
    if not source.exists():
        raise TwinError("file_missing", f"{source}: no such file", "name one that exists")
    universe = _open(given)
    options["mode"] = _mode(options["mode"])
    file = PushedFile.model_construct(src=source, dest=destination, **options)
    print_result({"id": universe.id, "path": universe.push(file)})


def _mode(text: str | None) -> int | None:
    if text is None:
        return None
    try:
        mode = int(text, 8)
    except ValueError:
        mode = -1
    if not 0 <= mode <= 0o7777:
        raise TwinError("bad_argument", f"invalid --mode {text!r}", "write permissions in octal, like 644 or 0755")
    return mode


@click.command("list")
def list_() -> None:
    """List all universes, the oldest first; `phase` is `dead` for those that no longer run."""
    universes, faults = Home.of().find_all()
    for error in faults.values():
        report_error(error.message, error.remedy)
    print_result(
        {
            "universes": [_described(found) for found in universes],
            "faults": {str(folder): error.record() for folder, error in faults.items()},
        }
    )


def _described(found: Found) -> dict[str, Any]:
    """Return what is known of a universe without asking its engine."""
    state = found.state
    return {
        "id": state.id,
        "name": state.name,
        "profile": state.profile,
        "profile_path": state.profile_path,
        "phase": state.phase if state.is_alive else "dead",
        "last_phase": state.phase,
        "backend": state.engine or None,
        "owner": state.owner,
        "mine": found.is_mine,
        "created": timestamp(state.created),
        "lease_until": timestamp(state.lease_until),
        "ports": list(state.ports),
        "folder": str(found.folder.path),
    }


@click.command()
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
    from amplifier_digital_twin.lifecycle import refuse_foreign

    home = Home.of()
    found = home.find(given)
    refuse_foreign(found)
    folder = found.folder
    path = {"universe": folder.log, "gateway": folder.requests, "keeper": folder.services_log}[source]
    lines, rest = _complete_lines(path, 0)
    kept = lines[-tail:] if tail else []
    if not follow:
        entries = [_entry(line) for line in kept]
        print_result({"id": found.state.id, "source": source, "entries": entries, "cut": len(lines) - len(kept)})
        return
    for line in chain(kept, _following(found, path, rest)):
        print_line(_entry(line))


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
    """Return a line of a log as an object; one that is no JSON as text."""
    try:
        entry = json.loads(line)
    except ValueError:
        entry = None
    return entry if isinstance(entry, dict) else {"text": line.decode("utf-8", "replace")}


@click.command()
@click.option("--mine", is_flag=True, required=True, help="Only your own: required, there is no other way.")
def prune(mine: bool) -> int:
    """Remove what crashed universes of yours left; running ones and other users' stay untouched."""
    from amplifier_digital_twin.lifecycle import prune as prune_all

    if not mine:
        raise click.UsageError("say --mine: other users' universes are never touched")
    record = prune_all(Home.of())
    for error in record["failed"].values():
        report_error(error["message"], error["remedy"])
    print_result(record)
    return FAIL if record["failed"] else PASS


@click.command()
@click.argument("given", metavar="ID")
@click.argument("name", required=False)
def reset(given: str, name: str | None) -> None:
    """Take the file system of a universe back to the snapshot NAME, or to its start; all that runs inside ends."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.reset(None if name is None else check_name(name))})


@click.command()
@click.argument("given", metavar="ID")
@click.argument("name")
def snapshot(given: str, name: str) -> None:
    """Keep the file system of a universe as it is under NAME, for `reset`."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.snapshot(check_name(name))})


@click.command()
@click.argument("given", metavar="ID")
def status(given: str) -> int:
    """Report the state of a universe: exit code 0 when it is ready, 1 when it is launching, has failed or is dead."""
    from amplifier_digital_twin.lifecycle import refuse_foreign

    found = Home.of().find(given)
    refuse_foreign(found)
    record = _described(found)
    if found.state.is_alive and found.state.phase == "ready":
        record = {**record, **_open(given).status()}
    print_result(record)
    return PASS if record["phase"] == "ready" else FAIL


@click.command()
@click.argument("given", metavar="ID")
def update(given: str) -> None:
    """Serve the repositories of a universe as they are now, and run the commands of `update` in its profile."""
    universe = _open(given)
    print_result({"id": universe.id, **universe.update()})


@click.command()
@click.argument("profile")
@click.option("--var", "variables", multiple=True, metavar="NAME=VALUE", help="Value of a profile's variable.")
@click.option("--base", metavar="IMAGE", help="Plan with this base instead of the profile's.")
@click.option("--backend", metavar="BACKEND", help="Plan with this engine instead of the profile's.")
def validate(profile: str, variables: tuple[str, ...], base: str | None, backend: str | None) -> int:
    """Check PROFILE and report how it would be launched here: exit code 1 when it is valid, but cannot be launched."""
    from amplifier_digital_twin.engines.select import select_engine
    from amplifier_digital_twin.profile.load import describe, load
    from amplifier_digital_twin.profile.variables import parse_variables

    loaded = load(profile, parse_variables(variables), os.environ)
    for note in loaded.notes:
        report(f"note: {note}")
    plan: dict[str, Any]
    try:
        engine, notes = select_engine(loaded.profile, backend)
        plan = {"backend": engine.name, "base": base or loaded.profile.base.image, "notes": list(notes)}
    except TwinError as error:
        report_error(error.message, error.remedy)
        plan = {"error": error.record()}
    print_result({"name": loaded.profile.name, **describe(loaded), "plan": plan})
    return FAIL if "error" in plan else PASS
