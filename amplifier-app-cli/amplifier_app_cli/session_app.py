"""Drive one session: prepare it, connect it to a view, open it, run turns, close it.

    async with SessionApp(app, request, view) as session:
        outcome = await session.turn(prompt)

`run` (one prompt) and `chat` are views. A view shows what happens and decides who answers approval requests; everything
else about running a session is here.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping, Sequence
from contextlib import AsyncExitStack
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final, Protocol

from amplifier_app_cli import exits
from amplifier_app_cli.event_loop import resume_garbage_collection
from amplifier_app_cli.failures import Failure, describe_failure
from amplifier_app_cli.session_request import PreparedSession, SessionRequest, prepare_session
from amplifier_app_cli.session_stats import SessionStats
from amplifier_app_cli.signals import Signals
from amplifier_app_cli.ui.notices import MentionNotice, SandboxNotice, missing_mcp_servers, unasked_change_text
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.approvals.open_calls import ChildCalls
from amplifier_foundation.policy.modes import UNASKED_CHANGE
from amplifier_kit.named_tuple import NamedTuple

if TYPE_CHECKING:
    from amplifier_app_cli.app import App
    from amplifier_app_cli.ui.approval.question import UserTerminal
    from amplifier_app_cli.ui.approval.session import SessionApprovals
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.policy.modes import Mode
    from amplifier_foundation.prompt.user_input import UserInput
    from amplifier_foundation.sessions.origin import ChildFacts
    from amplifier_foundation.sessions.runtime import SessionRuntime


class SessionView(Protocol):
    """Shows one session to a user or to a program."""

    async def start(self, session: SessionApp) -> None:
        """Connect to a session that is prepared and not open yet: its hooks, its approvals. Raises to stop it."""
        ...

    def notice(self, text: str) -> None:
        """Show a line about the session; an answer may be streaming."""
        ...

    def message(self, text: str, level: str, source: str) -> None:
        """Show what a hook or another module says; `level` is info, warning or error."""
        ...

    def child_event(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        """Take an event of a child session, at any depth."""
        ...


class Outcome(NamedTuple):
    """How a turn ended."""

    status: str
    exit_code: int
    #: None if there is no answer.
    response: str | None = None
    #: What went wrong, and its stable code.
    error: str | None = None
    error_type: str | None = None
    #: The calls that became pending.
    approvals: tuple[dict[str, Any], ...] = ()
    #: What each agent, tool and hook used, if a limit was reached.
    spent: tuple[dict[str, Any], ...] = ()

    @classmethod
    def failed(cls, code: str, message: str, exit_code: int) -> Outcome:
        return cls("error", exit_code, error=message, error_type=code)

    @classmethod
    def stopped(cls, exit_code: int | None, response: str | None = None) -> Outcome:
        """Return the outcome after a signal, which has an exit code, or after a module's cancellation."""
        code = exit_code or exits.FAILURE
        return cls("cancelled", code, response=response, error="the run was stopped", error_type="cancelled")


#: Reasons for which a loop stops itself: the same calls over and over, or too many calls of the model.
_LIMITS: Final = ("loop_detected", "max_iterations")


class SessionApp:
    """One session of the program, with one view."""

    #: Set once the session is prepared.
    parts: PreparedSession
    runtime: SessionRuntime

    def __init__(self, app: App, request: SessionRequest, view: SessionView) -> None:
        self.app = app
        self.request = request
        self._view = view
        self.signals = Signals()
        self.stats = SessionStats()
        #: None if no approval system is connected: the kernel then denies what needs approval.
        self.approvals: SessionApprovals | None = None
        #: Whether the session was prepared, and the view connected to it.
        self.is_ready = False
        self._child_calls = ChildCalls()
        self._mode_keys = asyncio.Lock()

    async def __aenter__(self) -> SessionApp:
        """Prepare the session and open it; raises what `failure()` describes, and CancelledError after a signal."""
        async with AsyncExitStack() as stack:
            stack.enter_context(self.signals)
            self.parts = await prepare_session(self.app, self.request)
            self.runtime = self._runtime()
            self.signals.end_logs = self.runtime.end_logs
            self._connect()
            await self._view.start(self)
            self.is_ready = True
            await stack.enter_async_context(self.runtime)
            resume_garbage_collection()
            self._open = stack.pop_all()
        return self

    async def __aexit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.signals.closing = kind is None
        await self._open.__aexit__(kind, error, trace)

    @property
    def coordinator(self) -> Any:
        return self.runtime.session.coordinator

    @property
    def was_opened(self) -> bool:
        """Return whether the session came as far as having a log."""
        return hasattr(self, "runtime") and self.runtime.was_opened

    def scrub(self, value: Any) -> Any:
        """Return a value with known secrets masked."""
        return self.runtime.redactor.scrub(value).value

    @property
    def permission_mode(self) -> Mode:
        """The permission mode of the session and its agents; `modes.MODES` of the foundation has all of them."""
        return self.runtime.permission_mode

    async def set_permission_mode(self, mode: str, via: str) -> None:
        """Change the permission mode because the user chose another one; `via` is where, for the log.

        Raises PermissionModeError, which says why and what to do, for a mode that is not available here.
        """
        from amplifier_foundation.approvals.answered_by import person_at

        await self.runtime.set_permission_mode(mode, person_at(via))

    async def next_permission_mode(self, via: str) -> Mode:
        """Change to the next permission mode that is available here, as a key does, and return it."""
        from amplifier_foundation.policy.modes import MODES, PermissionModeError

        names = [mode.name for mode in MODES]
        async with self._mode_keys:  # each press of the key goes on from where the one before has led
            start = names.index(self.permission_mode) + 1
            for name in (*names[start:], *names[: start - 1]):
                try:
                    await self.set_permission_mode(name, via)
                except PermissionModeError:
                    continue  # not in this place, or without a sandbox: choosing it by name says why
                break
        return self.permission_mode

    def connect_approvals(self, person: UserTerminal | None, via: str) -> SessionApprovals:
        """Answer approval requests: `person` is asked first; calls that they do not decide about become pending.

        `via` is where the person answers, for the log.
        """
        from amplifier_app_cli.ui.approval.session import SessionApprovals

        self.approvals = SessionApprovals(self.runtime, self._child_calls, person, self.app.environ, via)
        return self.approvals

    async def turn(
        self, prompt: UserInput, pending: Sequence[PendingCall] = (), attachments: Sequence[dict[str, Any]] = ()
    ) -> Outcome:
        """Run one turn and return how it ended; `pending` calls run first. Raises CancelledError if cancelled."""
        self.stats.start_turn()
        try:
            answer = str(await self.runtime.execute(prompt, pending, attachments) or "")
        except Exception as error:
            return self._failed(error)
        return self._ended(answer)

    def failure(self, error: Exception) -> Failure | None:
        """Describe why the session could not be opened or run; None for a bug of ours before it was ready."""
        return describe_failure(error, anything=self.is_ready)

    # -- connecting --

    def _runtime(self) -> SessionRuntime:
        from amplifier_foundation.children.capabilities import Spawner
        from amplifier_foundation.sessions.runtime import SessionRuntime

        return SessionRuntime(
            self.parts.prepared,
            saved=self.parts.saved,
            allow_missing_modules=self.request.allow_missing_modules,
            budget=self.request.budget,
            trust=self.request.trust,
            run=self.parts.run,
            on_child_event=self._on_child_event,
            spawner=Spawner(),
        )

    def _connect(self) -> None:
        from amplifier_foundation.sessions.plan import provider_module

        coordinator, saved = self.coordinator, self.parts.saved
        used, name = saved.metadata.get("usage") if saved else None, self.runtime.provider
        module = provider_module(coordinator.config, name)
        self.stats.connect(coordinator.hooks, self.runtime.account, used, provider=name, module=module)
        SandboxNotice(self._view.notice, with_usual=self.app.is_verbose).connect(coordinator.hooks)
        MentionNotice(self._view.notice).connect(coordinator.hooks)
        coordinator.hooks.register(UNASKED_CHANGE, self._on_unasked_change, priority=950, name="app-unasked-change")
        coordinator.display_system = self

    def _on_child_event(self, facts: ChildFacts, event: str, data: Mapping[str, Any]) -> None:
        self._child_calls.record(facts, event, data)
        self.stats.child_event(facts, event, data)
        self._view.child_event(facts, event, data)

    def _on_unasked_change(self, event: str, data: Mapping[str, Any]) -> None:
        text = unasked_change_text(data.get("files") or (), self.runtime.prepared.project)
        self._view.message(plain(text), "warning", "auto mode")

    def show_message(self, message: str, level: str = "info", source: str = "hook") -> None:
        """Show what a module says, without secrets and terminal escapes: the display system of the session."""
        self._view.message(plain(str(self.scrub(message))), level, source)

    # -- how a turn ended --

    def _failed(self, error: Exception) -> Outcome:
        if self.signals.exit_code is not None:
            return Outcome.stopped(self.signals.exit_code)
        limit = self.runtime.budget.exhausted
        if limit is not None and getattr(error, "code", None) == "budget_exhausted":
            return self._limit_reached(limit)
        failure = describe_failure(error, anything=True)
        assert failure is not None
        return Outcome.failed(*failure)

    def _ended(self, answer: str) -> Outcome:
        """Return the outcome of a turn whose loop returned."""
        end = self.runtime.turn_end
        status, is_denied = end.reported.get("status"), end.reported.get("reason") == "denied"
        if self.signals.exit_code is not None or status == "cancelled":
            return Outcome.stopped(self.signals.exit_code, answer)
        if self.approvals is not None and self.approvals.must_stop:
            return self._needs_approval(self.approvals)
        limit = self.runtime.budget.exhausted
        if limit is not None and (is_denied or end.used_up is not None):
            return self._limit_reached(limit)
        if end.reported.get("reason") in _LIMITS:
            # The answer ends with the reason.
            return Outcome(status or "incomplete", exits.BUDGET_EXHAUSTED, response=answer)
        if not is_denied:
            return Outcome(status or "success", exits.OK, response=answer)
        if missing_mcp_servers(self.coordinator):
            return Outcome.failed("mcp_server_missing", answer, exits.MODULES)
        if self.stats.answers:
            return Outcome("denied", exits.FAILURE, error=answer, error_type="denied")
        return Outcome("denied", exits.PROMPT_DENIED, error=answer, error_type="prompt_denied")

    def _needs_approval(self, approvals: SessionApprovals) -> Outcome:
        calls = [
            {
                "id": call.id,
                "tool": call.tool_name,
                "input": self.scrub(call.tool_input),
                "question": call.questions[-1].prompt,
            }
            for call in approvals.pending
        ]
        return Outcome(
            "approval_needed",
            exits.APPROVAL_NEEDED,
            error=approvals.describe(),
            error_type="approval_needed",
            approvals=tuple(calls),
        )

    def _limit_reached(self, limit: str) -> Outcome:
        return Outcome(
            "budget_exhausted",
            exits.BUDGET_EXHAUSTED,
            error=limit,
            error_type="budget_exhausted",
            spent=tuple(self.runtime.account.rows()),
        )
