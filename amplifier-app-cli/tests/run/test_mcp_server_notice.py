"""MCP servers that were not there before the answer are told at the end of a run."""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_app_cli.ui.notices import McpServerNotice
from amplifier_core.testing import MockCoordinator

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
_NOTE = (
    "note: the MCP server {} did not connect before the answer was complete; its tools were not used "
    '(with "required": true the session waits for it)'
)


def _connection(state: str, *, required: bool = False) -> SimpleNamespace:
    return SimpleNamespace(state=state, spec=SimpleNamespace(required=required))


async def test_only_those_that_never_connected_count() -> None:
    """Servers that are there, were there, or are required are not told."""
    coordinator = MockCoordinator()
    connections = {
        "slow": _connection("connecting"),
        "ready": _connection("ready"),
        "lost": _connection("waiting"),
        "needed": _connection("failed", required=True),
        "broken": _connection("failed"),
    }
    coordinator.register_capability("mcp.servers", SimpleNamespace(connections=connections))
    notice = McpServerNotice()
    notice.connect(coordinator.hooks)
    await coordinator.hooks.emit("mcp:connected", {"server": "lost"})
    notice.check(coordinator)
    assert notice.notes() == [_NOTE.format("slow"), _NOTE.format("broken")]


@pytest.mark.parametrize("offered", [None, object(), SimpleNamespace(connections=["odd"])])
def test_something_else_by_that_name(offered: Any) -> None:
    """Without servers, or with something that is none, there is nothing to tell."""
    coordinator = MockCoordinator()
    coordinator.register_capability("mcp.servers", offered)
    notice = McpServerNotice()
    notice.check(coordinator)
    assert notice.notes() == []


@pytest.mark.parametrize("is_quiet", [False, True])
def test_a_server_that_says_nothing(
    amplifier: Amplifier,
    scripted: Callable[..., str],
    environment: dict[str, str],
    is_quiet: bool,
) -> None:
    """A run that answers before a server is there says so once, on standard error, unless it is to be quiet."""
    home = Path(environment["HOME"]) / ".amplifier"
    home.mkdir(mode=0o700)
    server = {"command": sys.executable, "args": ["-c", "import sys; sys.stdin.read()"], "sandbox": "off"}
    (home / "mcp.json").write_text(json.dumps({"mcpServers": {"mute": server}}), encoding="utf-8")
    bundle = scripted("turns: [{text: Sure.}]", "tools:\n  - {module: tool-mcp}\n")
    result = amplifier(*(["--quiet"] if is_quiet else []), "run", "go", "--bundle", bundle)
    assert (result.returncode, result.stdout) == (0, "Sure.\n"), result.stderr
    assert result.stderr.splitlines().count(_NOTE.format("mute")) == (0 if is_quiet else 1), result.stderr
