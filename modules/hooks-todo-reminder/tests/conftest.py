"""Real sessions whose model follows a script, with a tool that keeps todos as the todo tool does."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ToolResult
from amplifier_testing.loop.fakes import PlainTool

MakeSession = Callable[..., AmplifierSession]


@pytest.fixture
def make_session(scripted_session: MakeSession) -> MakeSession:
    """Give `make_session(replies, hooks, has_todo=True, **session)`: a session with `look`, and `todo` if wanted."""

    def make(
        replies: Sequence[Any], hooks: list[dict[str, Any]], *, has_todo: bool = True, **session: Any
    ) -> AmplifierSession:
        def keep(input: dict[str, Any]) -> ToolResult:
            if "todos" not in input:
                return ToolResult(success=False, error={"message": "'todos' is missing"})
            coordinator.todo_state = input["todos"]
            return ToolResult(output={"status": "created", "count": len(input["todos"])})

        tools = [PlainTool("look"), *([PlainTool("todo", keep)] if has_todo else [])]
        made = scripted_session(*replies, hooks=hooks, mounted=tools, session=session)
        coordinator: Any = made.coordinator
        coordinator.register_policy("test", lambda action, details: "allow")
        return made

    return make
