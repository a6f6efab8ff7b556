"""What the tests of hooks share."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any

import pytest

from amplifier_core import AmplifierSession, bounded_call
from amplifier_core.hooks import HookRegistry


@pytest.fixture
def hooks() -> HookRegistry:
    """Return a registry without a session."""
    return HookRegistry()


@pytest.fixture
def hurried(hooks: HookRegistry, monkeypatch: pytest.MonkeyPatch) -> HookRegistry:
    """Give the same registry with a short deadline for every handler, and a short grace after it."""
    monkeypatch.setattr(bounded_call, "GRACE", 0.02)
    hooks._timeout = 0.02
    return hooks


class Reports(list[logging.LogRecord]):
    """The kernel's log records of warning level and above."""

    @property
    def texts(self) -> list[str]:
        return [record.getMessage() for record in self]

    def of(self, level: int) -> list[str]:
        return [record.getMessage() for record in self if record.levelno == level]


@pytest.fixture
def reports() -> Iterator[Reports]:
    """Give what the kernel reports to its logger while the test runs."""
    kept = Reports()

    class Keeper(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            kept.append(record)

    keeper = Keeper(logging.WARNING)
    kernel = logging.getLogger("amplifier_core")
    kernel.addHandler(keeper)
    yield kept
    kernel.removeHandler(keeper)


class ToolLoop:
    """Run one tool call per turn the way an orchestrator must: hooks, then authorization on what will run, then it."""

    def __init__(self, tool: Callable[[dict[str, Any]], Any]) -> None:
        self.tool = tool

    async def execute(self, prompt: str, hooks: Any, coordinator: Any, **_: Any) -> str:
        call: dict[str, Any] = {"tool_name": "bash", "tool_input": {"command": prompt}}
        verdict = await hooks.emit("tool:pre", call)
        verdict = await coordinator.process_hook_result(verdict, "tool:pre", "loop")
        if verdict.action == "deny":
            return f"denied: {verdict.reason}"
        call = verdict.data or call
        grant = await coordinator.authorize("process.exec", call["tool_input"])
        if not grant:
            return f"denied: {grant.reason}"
        try:
            output = self.tool(call["tool_input"])
        except Exception as error:
            failed = await hooks.emit("tool:error", {**call, "error": str(error)})
            await coordinator.process_hook_result(failed, "tool:error", "loop")
            return f"failed: {error}"
        await hooks.emit("tool:post", {**call, "result": output})
        return f"ran: {output}"


@pytest.fixture
def tool_session(make_plan: Callable[..., dict[str, Any]]) -> Callable[..., Awaitable[AmplifierSession]]:
    """Give `await tool_session(tool=None, session={...}, **options)`: a live session whose turns call one tool.

    The prompt is the tool's command. Without a tool the command itself comes back. Nothing runs that no policy allows.
    """

    async def make(tool: Any = None, session: dict[str, Any] | None = None, **options: Any) -> AmplifierSession:
        live = AmplifierSession(make_plan(session=session), **options)
        await live.initialize()
        await live.coordinator.mount("orchestrator", ToolLoop(tool or (lambda arguments: arguments["command"])))
        return live

    return make
