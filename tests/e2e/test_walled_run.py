"""A whole run of the program with a real MCP server behind walls, and a budget that ends it."""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

SERVER = """\
import pathlib, socket, sys
from mcp.server import MCPServer

server = MCPServer("probe")

@server.tool()
def probe(folder: str) -> str:
    "Try what a server must not be able to do."
    tried = []
    for name, attempt in {
        "write outside": lambda: pathlib.Path(folder, "planted").write_text("x"),
        "network": lambda: socket.create_connection(("127.0.0.1", int(sys.argv[1])), 2),
        "write inside": lambda: pathlib.Path("made").write_text("x"),
    }.items():
        try:
            attempt()
            tried.append(f"{name}: done")
        except OSError:
            tried.append(f"{name}: refused")
    return ", ".join(tried)

server.run("stdio")
"""


def _bundle(port: int) -> dict[str, Any]:
    server = {"command": sys.executable, "args": ["server.py", str(port)], "required": True, "connect_timeout": 100}
    return {
        "bundle": {"name": "walled", "version": "1.0.0"},
        "includes": [{"bundle": "amplifier:behaviors/logging"}],
        "session": {
            "orchestrator": {"module": "loop-basic"},
            "context": {"module": "context-simple"},
            "sandbox": "required",
            "budget": {"turns": 2},
        },
        "providers": [{"module": "provider-mock", "config": {"scenario": "./scenario.json"}}],
        "tools": [{"module": "tool-mcp", "config": {"servers": {"probe": server}}}],
    }


@pytest.mark.timeout(900)
@pytest.mark.skipif(shutil.which("bwrap") is None, reason="bubblewrap is not installed: `make system` brings it")
def test_an_mcp_server_behind_walls_and_a_budget_that_ends_the_run(
    tmp_path: Path, popen: Callable[..., subprocess.Popen[str]]
) -> None:
    """The server answers, reaches neither a listener of the host nor a file outside; the third request is exit 5."""
    import socket

    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (project / "server.py").write_text(SERVER, encoding="utf-8")
    calls = [{"name": "mcp_probe_probe", "arguments": {"folder": str(outside)}}]
    turns = [{"tool_calls": calls}, {"tool_calls": calls}, {"text": "Never said."}]
    (project / "scenario.json").write_text(json.dumps({"turns": turns}), encoding="utf-8")
    home = tmp_path / "home"
    home.mkdir()
    (home / "policy.yaml").write_text("rules: [{action: mcp.call, verdict: allow}]\n", encoding="utf-8")
    with socket.create_server(("127.0.0.1", 0)) as listener:
        bundle = _bundle(listener.getsockname()[1])
        (project / "bundle.yaml").write_text(json.dumps(bundle), encoding="utf-8")
        process = popen(
            [sys.executable, "-m", "amplifier_app_cli", "run", "--bundle", "./bundle.yaml", "Go.", "--json"],
            cwd=project,
            env={
                "PATH": f"{Path(sys.executable).parent}:/usr/bin:/bin",
                "HOME": str(tmp_path),
                "AMPLIFIER_HOME": str(home),
            },
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        )
        out, error = process.communicate(timeout=200)
    assert process.returncode == 5, error
    last = json.loads(out.splitlines()[-1])
    assert (last["type"], last["status"], last["exit_code"]) == ("result", "budget_exhausted", 5)
    (log,) = home.glob("projects/*/sessions/*/events.jsonl")
    events = [json.loads(line) for line in log.read_text(encoding="utf-8").splitlines()]
    results = [event["data"]["result"]["output"]["content"] for event in events if event["event"] == "tool:post"]
    assert results == ["write outside: refused, network: refused, write inside: done"] * 2
    assert (list(outside.iterdir()), (project / "made").exists()) == ([], True)
    (status,) = [event for event in events if event["event"] == "sandbox:status"]
    assert (status["status"], status["data"]["network"]) == ("active", False)
    (ended,) = [event["data"] for event in events if event["event"] == "budget:exhausted"]
    assert (ended["limit"], ended["amount"]) == ("turns", "2")
