"""`exec ID -- CMD...` and `launch PROFILE`, which are used most, without reading what the command line is read with.

Only what is plain is done here. Whatever else there is to it (other options, the beginning of an identifier, a universe
that is dead or another's, a path that must be looked at twice) is left to the program, before anything has happened.
"""

from __future__ import annotations

import json
import os
import stat
import sys

TYPE_CHECKING = False
if TYPE_CHECKING:
    import _socket
    from collections.abc import Callable
    from typing import Any

_SCHEMA = 1
_PIECE = 65536


def exec_quickly(arguments: list[str]) -> int | None:
    """Run a command in a universe and return the program's exit code; None when that is not for here."""
    is_plain = len(arguments) >= 4 and arguments[0] == "exec" and arguments[2] == "--"
    if not is_plain or arguments[1].startswith("-"):
        return None
    identifier, folder = _universe(arguments[1]) or ("", "")
    connection = _connected(folder) if folder else None
    if connection is None:
        return None
    command = arguments[3:]
    try:
        return _done(lambda: _exec(connection, identifier, command[0] if len(command) == 1 else command))
    finally:
        connection.close()


def launch_quickly(arguments: list[str]) -> int | None:
    """Launch a universe and return the program's exit code; None when that is not for here."""
    given = _launch_arguments(arguments[1:]) if arguments[:1] == ["launch"] else None
    if given is None:
        return None
    from amplifier_digital_twin.cli.answers import answer
    from amplifier_digital_twin.cli.launching import Options, run_universe

    options = Options(given["profile"][0], tuple(given["--var"]), next(iter(given["--name"]), None))

    def launch() -> int:
        run_universe("launch", options, None, tell=answer)
        return 0

    return _done(launch)


def _launch_arguments(words: list[str]) -> dict[str, list[str]] | None:
    """Return the values of a profile, `--var` and `--name`, the first exactly once and the last at most; else None."""
    found: dict[str, list[str]] = {"profile": [], "--var": [], "--name": []}
    rest = iter(words)
    for word in rest:
        name = word if word in found and word.startswith("-") else "profile"
        value = word if name == "profile" else next(rest, "-")
        if value.startswith("-"):
            return None
        found[name].append(value)
    return found if len(found["profile"]) == 1 and len(found["--name"]) <= 1 else None


def _done(work: Callable[[], int]) -> int:
    """Do work that prints its answer; return its exit code, or that of what went wrong, which is printed."""
    from amplifier_digital_twin.cli.answers import forget_stdout, say
    from amplifier_digital_twin.cli.interruption import Interrupted, interruptible

    try:
        with interruptible():
            try:
                return work()
            except BrokenPipeError:
                forget_stdout()
                return 1
            except Exception as error:
                from amplifier_digital_twin.cli.failures import tell

                return tell(error)
    except Interrupted as error:
        say("amplifier-digital-twin: stopped")
        return error.exit_code


def _universe(given: str) -> tuple[str, str] | None:
    """Return identifier and folder of the universe that has exactly this identifier or name, and is the user's."""
    home = os.environ.get("AMPLIFIER_HOME") or os.path.join(os.environ.get("HOME", ""), ".amplifier")
    universes = f"{home}/digital-twin/universes"
    if not home.startswith("/") or not (_is_own(f"{home}/digital-twin") and _is_own(universes)):
        return None
    try:
        names = os.listdir(universes)
    except OSError:
        return None
    for name in names:
        state = _state(f"{universes}/{name}")
        if state is None:
            continue
        folder = f"{universes}/{state['id']}"
        if given in (state["id"], state["name"]):
            return (state["id"], folder) if state["owner"] == os.geteuid() and _is_own(folder) else None
    return None


def _is_own(folder: str) -> bool:
    try:
        status = os.lstat(folder)
    except OSError:
        return False
    return stat.S_ISDIR(status.st_mode) and status.st_uid == os.geteuid()


def _state(folder: str) -> dict[str, Any] | None:
    """Return the state of a universe as far as it is needed here; None for what is not quite one."""
    try:
        with open(f"{folder}/state.json", "rb") as file:
            state: dict[str, Any] = json.load(file)
        is_one = state["schema"] == _SCHEMA and state["id"] == os.path.basename(folder)
        return state if is_one and state.keys() >= {"name", "owner"} else None
    except (OSError, ValueError, KeyError, TypeError, AttributeError):
        return None


def _connected(folder: str) -> _socket.socket | None:
    import _socket

    try:
        descriptor = os.open(folder, os.O_PATH | os.O_DIRECTORY | os.O_CLOEXEC)
    except OSError:
        return None
    connection = _socket.socket(_socket.AF_UNIX, _socket.SOCK_STREAM | _socket.SOCK_CLOEXEC)
    try:
        # A path that fits, however long the folder's is.
        connection.connect(f"/proc/self/fd/{descriptor}/control.sock")
    except OSError:
        connection.close()
        return None
    finally:
        os.close(descriptor)
    return connection


def _exec(connection: _socket.socket, identifier: str, command: str | list[str]) -> int:
    from amplifier_digital_twin.cli.answers import answer

    result = {"id": identifier, **_asked(connection, command)}
    answer(result)
    return 0 if result["exit_code"] == 0 and not result["timed_out"] else 1


def _asked(connection: _socket.socket, command: str | list[str]) -> dict[str, Any]:
    """Ask the keeper to run a command and return what it answers; raise TwinError for an error."""
    from amplifier_digital_twin.cli.answers import say
    from amplifier_digital_twin.errors import TwinError

    try:
        request = {"op": "exec", "command": command, "user": None, "timeout": None}
        connection.sendall(json.dumps(request).encode() + b"\n")
        waiting = b""
        while piece := connection.recv(_PIECE):
            *lines, waiting = (waiting + piece).split(b"\n")
            for record in map(json.loads, lines):
                if "progress" in record:
                    say(record["progress"])
                elif (error := record.get("error")) is not None:
                    raise TwinError(error["code"], error["message"], error["remedy"])
                elif "result" in record:
                    dropped = {"dropped_bytes": record["dropped"]} if record.get("dropped") else {}
                    return {**record["result"], **dropped}
        why = "the connection ended"
    except (ConnectionError, ValueError) as error:
        why = str(error)
    from amplifier_digital_twin.control_client import fallen_silent

    raise fallen_silent(why)


def main() -> None:
    """Do what can be done here and exit; return otherwise."""
    arguments = sys.argv[1:]
    code = exec_quickly(arguments)
    if code is None:
        code = launch_quickly(arguments)
    if code is not None:
        sys.exit(code)
