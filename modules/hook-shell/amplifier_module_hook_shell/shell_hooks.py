"""Hear the events of a session, let the hooks judge them, and tell the session their verdict."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final

from amplifier_core.events import (
    APPROVAL_REQUIRED,
    CONTEXT_PRE_COMPACT,
    PROMPT_COMPLETE,
    PROMPT_SUBMIT,
    SESSION_END,
    TOOL_ERROR,
    TOOL_POST,
    TOOL_PRE,
)
from amplifier_core.models import HookResult
from amplifier_module_hook_shell.answer import Answer
from amplifier_module_hook_shell.config import ShellHooksConfig
from amplifier_module_hook_shell.entry import Hook
from amplifier_module_hook_shell.environment import Surroundings
from amplifier_module_hook_shell.hook_events import Moment, moment_of
from amplifier_module_hook_shell.notes import Notes
from amplifier_module_hook_shell.outcome import Outcome
from amplifier_module_hook_shell.payload import facts_of, subject_of, written
from amplifier_module_hook_shell.question import Question
from amplifier_module_hook_shell.reports import Reports
from amplifier_module_hook_shell.session_hooks import Library
from amplifier_module_hook_shell.verdict import Rounds, Verdict

if TYPE_CHECKING:
    from amplifier_kit.guard.sandbox.sandbox import SandboxSetup

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
        self.library = Library(coordinator, settings, self._reports, config)
        #: Moments that come once in a session, and have come.
        self._had: set[str] = set()
        #: Inputs that hooks have changed, by the id of the call, until the call is over: what was there before.
        self._changed: dict[str, Any] = {}

    async def on_event(self, event: str, data: Any) -> HookResult | None:
        """Let the hooks of an event judge it and return their verdict, None when they have nothing to say."""
        moment = moment_of(event, is_child=getattr(self._coordinator, "parent_id", None) is not None)
        if moment is None or not isinstance(data, Mapping) or not self._is_due(moment, event, data):
            return None
        begun = time.monotonic()
        if event in (TOOL_POST, TOOL_ERROR):
            self._changed.pop(str(data.get("tool_call_id")), None)
        elif event == PROMPT_COMPLETE:
            self._changed.clear()
        opened = await self.library.opened()
        hooks, surroundings = opened.of(moment), opened.surroundings
        verdict = Verdict(None)
        if hooks:
            facts = facts_of(moment, event, data, surroundings.folder)
            subject = subject_of(moment, facts)
            meant = [hook for hook in hooks if subject is None or hook.matcher.matches(subject)]
            if meant:
                verdict = await self._judged(_Case(self, moment, event, facts, surroundings, begun), meant)
        return await self._result(verdict, event, data, moment)

    def policy(self, action: str, details: Mapping[str, Any]) -> tuple[str, str] | None:
        """Refuse a call whose changed input was lost on its way: what hooks have not agreed to must not run."""
        call_id = str(details.get("tool_call_id"))
        if call_id not in self._changed or details.get("tool_input") != self._changed[call_id]:
            return None
        return "deny", "a hook changed the input, but the verdict of another handler has taken that back"

    def close(self) -> None:
        """Remove what was made for the session."""
        self.library.close()

    # -- beginning --

    def _is_due(self, moment: Moment, event: str, data: Mapping[str, Any]) -> bool:
        """Tell whether hooks are to hear of it: a session starts and ends once, whatever a loop says of its turns."""
        if moment.name not in ("SessionStart", "SubagentStart", "SessionEnd"):
            return True
        if "prompt" in data or "response" in data or moment.name in self._had:
            return False
        self._had.add(moment.name)
        return True

    # -- running --

    async def _judged(self, case: _Case, hooks: list[Hook]) -> Verdict:
        """Run hooks until there is a verdict, or the session is to stop."""
        token = None if case.moment.is_last else getattr(self._coordinator, "cancellation", None)
        watching = asyncio.create_task(_watch(token, case.stop)) if token is not None else None
        try:
            return await Rounds(case.moment, hooks, case.value, case.run).verdict()
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

    async def answer_of(self, hook: Hook, facts: Mapping[str, Any], case: _Case) -> Answer:
        """Run one hook, report it, and return what counts of its answer."""
        begun = time.monotonic()
        wanted = hook.timeout or self._settings.timeout
        timeout = wanted if case.until is None else min(wanted, case.until - begun)
        outcome = await self._ran(hook, written(hook, facts), timeout, case)
        answer = self._counted(hook, outcome)
        duration = round((time.monotonic() - begun) * 1000, 3)
        await self._reports.ran(hook, case.event, outcome, answer, duration, facts.get("tool_call_id"))
        return answer

    async def _ran(self, hook: Hook, facts: bytes, timeout: float, case: _Case) -> Outcome:
        if timeout <= 0:
            return Outcome("timeout", error="no time was left: the hooks before it used it up")
        if hook.kind == "prompt":
            return await self._question.ask(hook, facts, timeout=timeout, stop=case.stop)
        # Not at the top: most sessions have no hooks, and what runs commands takes its time to import.
        from amplifier_module_hook_shell.command import run_command
        from amplifier_module_hook_shell.sandbox import Confinement

        surroundings = case.surroundings
        try:
            environment, env_file = surroundings.environment(hook), surroundings.env_file(hook)
        except OSError as error:
            return Outcome("error", error=f"it cannot be started: {error}")
        confinement = Confinement(self._coordinator, self._settings.sandbox)

        async def confine(note: str) -> SandboxSetup:
            return await confinement.prepare(
                hook, surroundings.project, surroundings.folder, environment, note, env_file
            )

        return await run_command(
            hook,
            facts,
            confine,
            surroundings.folder,
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
        stands_in = own or general or ("deny" if hook.moment.is_gate else "allow")
        if outcome.status == "cancelled":
            stands_in = "deny" if hook.moment.is_gate else "allow"
        if stands_in == "allow":
            return Answer()
        return Answer("deny", reason=f"{outcome.status}: {outcome.error}")

    # -- verdict --

    async def _result(self, verdict: Verdict, event: str, data: Mapping[str, Any], moment: Moment) -> HookResult | None:
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
        if verdict.is_changed and moment.replaced is not None:
            self.notes.add(event, verdict.contexts)
            if event == TOOL_PRE:
                self._changed[str(data.get("tool_call_id"))] = data.get("tool_input")
            return HookResult(action="modify", data={**data, moment.replaced: verdict.value})
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


class _Case:
    """One event that hooks judge, and what they need for it."""

    def __init__(
        self,
        owner: ShellHooks,
        moment: Moment,
        event: str,
        facts: dict[str, Any],
        surroundings: Surroundings,
        begun: float,
    ) -> None:
        self._owner = owner
        self.moment = moment
        self.event = event
        self.facts = facts
        self.surroundings = surroundings
        limit = owner.seconds()
        self.until = None if limit is None else begun + limit
        self.stop: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self.value = facts.get(moment.replaced) if moment.replaced else None

    async def run(self, hook: Hook, value: Any) -> Answer:
        """Run one hook on the version of the event that is current."""
        facts = dict(self.facts)
        if self.moment.replaced is not None:
            facts[self.moment.replaced] = value
            if self.moment.replaced == "result":
                facts["tool_response"] = value
        return await self._owner.answer_of(hook, facts, self)


async def _watch(token: Any, stop: asyncio.Future[None]) -> None:
    """Say so when the session is asked to stop at once."""
    while getattr(token, "is_immediate", False) is not True:  # noqa: ASYNC110 - a token has no event to wait for
        await asyncio.sleep(_LOOK)
    if not stop.done():
        stop.set_result(None)
