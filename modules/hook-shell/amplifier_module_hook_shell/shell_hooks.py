"""Run the hooks of a session on its events, and return their verdict to the session."""

from __future__ import annotations

import asyncio
import json
import time
from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import (
    APPROVAL_REQUIRED,
    CONTEXT_PRE_COMPACT,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    SESSION_END,
    SESSION_RESUME,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_core.models import HookResult
from amplifier_module_hook_shell.answer import Answer, Evaluation, Outcome, Verdict
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.hook_events import ALIASES, HookEvent, hook_event_of
from amplifier_module_hook_shell.hook_files import Hook
from amplifier_module_hook_shell.question import Question
from amplifier_module_hook_shell.reports import Notes, Reports
from amplifier_module_hook_shell.session_hooks import HookEnvironment, SessionHooks

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.sandbox import SandboxSetup

# --- what a hook reads ---

#: Of events that carry much about the session, what a hook gets.
_ONLY: Final = {
    "SessionStart": ("session_id", "parent_id", "timestamp"),
    "SubagentStart": ("session_id", "parent_id", "timestamp"),
    "SessionEnd": ("session_id", "parent_id", "timestamp", "status"),
}


def facts_of(hook_event: HookEvent, event: str, data: Mapping[str, Any], folder: Path) -> dict[str, Any]:
    """Return the fields of an event that its hooks receive."""
    wanted = _ONLY.get(hook_event.name)
    facts = {key: value for key, value in data.items() if wanted is None or key in wanted}
    facts |= {"hook_event_name": hook_event.name, "event": event, "cwd": str(folder)}
    return facts | _named(hook_event, event, data)


def _named(hook_event: HookEvent, event: str, data: Mapping[str, Any]) -> dict[str, Any]:
    get = data.get
    match hook_event.name:
        case "PreToolUse" | "PermissionRequest":
            return {"tool_use_id": get("tool_call_id")}
        case "PostToolUse":
            return {"tool_use_id": get("tool_call_id"), "tool_response": get("result")}
        case "PostToolUseFailure":
            return {"tool_use_id": get("tool_call_id")}
        case "Stop" | "SubagentStop":
            return {"stop_hook_active": False, "last_assistant_message": get("response_preview")}
        case "SessionStart":
            return {"source": "resume" if event == SESSION_RESUME else "startup"}
        case "SessionEnd":
            return {"reason": get("status") or "other"}
        case "PreCompact":
            return {"trigger": get("trigger") or "auto", "custom_instructions": ""}
        case "Notification":
            return {"notification_type": str(get("notification_type") or get("type") or get("level") or "")}
        case "SkillLoaded" | "SkillUnloaded":
            return {"skill_name": str(get("skill_name") or get("name") or "")}
        case _:
            return {}


def subject_of(hook_event: HookEvent, facts: Mapping[str, Any]) -> str | None:
    """Return what matchers are compared with, None when every hook of the event is meant."""
    if hook_event.subject is None:
        return None
    subject = facts.get(hook_event.subject)
    return subject if isinstance(subject, str) else ""


def written(hook: Hook, facts: Mapping[str, Any]) -> bytes:
    """Return the facts as a hook reads them; one written for another agent gets that agent's name of the tool."""
    given = dict(facts)
    tool = given.get("tool_name")
    if hook.source.is_claude and isinstance(tool, str) and tool in ALIASES:
        given |= {"tool_name": ALIASES[tool][0], "amplifier_tool_name": tool}
    # ASCII only: a lone surrogate in a tool's input cannot be encoded as UTF-8.
    return json.dumps(given, default=str).encode("ascii") + b"\n"


# --- running ---

#: Of the time the session gives a handler, what is kept for stopping hooks that do not want to end.
_RESERVE_SHARE: Final = 0.25
_RESERVE_MOST: Final = 6.0
#: How often somebody looks whether the session was asked to stop.
_LOOK: Final = 0.1
#: Events of a tool call, where the turn can be made to end.
_OF_CALLS: Final = (TOOL_PRE, TOOL_POST, TOOL_ERROR)
#: Events on which context goes to the model at once; on all others it waits for the next prompt or request.
_TAKING_CONTEXT: Final = (*_OF_CALLS, PROMPT_SUBMIT)

#: Events that do not go on when they are denied.
_WAITING: Final = (TOOL_PRE, TOOL_POST, PROMPT_SUBMIT, APPROVAL_REQUIRED, CONTEXT_PRE_COMPACT)


class ShellHooks:
    """The hooks of one session."""

    def __init__(self, coordinator: Any, settings: ShellHooksConfig, config: Mapping[str, Any] | None = None) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._reports = Reports(coordinator)
        self._question = Question(coordinator)
        self.notes = Notes(coordinator)
        self.session_hooks = SessionHooks(coordinator, settings, self._reports, config)
        #: Events that come once in a session, and have come.
        self._had: set[str] = set()
        #: Inputs that hooks have changed, by the id of the call, until the call is over: what was there before.
        self._changed: dict[str, Any] = {}

    async def on_event(self, event: str, data: Any) -> HookResult | None:
        """Let the hooks of an event judge it and return their verdict, None when they have nothing to say."""
        hook_event = hook_event_of(event, is_child=getattr(self._coordinator, "parent_id", None) is not None)
        if hook_event is None or not isinstance(data, Mapping) or not self._is_due(hook_event, event, data):
            return None
        begun = time.monotonic()
        if event in (TOOL_POST, TOOL_ERROR):
            self._changed.pop(str(data.get("tool_call_id")), None)
        elif event == PROMPT_COMPLETE:
            self._changed.clear()
        loaded = await self.session_hooks.loaded()
        hooks, hook_environment = loaded.of(hook_event), loaded.hook_environment
        verdict = Verdict(None)
        if hooks:
            facts = facts_of(hook_event, event, data, hook_environment.folder)
            subject = subject_of(hook_event, facts)
            meant = [hook for hook in hooks if subject is None or hook.matcher.matches(subject)]
            if meant:
                verdict = await self._judged(_HookRun(self, hook_event, event, facts, hook_environment, begun), meant)
        return await self._result(verdict, event, data, hook_event)

    def policy(self, action: str, details: Mapping[str, Any]) -> tuple[str, str] | None:
        """Refuse a call whose changed input was lost on its way: what hooks have not agreed to must not run."""
        call_id = str(details.get("tool_call_id"))
        if call_id not in self._changed or details.get("tool_input") != self._changed[call_id]:
            return None
        return "deny", "a hook changed the input, but the verdict of another handler has taken that back"

    def close(self) -> None:
        """Remove what was made for the session."""
        self.session_hooks.close()

    # -- beginning --

    def _is_due(self, hook_event: HookEvent, event: str, data: Mapping[str, Any]) -> bool:
        """Tell whether hooks are to hear of it: a session starts and ends once, whatever a loop says of its turns."""
        if hook_event.name not in ("SessionStart", "SubagentStart", "SessionEnd"):
            return True
        if "prompt" in data or "response" in data or hook_event.name in self._had:
            return False
        self._had.add(hook_event.name)
        return True

    # -- running --

    async def _judged(self, case: _HookRun, hooks: list[Hook]) -> Verdict:
        """Run hooks until there is a verdict, or the session is to stop."""
        token = None if case.hook_event.is_last else getattr(self._coordinator, "cancellation", None)
        watching = asyncio.create_task(_watch(token, case.stop)) if token is not None else None
        try:
            return await Evaluation(case.hook_event, hooks, case.value, case.run).verdict()
        finally:
            if watching is not None:
                watching.cancel()
                with suppress(asyncio.CancelledError):
                    await watching

    def seconds(self) -> float | None:
        """Return what the session gives a handler, less what it takes to stop hooks; None without a limit."""
        config = getattr(self._coordinator, "config", None)
        session = config.get("session") if isinstance(config, Mapping) else None
        limit = session.get("hook_timeout") if isinstance(session, Mapping) else None
        if isinstance(limit, bool) or not isinstance(limit, int | float) or limit <= 0:
            return None
        return float(limit - min(_RESERVE_MOST, _RESERVE_SHARE * limit))

    async def answer_of(self, hook: Hook, facts: Mapping[str, Any], case: _HookRun) -> Answer:
        """Run one hook, report it, and return what counts of its answer."""
        begun = time.monotonic()
        wanted = hook.timeout or self._settings.timeout
        timeout = wanted if case.until is None else min(wanted, case.until - begun)
        outcome = await self._ran(hook, written(hook, facts), timeout, case)
        answer = self._counted(hook, outcome)
        duration = round((time.monotonic() - begun) * 1000, 3)
        await self._reports.ran(hook, case.event, outcome, answer, duration, facts.get("tool_call_id"))
        return answer

    async def _ran(self, hook: Hook, facts: bytes, timeout: float, case: _HookRun) -> Outcome:
        if timeout <= 0:
            return Outcome("timeout", error="no time was left: the hooks before it used it up")
        if hook.kind == "prompt":
            return await self._question.ask(hook, facts, timeout=timeout, stop=case.stop)
        # Not at the top: most sessions have no hooks, and what runs commands takes its time to import.
        from amplifier_module_hook_shell.command import Confinement, run_command

        hook_environment = case.hook_environment
        try:
            environment, env_file = hook_environment.variables(hook), hook_environment.env_file(hook)
        except OSError as error:
            return Outcome("error", error=f"it cannot be started: {error}")
        confinement = Confinement(self._coordinator, self._settings.sandbox)

        async def confine(note: str) -> SandboxSetup:
            return await confinement.prepare(
                hook, hook_environment.project, hook_environment.folder, environment, note, env_file
            )

        return await run_command(
            hook,
            facts,
            confine,
            hook_environment.folder,
            timeout=timeout,
            max_output=self._settings.max_output,
            stop=case.stop,
        )

    def _counted(self, hook: Hook, outcome: Outcome) -> Answer:
        """Return the answer of a hook, or the one that stands in for it: where something waits, no answer is a no."""
        if outcome.answer is not None:
            return outcome.answer
        own, general = (
            (hook.on_timeout, self._settings.on_timeout)
            if outcome.status == "timeout"
            else (hook.on_error, self._settings.on_error)
        )
        stands_in = own or general or ("deny" if hook.hook_event.is_gate else "allow")
        if outcome.status == "cancelled":
            stands_in = "deny" if hook.hook_event.is_gate else "allow"
        if stands_in == "allow":
            return Answer()
        return Answer("deny", reason=f"{outcome.status}: {outcome.error}")

    # -- verdict --

    async def _result(
        self, verdict: Verdict, event: str, data: Mapping[str, Any], hook_event: HookEvent
    ) -> HookResult | None:
        """Return what the session can follow; what does not fit into one result is given to it in another way."""
        if verdict.is_stopping and event in _OF_CALLS:
            await self._coordinator.request_cancel()
        if verdict.denied_by:
            self.notes.add(event, verdict.contexts)
            return await self._denied(verdict, event)
        if verdict.is_changed and verdict.asked_by:
            # A person's yes would be for the input as it was: the kernel keeps no change beside a question.
            verdict.denied_by = verdict.asked_by
            verdict.reason = f"it wants a person to be asked about what a hook has changed: {verdict.question}"
            return await self._denied(verdict, event)
        if verdict.asked_by:
            self.notes.add(event, verdict.contexts)
            question = f"Hook {verdict.asked_by} asks: {verdict.question or 'may this happen?'}"
            return HookResult(action="ask_user", approval_prompt=question, reason=verdict.question)
        if verdict.is_changed and hook_event.replaced is not None:
            self.notes.add(event, verdict.contexts)
            if event == TOOL_PRE:
                self._changed[str(data.get("tool_call_id"))] = data.get("tool_input")
            return HookResult(action="modify", data={**data, hook_event.replaced: verdict.value})
        if event not in _TAKING_CONTEXT:
            self.notes.add(event, verdict.contexts)
            return None
        waiting = self.notes.take() if event == PROMPT_SUBMIT else []
        return self.notes.result([*waiting, *self.notes.of(event, verdict.contexts)])

    async def _denied(self, verdict: Verdict, event: str) -> HookResult | None:
        text = f"Hook {verdict.denied_by}: {verdict.reason}"
        if event in _WAITING:
            return HookResult(action="deny", reason=text)
        # Nothing can be stopped any more: the model hears of it with the next prompt, the person now.
        if event != SESSION_END:
            self.notes.add(event, [(verdict.denied_by, verdict.reason)])
        await self._reports.tell(text, event)
        return None


class _HookRun:
    """One event that hooks judge, and what they need for it."""

    def __init__(
        self,
        owner: ShellHooks,
        hook_event: HookEvent,
        event: str,
        facts: dict[str, Any],
        hook_environment: HookEnvironment,
        begun: float,
    ) -> None:
        self._owner = owner
        self.hook_event = hook_event
        self.event = event
        self.facts = facts
        self.hook_environment = hook_environment
        limit = owner.seconds()
        self.until = None if limit is None else begun + limit
        self.stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.value = facts.get(hook_event.replaced) if hook_event.replaced else None

    async def run(self, hook: Hook, value: Any) -> Answer:
        """Run one hook on the version of the event that is current."""
        facts = dict(self.facts)
        if self.hook_event.replaced is not None:
            facts[self.hook_event.replaced] = value
            if self.hook_event.replaced == "result":
                facts["tool_response"] = value
        return await self._owner.answer_of(hook, facts, self)


async def _watch(token: Any, stop: asyncio.Future[None]) -> None:
    """Say so when the session is asked to stop at once."""
    while getattr(token, "is_immediate", False) is not True:  # noqa: ASYNC110 - a token has no event to wait for
        await asyncio.sleep(_LOOK)
    if not stop.done():
        stop.set_result(None)
