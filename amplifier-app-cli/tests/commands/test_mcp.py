"""`amplifier mcp`: entries in files, and servers that are really started."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_SERVER = """\
import os, sys
from mcp.server import MCPServer

server = MCPServer("notes")


@server.tool()
def count_words(text: str) -> int:
    '''Count the words of a text.'''
    return len(text.split())


if os.environ.get("TOKEN"):
    server.tool(name="has_token")(count_words)
server.run("stdio")
"""


@pytest.fixture
def home(environment: dict[str, str]) -> Path:
    """Return the home of the program, which has nothing in it."""
    path = Path(environment["HOME"]) / ".amplifier"
    path.mkdir(mode=0o700)
    return path


@pytest.fixture
def server(tmp_path: Path) -> tuple[str, str]:
    """Return the command of a server with one tool, which is outside of the project."""
    script = tmp_path / "servers" / "notes_server.py"
    script.parent.mkdir()
    script.write_text(_SERVER, encoding="utf-8")
    return sys.executable, str(script)


def _listed(result: subprocess.CompletedProcess[str]) -> dict[str, dict[str, Any]]:
    assert result.returncode == 0, result.stderr
    return {one["name"]: one for one in json.loads(result.stdout)}


def test_a_server_is_added_tested_listed_and_removed(amplifier: Amplifier, home: Path, server: tuple[str, str]) -> None:
    """`test` starts the server through the module and lists its tools; `show` then knows them without starting it."""
    assert amplifier("mcp", "add", "notes", "--", *server).returncode == 0
    assert json.loads((home / "mcp.json").read_text())["mcpServers"] == {
        "notes": {"command": server[0], "args": [server[1]]}
    }
    tested = amplifier("mcp", "test", "notes")
    assert tested.returncode == 0, tested.stderr
    assert tested.stdout.startswith("notes: connected")
    assert "mcp_notes_count_words: Count the words of a text." in tested.stdout
    listed = _listed(amplifier("mcp", "list", "--json"))["notes"]
    assert (listed["state"], [tool["name"] for tool in listed["tools"]]) == ("connected", ["mcp_notes_count_words"])
    shown = json.loads(amplifier("mcp", "show", "notes", "--json").stdout)
    assert (shown["state"], len(shown["tools"]), shown["scope"]) == ("cached", 1, "user")
    assert amplifier("mcp", "remove", "notes").returncode == 0
    assert amplifier("mcp", "show", "notes").returncode == 2
    assert not list((home / "projects").glob("*/sessions/*"))


def test_a_server_that_fails(amplifier: Amplifier, home: Path) -> None:
    """A server that cannot be started fails its test with the reason, once, and the list with its state."""
    amplifier("mcp", "add", "gone", "--", "no-such-program")
    tested = amplifier("mcp", "test", "gone")
    assert (tested.returncode, tested.stdout) == (1, "")
    assert tested.stderr.count("there is no program 'no-such-program'") == 1
    listed = _listed(amplifier("mcp", "list", "--json"))["gone"]
    assert (listed["state"], listed["tools"]) == ("failed", [])
    assert "no-such-program" in listed["reason"]
    assert amplifier("mcp", "list", "--cached").returncode == 0


@pytest.mark.parametrize("command", ["test", "list"])
def test_what_to_do_about_a_server_that_is_not_installed(amplifier: Amplifier, home: Path, command: str) -> None:
    """A server that a runner would have to install says how to install it and how to allow it the network."""
    amplifier("mcp", "add", "none", "--", "npx", "-y", "no-such-server")
    words = ("test", "none") if command == "test" else ("list",)
    said = " ".join(amplifier("mcp", *words).stderr.split())
    assert "no-such-server is not installed" in said
    assert "`npm install --global no-such-server`" in said
    assert '"network": true' in said
    listed = _listed(amplifier("mcp", "list", "--json"))["none"]
    assert "npm install" in listed["advice"]


def test_secrets_are_named_and_never_written(amplifier: Amplifier, home: Path, server: tuple[str, str]) -> None:
    """`--env` takes the name of a variable; its value comes from the key store when the server starts."""
    refused = amplifier("mcp", "add", "notes", "--env", "TOKEN=secret-value", "--", *server)
    assert refused.returncode == 2
    assert "amplifier keys set TOKEN" in refused.stderr
    added = amplifier("mcp", "add", "notes", "--env", "TOKEN", "--", *server)
    assert "TOKEN is not set" in added.stderr
    amplifier("keys", "set", "TOKEN", stdin="secret-value")
    assert "secret-value" not in (home / "mcp.json").read_text()
    tested = amplifier("mcp", "test", "notes", "--json")
    assert tested.returncode == 0, tested.stderr
    assert {tool["name"] for tool in json.loads(tested.stdout)["tools"]} > {"mcp_notes_has_token"}
    assert "secret-value" not in tested.stdout
    assert "secret-value" not in amplifier("mcp", "show", "notes").stdout


def test_an_address(amplifier: Amplifier, home: Path) -> None:
    """A server at an address has headers that refer to variables; a value that is written out is refused."""
    url = "https://mcp.example.com/mcp"
    refused = amplifier("mcp", "add", "issues", "--url", url, "--header", "Authorization: Bearer abc")
    assert refused.returncode == 2
    header = "Authorization: Bearer ${ISSUES_TOKEN}"
    assert amplifier("mcp", "add", "issues", "--url", url, "--header", header, "--required").returncode == 0
    assert json.loads((home / "mcp.json").read_text())["mcpServers"]["issues"] == {
        "type": "http",
        "url": url,
        "headers": {"Authorization": "Bearer ${ISSUES_TOKEN}"},
        "required": True,
    }


@pytest.mark.parametrize(
    "arguments",
    [
        ("add", "x"),
        ("add", "x", "--url", "ftp://x"),
        ("add", "x", "--url", "https://x", "--", "y"),
        ("add", "a b", "--", "y"),
        ("add", "x", "--env", "A-B", "--", "y"),
        ("remove", "nothing"),
        ("test", "nothing"),
        ("show", "nothing"),
    ],
)
def test_wrong_use(amplifier: Amplifier, home: Path, arguments: tuple[str, ...]) -> None:
    """What cannot be meant is exit code 2, and no file is written."""
    result = amplifier("mcp", *arguments)
    assert result.returncode == 2, result.stderr
    assert not (home / "mcp.json").exists()


def test_servers_of_a_project(amplifier: Amplifier, project: Path, home: Path, server: tuple[str, str]) -> None:
    """Entries of a project go into its file, keep it trusted, and count only if it is trusted."""
    (project / ".mcp.json").write_text('{"mcpServers": {"old": {"command": "x", "disabled": true}}, "other": 1}')
    added = amplifier("mcp", "add", "notes", "--project", "--", *server)
    assert "not trusted" in added.stderr
    untrusted = _listed(amplifier("mcp", "list", "--json"))
    assert (untrusted["notes"]["state"], untrusted["old"]["state"]) == ("untrusted", "untrusted")
    assert amplifier("mcp", "test", "notes").returncode == 2
    assert amplifier("trust", "--yes").returncode == 0
    assert amplifier("mcp", "add", "second", "--project", "--", *server).returncode == 0
    trusted = _listed(amplifier("mcp", "list", "--cached", "--json"))
    states = {name: one["state"] for name, one in trusted.items()}
    assert states == {"old": "disabled", "notes": "cached", "second": "cached"}
    assert amplifier("mcp", "remove", "notes").returncode == 2
    assert amplifier("mcp", "remove", "notes", "--project").returncode == 0
    assert json.loads((project / ".mcp.json").read_text())["other"] == 1
    assert sorted(os.listdir(project)) == [".mcp.json"]


def test_a_script_of_the_project(amplifier: Amplifier, project: Path, home: Path) -> None:
    """A script of a project that is not trusted is not started, and the failure names the command that trusts it."""
    (project / "notes_server.py").write_text(_SERVER, encoding="utf-8")
    amplifier("mcp", "add", "notes", "--", sys.executable, "notes_server.py")
    refused = amplifier("mcp", "test", "notes")
    assert refused.returncode == 1
    assert "trust the project with `amplifier trust`" in refused.stderr
    assert amplifier("trust", "--yes").returncode == 0
    assert amplifier("mcp", "test", "notes").returncode == 0


def test_an_entry_is_not_replaced(amplifier: Amplifier, home: Path) -> None:
    """A name that the file has is refused; the later of two files counts, and the list has it once."""
    assert amplifier("mcp", "add", "x", "--", "one").returncode == 0
    again = amplifier("mcp", "add", "x", "--", "two")
    assert again.returncode == 2
    assert "amplifier mcp remove x" in again.stderr


def test_a_broken_file_is_named(amplifier: Amplifier, home: Path) -> None:
    """A file that cannot be read is a note in lists, and is not written over."""
    (home / "mcp.json").write_text("{", encoding="utf-8")
    assert "mcp.json" in amplifier("mcp", "list").stderr
    assert amplifier("mcp", "add", "x", "--", "one").returncode == 1
    assert (home / "mcp.json").read_text() == "{"


def test_no_servers(amplifier: Amplifier, home: Path) -> None:
    """Without servers the list says how to add one, and is empty for programs."""
    assert "amplifier mcp add" in amplifier("mcp", "list").stderr
    assert json.loads(amplifier("mcp", "list", "--json").stdout) == []
