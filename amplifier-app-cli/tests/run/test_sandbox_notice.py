"""What is said at the start of a session about the confinement of what its tools run."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.ui.notices import SandboxNotice, sandbox_text
from amplifier_core.testing import MockCoordinator

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

#: A module whose two tools say how they run programs.
_SAYS = """
async def on_session_ready(coordinator):
    status = {"status": "active", "mode": "auto", "backend": "bubblewrap", "network": False, "reason": "\\x1b[2Jx"}
    for tool in ("bash", "mcp"):
        await coordinator.hooks.emit("sandbox:status", {"tool": tool, **status})

async def mount(coordinator, config=None):
    pass
"""


@pytest.fixture
def confined(project: Path, environment: dict[str, str], scripted: Callable[..., str]) -> str:
    """Return the path of a bundle with a module that tells of its confinement."""
    package = project / "hooks-says" / "amplifier_module_hooks_says"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(_SAYS, encoding="utf-8")
    given = [str(project / "hooks-says"), *filter(None, [os.environ.get("PYTHONPATH")])]
    environment["PYTHONPATH"] = os.pathsep.join(given)
    return scripted("turns: [{text: Sure.}]", "  - {module: hooks-says}\n")


def test_it_is_said_once(amplifier: Amplifier, confined: str) -> None:
    """However many tools say that the sandbox is weaker, it is one line on standard error, and none with --quiet."""
    result = amplifier("run", "go", "--bundle", confined)
    assert result.stdout == "Sure.\n", result.stderr
    said = [line for line in result.stderr.splitlines() if line.startswith("sandbox:")]
    assert said == ["sandbox: on (bubblewrap): writes only to the project, no network; x"]
    assert "sandbox:" not in amplifier("--quiet", "run", "go", "--bundle", confined).stderr


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_missing_sandbox_is_reported_once(
    amplifier: Amplifier, environment: dict[str, str], tmp_path: Path, options: tuple[str, ...]
) -> None:
    """The event and the warning that a tool logs are one line, also with --quiet."""
    environment["PATH"] = str(tmp_path)  # without bubblewrap
    result = amplifier(*options, "run", "hello")
    assert result.returncode == 0, result.stderr
    assert result.stderr.count("sandbox: NOT AVAILABLE") == 1


async def test_a_sandbox_as_configured_is_not_worth_a_line() -> None:
    """A sandbox that is on is shown with --verbose alone."""
    usual = {"status": "active", "backend": "bubblewrap", "network": False}
    shown: dict[bool, list[str]] = {False: [], True: []}
    for with_usual, lines in shown.items():
        coordinator = MockCoordinator()
        SandboxNotice(lines.append, with_usual=with_usual).connect(coordinator.hooks)
        await coordinator.hooks.emit("sandbox:status", usual)
        await coordinator.hooks.emit("sandbox:status", {"status": "off"})
    off = "sandbox: OFF: commands can do whatever you can"
    assert shown == {False: [off], True: ["sandbox: on (bubblewrap): writes only to the project, no network", off]}


async def test_it_does_not_break_a_question() -> None:
    """What comes while something is asked waits for the answer; what is allowed unasked holds nothing up."""
    told: list[str] = []
    coordinator = MockCoordinator()
    SandboxNotice(told.append).connect(coordinator.hooks)
    first, second = ({"approval_id": request} for request in ("r1", "r2"))
    await coordinator.hooks.emit("approval:required", first)
    await coordinator.hooks.emit("approval:required", second)
    await coordinator.hooks.emit("sandbox:status", {"summary": "one"})
    await coordinator.hooks.emit("approval:granted", first)
    await coordinator.hooks.emit("approval:granted", {"approval_id": "r3"})
    assert told == []
    await coordinator.hooks.emit("approval:denied", second)
    assert told == ["one"]
    await coordinator.hooks.emit("sandbox:status", {"summary": "two"})
    await coordinator.hooks.emit("sandbox:status", {"summary": "one"})
    assert told == ["one", "two"]


async def test_question_of_a_module() -> None:
    """A module that asks by itself names the tool alone; what waited for the answer is told then."""
    told: list[str] = []
    coordinator = MockCoordinator()
    SandboxNotice(told.append).connect(coordinator.hooks)
    await coordinator.hooks.emit("approval:required", {"tool_name": "bash", "action": "run", "risk_level": "high"})
    await coordinator.hooks.emit("sandbox:status", {"summary": "one"})
    assert told == []
    await coordinator.hooks.emit("approval:granted", {"tool_name": "bash", "reason": "yes"})
    assert told == ["one"]


@pytest.mark.parametrize(
    ("data", "text"),
    [
        ({"status": "active", "summary": "sandbox: as it says"}, "sandbox: as it says"),
        (
            {"status": "active", "backend": "bubblewrap", "network": True},
            "sandbox: on (bubblewrap): writes only to the project, the host's network",
        ),
        ({"status": "off"}, "sandbox: OFF: commands can do whatever you can"),
        (
            {"status": "absent", "mode": "auto", "reason": "no bwrap"},
            "sandbox: NOT AVAILABLE, commands can do whatever you can: no bwrap",
        ),
        (
            {"status": "absent", "mode": "required", "reason": "no bwrap"},
            "sandbox: NOT AVAILABLE, commands are refused: no bwrap",
        ),
    ],
)
def test_what_is_said(data: dict[str, Any], text: str) -> None:
    """On, off and not to be had are three things, and what follows from each is said."""
    assert sandbox_text(data) == text
