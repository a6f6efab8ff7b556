"""A chat says at its start whether what its tools run is confined."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

_SAYS = """
async def on_session_ready(coordinator):
    for tool in ("bash", "mcp"):
        status = {"tool": tool, "status": "absent", "mode": "auto", "reason": "no bwrap\\x1b[2J"}
        await coordinator.hooks.emit("sandbox:status", status)


async def mount(coordinator, config=None):
    pass
"""


def test_it_is_said_once(start: Callable[..., Any], scripted: Callable[..., str], project: Path) -> None:
    """What several tools say of themselves is one line, before the first prompt, and cannot steer the terminal."""
    package = project / "modules" / "hooks-says" / "amplifier_module_hooks_says"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_SAYS, encoding="utf-8")
    bundle = scripted("turns: [{text: Sure.}]")
    with open(project / bundle, "a", encoding="utf-8") as file:
        file.write("  - {module: hooks-says, source: ./modules/hooks-says}\n")
    chat = start("--bundle", bundle, "--trust")
    line = "sandbox: NOT AVAILABLE, commands can do whatever you can: no bwrap"
    chat.wait_for(line)
    assert [one.rstrip() for one in chat.text.splitlines()].count(line) == 1
    assert "bwrap\x1b[2J" not in chat.raw
    chat.send("\x04")
    assert chat.end() == 0
