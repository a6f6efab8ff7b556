"""`exec` and `launch` in their plain form take a short way, which nobody can tell from the long one but by the time."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

_SPY = """
import atexit, sys
sys.argv = ["amplifier-digital-twin", *sys.argv[1:]]
atexit.register(lambda: print("click" in sys.modules, file=sys.stderr))
from amplifier_digital_twin.program import run
run()
"""


def _run(twin: Any, *arguments: str, **environ: str) -> tuple[int, str, bool]:
    """Run the program; return its exit code, what it printed, and whether it took the long way."""
    done = subprocess.run(
        [sys.executable, "-c", _SPY, *arguments],
        env={**twin.environ, **environ},
        cwd="/",
        stdin=subprocess.DEVNULL,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    return done.returncode, done.stdout, done.stderr.splitlines()[-1] == "True"


def _told(output: str) -> dict[str, Any]:
    record: dict[str, Any] = json.loads(output)
    record.pop("seconds", None)
    return record


@pytest.mark.parametrize(
    "command", [["echo out; echo err >&2; exit 3"], ["echo", "$HOME", "a  b"], ["true"], ["nosuch"]]
)
def test_both_ways_say_the_same(twin: Any, command: list[str]) -> None:
    """By identifier and by name, a line or words: same answer, same exit code."""
    identifier = twin.launch("--name", "mine")
    long = _run(twin, "exec", "--timeout", "60", identifier, "--", *command)
    assert long[2]
    for given in (identifier, "mine"):
        code, output, is_long = _run(twin, "exec", given, "--", *command)
        assert (code, _told(output), is_long) == (long[0], _told(long[1]), False)


def test_what_is_not_plain_goes_the_long_way(twin: Any) -> None:
    """The beginning of an identifier, an unknown one, a home that is not absolute: told by the whole program."""
    identifier = twin.launch()
    assert _run(twin, "exec", identifier[:8], "--", "true")[::2] == (0, True)
    code, output, is_long = _run(twin, "exec", "nobody", "--", "true")
    assert (code, _told(output)["error"]["code"], is_long) == (2, "universe_unknown", True)
    home = os.path.relpath(twin.home, "/")
    assert _run(twin, "exec", identifier, "--", "true", AMPLIFIER_HOME=home)[::2] == (0, True)
    assert _run(twin, "exec", identifier, "--")[::2] == (2, True)


def test_universe_without_a_keeper(twin: Any) -> None:
    """A universe whose keeper was killed is told as dead, as ever."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    code, output, is_long = _run(twin, "exec", identifier, "--", "true")
    assert (code, _told(output)["error"]["code"], is_long) == (2, "universe_dead", True)


def test_folder_that_is_a_link_is_not_trusted(twin: Any, tmp_path: Path) -> None:
    """A link in place of the universe's folder leads nowhere on the short way, and is refused on the long one."""
    identifier = twin.launch()
    folder = twin.folder / "universes" / identifier
    folder.rename(tmp_path / "elsewhere")
    folder.symlink_to(tmp_path / "elsewhere")
    try:
        code, output, is_long = _run(twin, "exec", identifier, "--", "true")
        assert (code, _told(output)["error"]["code"], is_long) == (2, "not_yours", True)
    finally:
        folder.unlink()
        (tmp_path / "elsewhere").rename(folder)


def test_signal_ends_the_command(twin: Any, wait_until: Callable[..., None], runs: Callable[[int], bool]) -> None:
    """SIGTERM ends the program with its code and words, and the command with it."""
    identifier = twin.launch()
    note = twin.home / "pid"
    process = twin.start("exec", identifier, "--", f"echo $$ > {note}; exec sleep 600")
    wait_until(lambda: note.exists() and note.read_text(encoding="utf-8").strip())
    process.send_signal(signal.SIGTERM)
    _, said = process.communicate(timeout=60)
    assert (process.returncode, said) == (143, "amplifier-digital-twin: stopped\n")
    wait_until(lambda: not runs(int(note.read_text(encoding="utf-8"))))


def _launched(output: str) -> dict[str, Any]:
    record = _told(output)
    for name in ("id", "name", "timings"):
        record.pop(name, None)
    return record


def test_both_ways_launch_the_same(twin: Any) -> None:
    """The profile, variables and a name in any order: the same answer as with an option that takes the long way."""
    profile = str(twin.profile)
    long = _run(twin, "launch", profile, "--lease", "1h")
    assert long[::2] == (0, True)
    for arguments in ([profile], ["--name", "one", profile], [profile, "--var", "MODE=ok", "--name", "two"]):
        code, output, is_long = _run(twin, "launch", *arguments)
        assert (code, _launched(output), is_long) == (0, _launched(long[1]), False)
    assert {twin.state(identifier)["name"] for identifier in twin.universes()} == {None, "one", "two"}


@pytest.mark.parametrize(
    "arguments",
    [
        [],
        ["P", "P"],
        ["P", "--var"],
        ["P", "--var", "--name"],
        ["P", "--nam", "x"],
        ["P", "--name", "a", "--name", "b"],
        ["P", "--keep"],
        ["--", "P"],
        ["--help"],
    ],
)
def test_launch_that_is_not_plain_goes_the_long_way(twin: Any, arguments: list[str]) -> None:
    """Whatever else is on the command line is read, or refused, by the whole program."""
    given = [str(twin.profile) if word == "P" else word for word in arguments]
    assert _run(twin, "launch", *given)[2]


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["/no/such.yaml"], "profile_unknown"),
        (["P", "--var", "MODE"], "bad_argument"),
        (["P", "--name", "a/b"], "name_invalid"),
        (["P", "--var", "MODE=fail"], "pretend_failed"),
    ],
)
def test_faults_of_a_plain_launch(twin: Any, arguments: list[str], code: str) -> None:
    """They are told as ever: JSON on standard output, exit code 2, and nothing stays."""
    given = [str(twin.profile) if word == "P" else word for word in arguments]
    ended, output, _ = _run(twin, "launch", *given)
    assert (ended, _told(output)["error"]["code"], twin.universes()) == (2, code, [])
