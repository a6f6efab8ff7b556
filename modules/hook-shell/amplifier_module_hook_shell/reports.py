"""Report what hooks did in events and to the user, and queue what they say to the model."""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.reminders import reminder, without_tags
from amplifier_kit.struct import FrozenStruct
from amplifier_module_hook_shell.answer import Answer, Outcome
from amplifier_module_hook_shell.hook_files import FoundHooks, Hook

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

    async def loaded(self, found: FoundHooks) -> None:
        """Report what of the hooks files does not run, and why."""
        for problem in found.problems:
            error = problem.error[:_TEXT_LIMIT]
            facts = {"hook": problem.hook, "status": "error", "cause": "entry", "verdict": "continue", "error": error}
            await self._coordinator.hooks.emit(FAILED, facts)
            await self.tell(f"{problem.hook} does not run: {error}", FAILED)
        for refused in found.refused:
            await self._coordinator.hooks.emit(REFUSED, refused._asdict())
            text = f"{refused.hooks} hooks of {refused.file} do not run: {refused.reason}"
            await self.tell(text, REFUSED)

    async def ran(
        self, hook: Hook, event: str, outcome: Outcome, answer: Answer, duration_ms: float, call_id: Any
    ) -> None:
        """Report the run of one hook, in one event."""
        facts = {
            "hook": hook.name,
            "hook_event": hook.hook_event.name,
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


# --- context for the model ---

#: More pending notes than this mean that nothing reads them.
_MOST: Final = 100
_LENGTH: Final = 20_000
_CUT: Final = "(cut here)"


class Note(FrozenStruct):
    """Something for the model."""

    hook: str
    event: str
    text: str


class Notes:
    """What waits in one session; bounded, the oldest goes first."""

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator
        self._waiting: deque[Note] = deque(maxlen=_MOST)

    @staticmethod
    def of(event: str, contexts: Sequence[tuple[str, str]]) -> list[Note]:
        """Return what hooks said on an event as notes."""
        return [Note(hook, event, text[:_LENGTH]) for hook, text in contexts]

    def add(self, event: str, contexts: Sequence[tuple[str, str]]) -> None:
        """Keep what hooks said on an event for later."""
        self._waiting.extend(self.of(event, contexts))

    def take(self) -> list[Note]:
        """Return what waits, once."""
        taken = list(self._waiting)
        self._waiting.clear()
        return taken

    def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Give what waits to the model with the request that comes next."""
        return self.result(self.take())

    def result(self, notes: Sequence[Note]) -> HookResult | None:
        """Return notes as an injection, within the session's limit; one over it would be refused altogether."""
        if not notes:
            return None
        limit = getattr(self._coordinator, "injection_size_limit", None)
        text = "\n\n".join(_wrapped(note) for note in notes)
        if isinstance(limit, int) and len(text) > limit:
            text = f"{text[: max(0, limit - len(_CUT))]}{_CUT}"[:limit]
        return HookResult(action="inject_context", context_injection=text, context_injection_role="user")


def _wrapped(note: Note) -> str:
    return reminder(without_tags(note.text), "hook-shell", event=note.event)
