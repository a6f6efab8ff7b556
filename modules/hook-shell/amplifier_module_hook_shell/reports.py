"""Say in events what hooks did, and show a person what a person should know."""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_module_hook_shell.answer import Answer
from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.hook_files import Shelf
from amplifier_module_hook_shell.outcome import Outcome

NAME: Final = "hook-shell"
RAN: Final = "hook-shell:ran"
FAILED: Final = "hook-shell:failed"
TIMEOUT: Final = "hook-shell:timeout"
REFUSED: Final = "hook-shell:refused"
EVENTS: Final = (RAN, FAILED, TIMEOUT, REFUSED)

_TEXT_LIMIT: Final = 1000


class Reports:
    """Tell the session of its hooks."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def opened(self, shelf: Shelf) -> None:
        """Report what of the hooks files does not run, and why."""
        for problem in shelf.problems:
            error = problem.error[:_TEXT_LIMIT]
            facts = {"hook": problem.hook, "status": "error", "cause": "entry", "verdict": "continue", "error": error}
            await self._coordinator.hooks.emit(FAILED, facts)
            await self.tell(f"{problem.hook} does not run: {error}", FAILED)
        for refused in shelf.refused:
            await self._coordinator.hooks.emit(REFUSED, refused._asdict())
            text = f"{refused.hooks} hooks of {refused.file} do not run: {refused.reason}"
            await self.tell(text, REFUSED)

    async def ran(
        self, hook: Hook, event: str, outcome: Outcome, answer: Answer, duration_ms: float, call_id: Any
    ) -> None:
        """Report the run of one hook, in one event."""
        facts = {
            "hook": hook.name,
            "hook_event": hook.moment.name,
            "on": event,
            "exit_code": outcome.exit_code,
            "duration_ms": duration_ms,
            "verdict": answer.verdict,
            "status": outcome.status,
        }
        if isinstance(call_id, str):
            facts["tool_call_id"] = call_id
        if answer.decision == "deny":
            facts["reason"] = answer.reason[:_TEXT_LIMIT]
        if outcome.status == "ok":
            await self._coordinator.hooks.emit(RAN, facts)
        else:
            facts |= {"error": outcome.error[:_TEXT_LIMIT], "cause": outcome.cause}
            await self._coordinator.hooks.emit(TIMEOUT if outcome.status == "timeout" else FAILED, facts)
            await self.tell(f"{hook.name}: {outcome.error[:_TEXT_LIMIT]}", event)
        if answer.message:
            await self.tell(answer.message[:_TEXT_LIMIT], event, level="info")

    async def tell(self, text: str, event: str, *, level: str = "warning") -> None:
        """Show a person a line, where there is one who sees it."""
        shown = HookResult(action="continue", user_message=text, user_message_source=NAME)
        await self._coordinator.process_hook_result(shown.model_copy(update={"user_message_level": level}), event, NAME)
