"""A single prompt waits a little for its MCP servers, and says at the end which ones came too late."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_app_cli import exits
from amplifier_app_cli.ui.notices import McpServerNotice, missing_mcp_servers
from amplifier_core.testing import MockCoordinator

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
_NOTE = (
    "note: the MCP server {} was still starting when the answer was complete; its tools were not used "
    '(with "required": true the session waits for it)'
)
_SILENT = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"], "sandbox": "off"}
_ENDS = {"command": sys.executable, "args": ["-c", "import sys; sys.exit('no luck')"], "sandbox": "off"}


class Servers:
    """Servers as `tool-mcp` offers them: their states, and what was waited for."""

    def __init__(self, startup_wait: float = 5.0, **states: str) -> None:
        self.startup_wait = startup_wait
        self.missing = ("needed",)
        self.waited: list[float] = []
        self._states = states

    def unlisted(self) -> list[str]:
        return [name for name, state in self._states.items() if state != "cached"]

    def statuses(self) -> list[Any]:
        return [
            SimpleNamespace(name=name, state="new" if state == "cached" else state, offers=(1,) * (state == "cached"))
            for name, state in self._states.items()
        ]

    async def wait(self, timeout: float) -> list[Any]:
        self.waited.append(timeout)
        return self.statuses()


def _coordinator(servers: Any) -> MockCoordinator:
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.register_capability("mcp.servers", servers)
    return coordinator


async def test_servers_whose_tools_are_not_known_are_waited_for() -> None:
    """The wait is shown with the names of the servers; without such servers, or any wait, nothing is shown."""
    for servers, line in (
        (Servers(slow="new", known="cached"), ["waiting up to 5 s for MCP servers: slow"]),
        (Servers(known="cached"), []),
        (Servers(startup_wait=0, slow="new"), []),
    ):
        shown: list[str] = []
        await McpServerNotice().wait(_coordinator(servers), shown.append)
        assert (shown, servers.waited) == (line, [5.0] * len(line))


def test_only_servers_that_still_start_are_noted() -> None:
    """Servers that are connected, have failed with a reason, or offered their tools from the cache are not noted."""
    notice = McpServerNotice()
    notice.check(_coordinator(Servers(slow="connecting", ready="ready", broken="failed", known="cached")))
    assert notice.notes() == [_NOTE.format("slow")]


@pytest.mark.parametrize("offered", [None, object(), SimpleNamespace(connections=["odd"])])
async def test_something_else_by_that_name(offered: Any) -> None:
    """Without servers, or with another object under that name, nothing is waited for and nothing noted."""
    notice, shown = McpServerNotice(), list[str]()
    await notice.wait(_coordinator(offered), shown.append)
    notice.check(_coordinator(offered))
    assert (shown, notice.notes(), missing_mcp_servers(_coordinator(offered))) == ([], [], ())


@pytest.fixture
def run(
    amplifier: Amplifier, scripted: Callable[..., str], environment: dict[str, str]
) -> Callable[..., subprocess.CompletedProcess[str]]:
    """Give `run(server, *options, **config)`: run a prompt with an MCP server and a config of `tool-mcp`."""

    def start(server: dict[str, Any], *options: str, **config: Any) -> subprocess.CompletedProcess[str]:
        home = Path(environment["HOME"]) / ".amplifier"
        home.mkdir(mode=0o700)
        (home / "mcp.json").write_text(json.dumps({"mcpServers": {"mine": server}}), encoding="utf-8")
        bundle = scripted("turns: [{text: Sure.}]", f"tools:\n  - {{module: tool-mcp, config: {json.dumps(config)}}}\n")
        return amplifier(*options, "run", "go", "--bundle", bundle)

    return start


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_server_that_says_nothing(run: Callable[..., subprocess.CompletedProcess[str]], is_quiet: bool) -> None:
    """A run says that it waits, answers without the server, and notes that; with `--quiet` it says nothing."""
    result = run(_SILENT, *(["--quiet"] if is_quiet else []), startup_wait=0.2)
    assert (result.returncode, result.stdout) == (0, "Sure.\n"), result.stderr
    lines = [line for line in result.stderr.splitlines() if "mine" in line]
    wait = "waiting up to 0.2 s for MCP servers: mine"
    assert lines == ([] if is_quiet else [wait, _NOTE.format("mine")]), result.stderr


def test_a_server_that_fails_is_named_once(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A server that ends at once is named in one line, with its exit code and its last message."""
    result = run(_ENDS, startup_wait=60)
    assert (result.returncode, result.stdout) == (0, "Sure.\n"), result.stderr
    assert [line for line in result.stderr.splitlines() if "mine" in line] == [
        "waiting up to 60 s for MCP servers: mine",
        "amplifier: the MCP server mine is not available: it ended with exit code 1: no luck",
    ]


def test_a_required_server_that_is_missing(run: Callable[..., subprocess.CompletedProcess[str]]) -> None:
    """A run ends with exit code 6 without a server that is required, and sends no request."""
    result = run({**_ENDS, "required": True}, startup_wait=0, retry={"attempts": 1})
    assert (result.returncode, result.stdout) == (exits.MODULES, ""), result.stderr
    assert "a required MCP server is not available: mine: it ended with exit code 1: no luck" in result.stderr
