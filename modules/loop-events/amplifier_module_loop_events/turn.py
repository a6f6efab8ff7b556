"""Run a turn one tool at a time, and let hooks veto or swap each tool before it runs."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.events import SESSION_END, SESSION_START
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_kit.engine.loop.model_call import LoopMemory, ModelCaller
from amplifier_kit.engine.loop.request import Choice, choose_provider
from amplifier_kit.engine.loop.tool_calls import CallFailed, RunningCall, ToolRunner
from amplifier_kit.engine.loop.turn import Outcome, Turn

__all__ = ["EVENTS", "NAME", "EventsTurn"]

NAME: Final = "loop-events"
TOOL_SELECTING: Final = "tool:selecting"
TOOL_SELECTED: Final = "tool:selected"
ERROR_PROVIDER: Final = "error:provider"
ERROR_TOOL: Final = "error:tool"
PRE_COMPACT: Final = "context:pre-compact"
#: What this loop emits besides the canonical events.
EVENTS: Final = (TOOL_SELECTING, TOOL_SELECTED, ERROR_PROVIDER, ERROR_TOOL, PRE_COMPACT)

_SEVERITY: Final = "error"


class EventsToolRunner(ToolRunner):
    """Run one call after the other; hooks may deny or swap the tool of each."""

    parallel = False

    async def _select(self, running: RunningCall) -> None:
        wanted = running.call.name
        proposed = {"tool_name": wanted, "tool_input": running.call.arguments, "available_tools": list(self.tools)}
        verdict = await self._emit(TOOL_SELECTING, proposed, running)
        if verdict.action == "deny":
            raise CallFailed.by_hook(verdict.reason, self.session.hook_that_denied(verdict))
        swapped = (verdict.data or {}).get("tool")
        name = swapped if isinstance(swapped, str) and swapped else wanted
        self.set_tool(running, name)
        source = "llm" if name == wanted else "scheduler"
        await self._emit(TOOL_SELECTED, {"tool": name, "source": source, "original_tool": wanted}, running)

    async def _report_error(self, kind: str, message: str, running: RunningCall) -> None:
        was_closed = running.is_closed
        await super()._report_error(kind, message, running)
        if not was_closed and kind not in ("denied", "cancelled"):
            error = {"error_type": kind, "error_message": message, "severity": _SEVERITY}
            await self._emit(ERROR_TOOL, {"tool": running.tool_name, **error}, running)


class EventsModelCaller(ModelCaller):
    """Also report failed model calls as `error:provider`."""

    async def _report_failure(self, choice: Choice, error: Exception) -> None:
        await super()._report_failure(choice, error)
        facts = {"error_type": type(error).__name__, "error_message": str(error), "severity": _SEVERITY}
        await self.session.emit(ERROR_PROVIDER, {"provider": choice.name, **facts})


class EventsTurn(Turn):
    """Run one turn; a failure of the provider becomes the answer."""

    name: ClassVar[str] = NAME
    model_caller_type: ClassVar[type[ModelCaller]] = EventsModelCaller
    tool_runner_type: ClassVar[type[ToolRunner]] = EventsToolRunner

    def __init__(self, config: LoopConfig, memory: LoopMemory, *, context: Any, **parts: Any) -> None:
        super().__init__(config, memory, context=context, **parts)
        self._context = context

    async def run(self, prompt: str) -> str:
        """Return the answer. Outside a session, where no kernel does it, session:start and session:end are emitted."""
        if self.session.coordinator is not None:
            return await super().run(prompt)
        response = ""
        await self.session.emit(SESSION_START, {"prompt": prompt})
        try:
            response = await super().run(prompt)
            return response
        finally:
            await self.session.emit(SESSION_END, {"response": response})

    def choose(self) -> Choice:
        """Return the configured provider, else the first."""
        return choose_provider(self.providers, self.config.default_provider, by_priority=False)

    async def before_request(self) -> None:
        """Compact a context that asks the loop to, as older ones do."""
        should_compact = getattr(self._context, "should_compact", None)
        compact = getattr(self._context, "compact", None)
        if should_compact is None or compact is None:
            return
        if await maybe_await(should_compact()) is True:
            await self.session.emit_and_apply(PRE_COMPACT, {"orchestrator": NAME})
            await maybe_await(compact())

    async def answer(self, choice: Choice) -> Outcome:
        """Return the answer, or the text of the provider's error."""
        try:
            return await super().answer(choice)
        except Exception as error:
            if error is not self.model_caller.failure:
                raise
            text = f"Error: provider '{choice.name}' gave no answer: {error}"
            return Outcome(text, "error", "error")
