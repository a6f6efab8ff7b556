"""Calls that the person at the chat leaves to somebody else: they wait, and run in a later turn once answered."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from amplifier_app_cli.ui.plain import plain
from amplifier_foundation.errors import FoundationError
from amplifier_foundation.permissions.answered_by import NOBODY
from amplifier_foundation.sessions.approvers import Approver, Approvers
from amplifier_foundation.sessions.unattended import Unattended

if TYPE_CHECKING:
    from amplifier_app_cli.chat.approval import TerminalApproval
    from amplifier_foundation.sessions import SessionRuntime
    from amplifier_foundation.sessions.waiting_calls import WaitingCall


class CallsForLater:
    """Be asked after the person, and keep what they do not want to decide."""

    def __init__(self, runtime: SessionRuntime, scrub: Callable[[Any], Any]) -> None:
        self._runtime = runtime
        self._unattended = Unattended(runtime.waiting, scrub, "the user leaves it to somebody else")
        self._approval: TerminalApproval | None = None

    def connect(self, approval: TerminalApproval) -> None:
        """Let `approval` be asked first."""
        coordinator = self._runtime.session.coordinator
        self._approval = approval
        self._unattended.connect(coordinator)
        approvers = [
            Approver("terminal", approval, approval.answered_by),
            Approver("waiting", self._unattended, NOBODY),
        ]
        Approvers(approvers).connect(coordinator)

    def start_turn(self, show: Callable[[str], None]) -> tuple[WaitingCall, ...]:
        """Return the calls that were answered meanwhile and run now; `show` is told when they cannot be read."""
        self._unattended.start_turn()
        try:
            ready = tuple(call for call in self._runtime.waiting.list() if call.answer is not None)
        except FoundationError as error:
            show(plain(f"note: {error}"))
            return ()
        if ready and self._approval is not None:
            self._approval.expect(ready)
        return ready

    def told(self) -> str:
        """Return what waits because of this turn, and how it is answered; empty when nothing does."""
        unattended = self._unattended
        if not unattended.must_stop:
            return ""
        asked = [
            f"{call.questions[-1].prompt} (call {call.id} of {call.tool_name})" for call in unattended.asked.values()
        ]
        session = self._runtime.session_id[:8]
        how = f"; `amplifier approval allow {session}` or `deny` answers, and your next prompt here takes it up"
        return f"left to somebody else: {'; '.join([*asked, *unattended.lost])}{how if asked else ''}"
