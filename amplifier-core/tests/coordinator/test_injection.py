"""What process_hook_result does with injections and messages."""

from __future__ import annotations

import logging
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator


class Context:
    """Keep what is added, at once or later."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


class Display:
    """Note what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, ...]] = []

    def show_message(self, *arguments: Any) -> None:
        self.shown.append(arguments)


class Setup:
    """A coordinator with a context and a display."""

    def __init__(self, context: Any = None, **section: Any) -> None:
        owner = SimpleNamespace(session_id="s", parent_id=None, config={"session": section})
        self.display = Display()
        self.kernel = ModuleCoordinator(owner, None, self.display)
        self.context = context or Context()
        self.kernel.mount_points["context"] = self.context

    async def process(self, **fields: Any) -> HookResult:
        result = HookResult(**fields)
        return await self.kernel.process_hook_result(result, "tool:post", "linter")

    @property
    def stored(self) -> list[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in self.context.messages]


async def test_without_a_display_a_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Nobody to show it to: the message goes to the debug log, and so does a wish to suppress output."""
    setup = Setup()
    setup.kernel.display_system = None
    with caplog.at_level(logging.DEBUG):
        await setup.process(user_message="look here", suppress_output=True)

    assert "look here" in caplog.text
    assert "suppress" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}
