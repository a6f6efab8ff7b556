"""`amplifier keys`: values come from a prompt or a pipe, and are never shown."""

from __future__ import annotations

import json
import stat
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import CliRunner, Result

from amplifier_app_cli.app import App
from amplifier_app_cli.commands.keys import keys

Run = Callable[..., Result]
Amplifier = Callable[..., subprocess.CompletedProcess[str]]
SECRET = "sk-0123456789-the-end"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Return an empty home of the program."""
    path = tmp_path / "home of mine"
    monkeypatch.setenv("AMPLIFIER_HOME", str(path))
    return path


@pytest.fixture
def run(home: Path, project: Path, monkeypatch: pytest.MonkeyPatch) -> Run:
    """Return a function that runs a command about keys, with something piped in."""
    monkeypatch.chdir(project)
    for name in ("OPENAI_API_KEY", "ANTHROPIC_API_KEY", "MY_KEY"):
        monkeypatch.delenv(name, raising=False)

    def invoke(*arguments: str, stdin: str = "") -> Result:
        return CliRunner().invoke(keys, list(arguments), input=stdin, obj=App(), catch_exceptions=False)

    return invoke


def test_key_from_a_pipe(amplifier: Amplifier, environment: dict[str, str]) -> None:
    """A key that is piped in lies in keys.env without its line end, readable by its owner alone; nothing shows it."""
    result = amplifier("keys", "set", "MY_KEY", stdin=f"{SECRET}\r\n")
    assert (result.returncode, result.stdout) == (0, ""), result.stderr
    assert SECRET not in result.stderr
    file = Path(environment["HOME"]) / ".amplifier" / "keys.env"
    assert file.read_text() == f'MY_KEY="{SECRET}"\n'
    assert stat.S_IMODE(file.stat().st_mode) == 0o600
    listed = amplifier("keys", "list")
    assert SECRET not in listed.stdout
    assert "MY_KEY" in listed.stdout


def test_key_from_a_prompt(at_terminal: Callable[..., Any], environment: dict[str, str]) -> None:
    """At a terminal the key is asked for, and what is typed is not echoed."""
    child = at_terminal("keys", "set", "MY_KEY")
    child.expect("MY_KEY: ")
    child.waitnoecho()
    child.sendline(SECRET)
    child.expect(pexpect.EOF)
    child.close()
    assert child.exitstatus == 0
    assert SECRET not in child.before
    assert SECRET in (Path(environment["HOME"]) / ".amplifier" / "keys.env").read_text()


def test_value_is_never_an_argument(run: Run, home: Path) -> None:
    """A value on the command line is refused, is not kept, and is not repeated."""
    for arguments in (("set", "MY_KEY", SECRET), ("set", f"MY_KEY={SECRET}")):
        result = run(*arguments, stdin="x")
        assert result.exit_code in (1, 2)
        assert SECRET not in result.output
    assert not (home / "keys.env").exists()


def test_nothing_to_keep(run: Run) -> None:
    """An empty pipe is a usage error."""
    assert run("set", "MY_KEY", stdin=" \n").exit_code == 2


def test_keyring_that_keeps_nothing(amplifier_process: Amplifier, environment: dict[str, str]) -> None:
    """A keyring that holds nothing is an error that says to use the file, and nothing is kept."""
    backend = "keyring.backends.null.Keyring"
    result = amplifier_process("keys", "set", "MY_KEY", "--keyring", stdin=SECRET, PYTHON_KEYRING_BACKEND=backend)
    assert result.returncode == 1
    assert "use the file" in result.stderr
    assert SECRET not in result.stderr
    assert not (Path(environment["HOME"]) / ".amplifier" / "keys.env").exists()


def test_list(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """`list` says where each key comes from, of long ones the end; those of known providers count from everywhere."""
    assert "amplifier keys set" in run("list").stderr
    run("set", "MY_KEY", stdin=SECRET)
    run("set", "SHORT_KEY", stdin="short")
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-from-the-environment")
    assert json.loads(run("list", "--format", "json").stdout) == [
        {"name": "MY_KEY", "where": "file", "tail": "-end"},
        {"name": "SHORT_KEY", "where": "file", "tail": ""},
        {"name": "ANTHROPIC_API_KEY", "where": "environment", "tail": "ment"},
    ]


def test_environment_wins_and_that_is_said(run: Run, monkeypatch: pytest.MonkeyPatch) -> None:
    """A key that the environment has too is kept, with a word about which of them counts."""
    monkeypatch.setenv("MY_KEY", "other")
    result = run("set", "MY_KEY", stdin=SECRET)
    assert result.exit_code == 0
    assert "environment too, which wins" in result.stderr


def test_remove(run: Run, home: Path) -> None:
    """Removing a key asks; without a terminal it is refused and names the flag; an unknown name gets a hint."""
    run("set", "MY_KEY", stdin=SECRET)
    refused = run("remove", "MY_KEY")
    assert refused.exit_code == 2
    assert "--yes" in refused.stderr
    assert SECRET in (home / "keys.env").read_text()
    unknown = run("remove", "MY_KEI", "--yes")
    assert unknown.exit_code == 2
    assert "did you mean 'MY_KEY'" in unknown.stderr
    assert run("remove", "MY_KEY", "--yes").exit_code == 0
    assert SECRET not in (home / "keys.env").read_text()
    assert run("remove", "MY_KEY", "--yes").exit_code == 2


def test_malformed_file_is_reported_without_its_content(run: Run, home: Path) -> None:
    """A malformed line is an error with its number, and its content is not shown."""
    home.mkdir()
    (home / "keys.env").write_text(f"{SECRET}\n")
    result = run("list", "--format", "json")
    assert result.exit_code == 1
    assert "keys.env:1" in result.stderr
    assert SECRET not in result.output
    assert json.loads(result.stdout)["code"] == "keys_invalid"
