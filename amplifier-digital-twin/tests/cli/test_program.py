"""What holds for every command: JSON on standard output, words on standard error, exit codes."""

from __future__ import annotations

import os
import pty
import subprocess
import sys
from typing import Any

import pytest
from click import Context

from amplifier_digital_twin.main import main


def test_version_is_one_line(twin: Any) -> None:
    """`--version` prints name and version."""
    assert twin.run("--version").stdout == "amplifier-digital-twin 3.0.0\n"


def test_help_lists_every_command(twin: Any) -> None:
    """All commands are there under their published names."""
    published = {"launch", "exec", "check-readiness", "update", "status", "list", "file-push", "file-pull", "destroy"}
    ours = {"doctor", "validate", "check", "logs", "snapshot", "reset", "prune"}
    assert set(main.list_commands(Context(main))) == published | ours
    text = twin.run("--help").stdout
    for name in main.list_commands(Context(main)):
        assert f"\n  {name} " in text
        assert twin.run(name, "--help").code == 0


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        ((), "nothing was asked for"),
        (("lanuch",), "did you mean 'launch'?"),
        (("launch",), "Missing argument 'PROFILE'"),
        (("list", "--all"), "--all"),
        (("launch", "no-such-profile"), "no-such-profile"),
        (("status", "nobody"), "nobody"),
    ],
)
def test_mistakes_are_json_and_words(twin: Any, arguments: tuple[str, ...], words: str) -> None:
    """Every error is {code, message, remedy} for programs, and readable for people; the exit code is 2."""
    ended = twin.run(*arguments)
    assert ended.code == 2
    assert set(ended.record) == {"error"}
    assert set(ended.record["error"]) == {"code", "message", "remedy"}
    assert words in ended.record["error"]["message"] + ended.record["error"]["remedy"]
    assert ended.stderr.startswith("amplifier-digital-twin: ")


@pytest.mark.parametrize("closed", ["<&-", ">&-", "2>&-", "<&- >&-", "<&- >&- 2>&-"])
def test_closed_streams_lead_nowhere(twin: Any, closed: str) -> None:
    """A caller that has closed a standard stream gets a universe all the same, by the short way and the long one."""
    command = [sys.executable, "-m", "amplifier_digital_twin"]
    codes = []
    for arguments in (["launch", str(twin.profile)], ["launch", str(twin.profile), "--lease=1h"], ["list"]):
        words = ["sh", "-c", f'exec "$@" {closed}', "sh", *command, *arguments]
        ended = subprocess.run(
            words, env=twin.environ, cwd="/", capture_output=True, text=True, timeout=90, check=False
        )
        codes.append(ended.returncode)
        assert "Traceback" not in ended.stderr
    assert codes == [0, 0, 0]
    universes = twin.run("list").record["universes"]
    assert [universe["phase"] for universe in universes] == ["ready", "ready"]


def test_starts_of_identifiers_must_be_unique(twin: Any) -> None:
    """What could mean two universes means none; a name is taken for what it is."""
    twin.launch("--name", "d")
    twin.launch()
    assert twin.run("status", "dtu").record["error"]["code"] == "universe_ambiguous"
    assert twin.run("status", "d").record["name"] == "d"


def test_result_is_indented_on_a_terminal(twin: Any) -> None:
    """People get lines, programs one line."""
    assert twin.run("list").stdout == '{"universes": [], "faults": {}}\n'
    leader, follower = pty.openpty()
    try:
        process = twin.start("list", stdout=follower)
        process.communicate(timeout=60)
        assert os.read(leader, 1000).splitlines()[1] == b'  "universes": [],'
    finally:
        os.close(leader)
        os.close(follower)


def test_output_never_steers_a_terminal(twin: Any) -> None:
    """Escape sequences that a command wrote are escaped in the JSON."""
    ended = twin.run("exec", twin.launch(), "--", r"printf '\033[31m\302\233x'")
    assert "\033" not in ended.stdout
    assert "\x9b" not in ended.stdout
    assert ended.record["stdout"] == "\033[31m\x9bx"


def test_terminal_without_the_characters_gets_json_all_the_same(twin: Any) -> None:
    """In an ASCII locale the result is ASCII, and nothing is lost."""
    identifier = twin.launch()
    twin.environ |= {"PYTHONIOENCODING": "ascii"}
    ended = twin.run("exec", identifier, "--", "printf 'ü😀'")
    assert ended.stdout.isascii()
    assert ended.record["stdout"] == "ü😀"


def test_current_folder_is_no_part_of_the_program(twin: Any, tmp_path: Any) -> None:
    """A keeper does not import what lies where the user happens to stand."""
    (tmp_path / "stand").mkdir()
    (tmp_path / "stand" / "socket.py").write_text("raise SystemExit('not mine')", encoding="utf-8")
    ended = subprocess.run(
        [sys.executable, "-P", "-m", "amplifier_digital_twin", "launch", str(twin.profile)],
        cwd=tmp_path / "stand",
        env=twin.environ,
        capture_output=True,
        text=True,
        timeout=90,
        check=False,
    )
    assert ended.returncode == 0, ended


def test_only_what_a_command_needs_is_imported(twin: Any) -> None:
    """Commands that only ask a keeper start without an event loop, YAML or HTTP."""
    code = (
        "import sys; sys.argv = ['x', 'exec', 'nobody', '--', 'true']\n"
        "from amplifier_digital_twin.main import main\n"
        "try: main()\n"
        "except SystemExit: pass\n"
        "print(sorted({'asyncio', 'yaml', 'httpx2', 'h11', 'cryptography', 'hashlib'} & set(sys.modules)))"
    )
    ended = subprocess.run(
        [sys.executable, "-c", code], env=twin.environ, capture_output=True, text=True, timeout=60, check=False
    )
    assert ended.stdout.splitlines()[-1] == "[]"
