"""Who is asked for permission, one after the other: who cannot decide leaves it to the next."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final, Literal, NamedTuple, Protocol

from amplifier_foundation.permissions.answered_by import APP, KEY, NOBODY, AnsweredBy, note_answer, take_answer
from amplifier_kit.awaitable import maybe_await

#: The answer of an approver that leaves the decision to the next one; words behind a colon say why.
ESCALATE: Final = "Escalate"
#: Said when one approver leaves a decision to another.
APPROVAL_ESCALATED: Final = "approval:escalated"


class ApprovalSystem(Protocol):
    """Whatever can be asked as the kernel asks."""

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return the answer."""
        ...


class Approver(NamedTuple):
    """One who is asked, by the name that the log calls it."""

    name: str
    system: ApprovalSystem
    #: Who answers, for the log; an approval system that knows better notes it when it answers.
    by: AnsweredBy = APP


class Approvers:
    """Be the approval system of a session that has several: the first who decides has decided.

    A decision that everybody leaves to the next is a no. What an approver raises is raised, which is a no as well:
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

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return what the first approver says that decides; the deadline of the session is for all of them together."""
        for number, approver in enumerate(self._approvers, 1):
            take_answer()  # who left it to this one has not decided
            answer: str = await maybe_await(approver.system.request_approval(prompt, options, timeout, default))
            reason = escalation(answer)
            if reason is None:
                note_answer(approver.by)
                return answer
            rest = self._approvers[number:]
            told = {"question": prompt, "from": approver.name, "to": rest[0].name if rest else None, "reason": reason}
            await self._coordinator.hooks.emit(APPROVAL_ESCALATED, {**told, KEY: dict(approver.by)})
        take_answer()
        note_answer(NOBODY)
        return "Deny: nobody decided"


async def offer_provider(coordinator: Any) -> None:
    """Let who answers the kernel answer a module too that wants an approval provider, when there is one."""
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
