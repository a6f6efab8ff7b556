"""A turn in which the user calls a tool: it passes hooks and policies as a model's call does, and is in the log."""

from __future__ import annotations

import uuid
from collections.abc import Mapping
from typing import Any, ClassVar

from amplifier_core.events import APPROVAL_DENIED, APPROVAL_REQUIRED, TOOL_ERROR, TOOL_POST
from amplifier_kit.engine.loop import Call, Choice, Outcome, Reply, Turn, TurnLoop

#: After all hooks that may change the data.
_LAST = 10_000


class Hearing:
    """What the events say about the one call of a session."""

    def __init__(self, hooks: Any) -> None:
        #: What the tool answered, as hooks left it.
        self.result: dict[str, Any] | None = None
        #: Why there is no answer.
        self.error: dict[str, Any] | None = None
        self.status = "success"
        #: Why approval was needed, None when it was not.
        self.asked_because: str | None = None
        self.denied_by: str | None = None
        for event, handler in (
            (TOOL_POST, self._on_result),
            (TOOL_ERROR, self._on_error),
            (APPROVAL_REQUIRED, self._on_question),
            (APPROVAL_DENIED, self._on_denial),
        ):
            hooks.register(event, handler, priority=_LAST, name="app-tool-invoke")

    def _on_result(self, event: str, data: dict[str, Any]) -> None:
        result = data.get("result")
        self.result = result if isinstance(result, dict) else {"success": True, "output": result, "error": None}

    def _on_error(self, event: str, data: dict[str, Any]) -> None:
        error = data.get("error")
        self.error = error if isinstance(error, dict) else {"type": "error", "msg": str(error)}
        self.status = str(data.get("status") or "error")

    def _on_question(self, event: str, data: dict[str, Any]) -> None:
        self.asked_because = str(data.get("reason"))

    def _on_denial(self, event: str, data: dict[str, Any]) -> None:
        self.denied_by = str(data.get("source"))


class InvokeTurn(Turn):
    """Run one call and end."""

    name: ClassVar[str] = "tool-invoke"

    def __init__(self, settings: Any, memory: Any, call: Call, **parts: Any) -> None:
        super().__init__(settings, memory, **parts)
        self._call = call

    async def answer(self, choice: Choice) -> Outcome:
        """Return the result of the call as text; the conversation gets it as if a model had asked for it."""
        call = self._call
        asked = {"id": call.id, "tool": call.name, "arguments": call.arguments}
        message = {"role": "assistant", "content": "", "tool_calls": [asked], "metadata": {"synthetic": True}}
        (done,) = await self._call_tools(Reply("", message, [call]))
        report = {"role": "assistant", "content": f"The user called {call.name}.", "metadata": {"synthetic": True}}
        await self.session.store(report)
        return Outcome(done.content if isinstance(done.content, str) else str(done.content), "success")


class InvokeLoop(TurnLoop):
    """The loop of a session in which the user calls a tool."""

    turn_type: ClassVar[type[Turn]] = InvokeTurn

    def __init__(self, tool: str, arguments: Mapping[str, Any], config: Mapping[str, Any] | None = None) -> None:
        super().__init__(config)
        self._call = Call(f"call-{uuid.uuid4().hex[:16]}", tool, dict(arguments))

    def turn_parts(self) -> tuple[Any, ...]:
        """Return the call."""
        return (self._call,)
