"""Run a turn one tool at a time, and let hooks veto or swap each tool before it runs."""

from __future__ import annotations

from typing import Any, ClassVar, Final

from amplifier_core.events import SESSION_END, SESSION_START
from amplifier_kit.awaitable import maybe_await
from amplifier_kit.engine.loop import (
    Asker,
    CallRunner,
    Choice,
    LoopConfig,
    LoopMemory,
    Outcome,
    Passage,
    Target,
    Turn,
    choose_provider,
    denied_by_hook,
)

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


class EventsRunner(CallRunner):
    """Run one call after the other, each with a tool that hooks agree to."""

    parallel = False

    async def _select(self, passage: Passage) -> Target:
        wanted = passage.call.name
        asked = {"tool_name": wanted, "tool_input": passage.call.arguments, "available_tools": list(self.tools)}
        verdict = await self._heard(TOOL_SELECTING, asked, passage)
        if verdict.action == "deny":
            raise denied_by_hook(verdict, self.host.denied_by(verdict))
        swapped = (verdict.data or {}).get("tool")
        name = swapped if isinstance(swapped, str) and swapped else wanted
        target = self.target(name)
        source = "llm" if name == wanted else "scheduler"
        selected = {"tool": name, "source": source, "original_tool": wanted}
        await self._heard(TOOL_SELECTED, selected, passage)
        return target

    async def _report(self, kind: str, message: str, passage: Passage) -> None:
        is_news = not passage.is_closed
        await super()._report(kind, message, passage)
        if is_news and kind not in ("denied", "cancelled"):
            error = {"error_type": kind, "error_message": message, "severity": _SEVERITY}
            await self._heard(ERROR_TOOL, {"tool": passage.payload["tool_name"], **error}, passage)


class EventsAsker(Asker):
    """Report failed model calls under this loop's own name too."""

    async def _report_failure(self, choice: Choice, error: Exception) -> None:
        await super()._report_failure(choice, error)
        told = {"error_type": type(error).__name__, "error_message": str(error), "severity": _SEVERITY}
        await self.host.emit(ERROR_PROVIDER, {"provider": choice.name, **told})


class EventsTurn(Turn):
    """Run one turn; what goes wrong at the provider becomes the answer."""

    name: ClassVar[str] = NAME
    asker_type: ClassVar[type[Asker]] = EventsAsker
    runner_type: ClassVar[type[CallRunner]] = EventsRunner

    def __init__(self, config: LoopConfig, memory: LoopMemory, *, context: Any, **parts: Any) -> None:
        super().__init__(config, memory, context=context, **parts)
        self._context = context

    async def run(self, prompt: str) -> str:
        """Return the answer. Outside a session, where no kernel does it, session:start and session:end are emitted."""
        if self.host.coordinator is not None:
            return await super().run(prompt)
        response = ""
        await self.host.emit(SESSION_START, {"prompt": prompt})
        try:
            response = await super().run(prompt)
            return response
        finally:
            await self.host.emit(SESSION_END, {"response": response})

    def choose(self) -> Choice:
        """Return the provider that is named, else the first."""
        return choose_provider(self.providers, self.config.default_provider, by_priority=False)

    async def before_request(self) -> None:
        """Let a context of the old kind shorten itself."""
        should_compact = getattr(self._context, "should_compact", None)
        compact = getattr(self._context, "compact", None)
        if should_compact is None or compact is None:
            return
        if await maybe_await(should_compact()) is True:
            await self.host.ask(PRE_COMPACT, {"orchestrator": NAME})
            await maybe_await(compact())

    async def answer(self, choice: Choice) -> Outcome:
        """Return the answer, or what the provider's failure says."""
        try:
            return await super().answer(choice)
        except Exception as error:
            if error is not self.asker.failure:
                raise
            text = f"Error: provider '{choice.name}' gave no answer: {error}"
            return Outcome(text, "error", "error")
