"""Who is asked for permission, one after the other: an approver that cannot decide leaves it to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, Final, NamedTuple

from amplifier_core.approval import ApprovalHandler, ApprovalSystem, put
from amplifier_foundation.permissions.answered_by import APP, KEY, NOBODY, AnsweredBy

if TYPE_CHECKING:
    from amplifier_core import ApprovalRequest, ApprovalResponse

#: The answer of an approver that leaves the decision to the next one; words behind a colon say why.
ESCALATE: Final = "Escalate"
#: Emitted when one approver leaves a decision to another.
APPROVAL_ESCALATED: Final = "approval:escalated"


class Approver(NamedTuple):
    """An approval system, by the name that the log calls it."""

    name: str
    system: ApprovalSystem
    #: Who answers, for the log, unless the answer of the system says it.
    by: AnsweredBy = APP


class Approvers(ApprovalHandler):
    """Be the approval system of a session that has several: the first who decides has decided.

    A decision that every approver leaves to the next is a no. What an approver raises is raised, which is a no as well:
    silence of one is not an invitation to the others.
    """

    def __init__(self, approvers: Sequence[Approver]) -> None:
        self._approvers = tuple(approvers)
        self._coordinator: Any = None

    def connect(self, coordinator: Any) -> None:
        """Be the approval system of a session."""
        self._coordinator = coordinator
        coordinator.register_contributor("observability.events", "app-approvers", lambda: [APPROVAL_ESCALATED])
        coordinator.approval_system = self

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        """Return what the first approver says that decides; the deadline of the request is for all of them together."""
        from amplifier_core import ApprovalResponse

        for number, approver in enumerate(self._approvers, 1):
            response = await put(approver.system, request)
            reason = escalation(response.text)
            if reason is None:
                return response.model_copy(update={KEY: response.answered_by or approver.by})
            rest = self._approvers[number:]
            passed = {"from": approver.name, "to": rest[0].name if rest else None, "reason": reason}
            about = {"approval_id": request.id, "question": request.prompt}
            await self._coordinator.hooks.emit(APPROVAL_ESCALATED, {**about, **passed, KEY: dict(approver.by)})
        return ApprovalResponse(approved=False, reason="nobody decided", answered_by=NOBODY)


async def offer_provider(coordinator: Any) -> None:
    """Let the approval system of a session be the provider of a module that wants one, when there is one."""
    system, register = coordinator.approval_system, coordinator.get_capability("approval.register_provider")
    if system is None or not callable(register):
        return
    from amplifier_foundation.sessions.approval_provider import AskedOnce

    try:
        await AskedOnce(coordinator, system).connect(register)
    except Exception as error:  # without a provider such a module denies
        coordinator.log("WARNING", f"approval.register_provider takes no provider: {type(error).__name__}: {error}")


def escalation(answer: object) -> str | None:
    """Return why an answer leaves the decision to the next approver, empty for no reason; None when it does not."""
    if not isinstance(answer, str):
        return None
    word, _, reason = answer.partition(":")
    return reason.strip() if word.strip().lower() == ESCALATE.lower() else None
