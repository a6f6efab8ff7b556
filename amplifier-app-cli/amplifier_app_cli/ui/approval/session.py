"""The approval systems of a session: the user at the terminal, then pending calls for other approvers."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.ui.layout import summarize_input
from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.approvals.answered_by import NOBODY, person_at
from amplifier_foundation.approvals.approvers import Approver, Approvers, Unattended
from amplifier_foundation.errors import FoundationError

if TYPE_CHECKING:
    from amplifier_app_cli.ui.approval.question import UserTerminal
    from amplifier_foundation.approvals.open_calls import ChildCalls
    from amplifier_foundation.approvals.pending_calls import PendingCall
    from amplifier_foundation.sessions.runtime import SessionRuntime


#: Characters of a pending call that are shown; `amplifier approval list` has all of it.
_LONGEST: Final = 160


class SessionApprovals:
    """Ask the person first, if there is one; a call that they do not decide about becomes pending."""

    def __init__(
        self,
        runtime: SessionRuntime,
        children: ChildCalls,
        person: UserTerminal | None,
        environ: Mapping[str, str],
        via: str,
    ) -> None:
        """Become the approval system of a session; `via` is where the person answers, for the log."""
        self._runtime = runtime
        coordinator = runtime.session.coordinator
        why = "no one is present to allow it" if person is None else "the user leaves it to another approver"
        self._unattended = Unattended(runtime.pending_calls, self._scrub, why, children.asker)
        self._unattended.connect(coordinator)
        #: The one that pending calls are asked by when they run.
        self._first: Any = self._unattended
        approvers = [Approver("waiting", self._unattended, NOBODY)]
        if person is not None:
            from amplifier_app_cli.ui.approval.preview import OwnKeys
            from amplifier_app_cli.ui.approval.terminal import TerminalApproval

            terminal = TerminalApproval(
                person,
                runtime.prepared.project,
                self._scrub,
                environ,
                runtime.permissions,
                can_escalate=True,
                children=children,
                answered_by=person_at(via),
                own_values=OwnKeys.of_user(runtime.prepared.home),
            )
            terminal.connect(coordinator)
            approvers.insert(0, Approver("terminal", terminal, terminal.answered_by))
            self._first = terminal
        Approvers(approvers).connect(coordinator)

    def _scrub(self, value: Any) -> Any:
        return self._runtime.redactor.scrub(value).value

    def expect(self, calls: Iterable[PendingCall]) -> None:
        """Use the recorded answers of these calls, which are about to run."""
        self._first.expect(calls)

    def start_turn(self, show: Callable[[str], None]) -> tuple[PendingCall, ...]:
        """Return the calls that were answered meanwhile and run now; `show` gets a note if they cannot be read."""
        self._unattended.start_turn()
        try:
            answered = tuple(call for call in self._runtime.pending_calls.list() if call.answer is not None)
        except FoundationError as error:
            show(plain(f"note: {error}"))
            return ()
        self.expect(answered)
        return answered

    @property
    def must_stop(self) -> bool:
        """Whether this turn needs a decision that only a person can make."""
        return self._unattended.must_stop

    @property
    def pending(self) -> tuple[PendingCall, ...]:
        """The calls that became pending in this turn."""
        return tuple(self._unattended.pending.values())

    def describe(self) -> str:
        """Return what this turn needs a decision about, on one line; empty if nothing."""
        asked = [
            f"{call.questions[-1].prompt} ({self._rule_about(call)}call {call.id} of {self._summary(call)})"
            for call in self.pending
        ]
        return "; ".join([*asked, *self._unattended.refused])

    def _summary(self, call: PendingCall) -> str:
        """Return the tool of a call and what it would do, such as its command, without secrets."""
        about = summarize_input(self._scrub(call.tool_input), _LONGEST)
        return f"{call.tool_name}: {about}" if about else call.tool_name

    def _rule_about(self, call: PendingCall) -> str:
        """Return the rule that asks about a pending call, as text; empty if a hook or a module asks."""
        question = call.questions[-1]
        if question.source:
            return ""
        details = {"tool_name": call.tool_name, "tool_input": call.tool_input}
        judged = self._runtime.permissions.judge(question.action, details)
        return f"rule `{judged.rule}`, " if judged.verdict == "ask" and judged.rule is not None else ""
