"""Decide whether an action may happen: ask the policies, then a person if they say so; the default is no.

`authorize` asks the policies. `ask` is the one way to a person, for policies that want one asked and for hooks that
answer `ask_user`. The kernel knows no action names and has no opinion. See `docs/contracts/authorization.md`.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final, Literal, NamedTuple
from uuid import uuid4

from amplifier_core.approval import AnsweredBy, ApprovalTimeoutError, measure_waits, put
from amplifier_core.bounded_call import DeadlineExceeded, call, running_task, unhurried
from amplifier_core.data import clean, copier, describe, reason
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED, POLICY_VIOLATION

if TYPE_CHECKING:
    from amplifier_core.approval_models import ApprovalRequest

logger = logging.getLogger(__name__)

Policy = Callable[[str, dict[str, Any]], Any]

_VERDICTS: Final = ("allow", "deny", "ask")
_KERNEL: Final = "kernel"
_PERSON: Final = "approval_system"
_HOOK: Final = "hooks"
_OPTIONS: Final = ("Allow", "Deny")
#: Seconds of the longest wait that a date can express.
_LONGEST: Final = 3e9


class Authorization(NamedTuple):
    """Whether an action may happen, why, and who decided; true only when granted.

    Equal to another one with the same answer, reason and source.
    """

    granted: bool
    reason: str
    source: str
    #: The request that a person was asked with, and how long the answer took; None and 0 when policies decided alone.
    approval_id: str | None = None
    waited_ms: int = 0
    answered_by: AnsweredBy = MappingProxyType({})

    def __bool__(self) -> bool:
        return self.granted

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Authorization) and self[:3] == other[:3]

    def __hash__(self) -> int:
        return hash(self[:3])


class Opinion(NamedTuple):
    """The verdict of one policy on one action."""

    verdict: str
    reason: str
    source: str
    answered_by: AnsweredBy
    #: What the action is done to, on one line: only policies can recognise a command or a path in the details.
    subject: str | None = None


class RegisteredPolicy(NamedTuple):
    """A policy with its priority: lower ones are asked earlier, equal ones in order of registration."""

    priority: int
    name: str
    function: Policy


def registered_policy(name: str, policy: Policy, priority: int) -> RegisteredPolicy:
    """Check the arguments of a registration; raise TypeError or ValueError for invalid ones."""
    if not isinstance(name, str):
        raise TypeError(f"register_policy: name must be a string, got {type(name).__name__}")
    if name in (_KERNEL, _PERSON, _HOOK):
        raise ValueError(f"register_policy: the name {name!r} says that no policy decided; choose another")
    if not callable(policy):
        raise TypeError(f"register_policy: policy {name!r} must be callable, got {type(policy).__name__}")
    if not isinstance(priority, int):
        raise TypeError(f"register_policy: priority of {name!r} must be an int, got {type(priority).__name__}")
    return RegisteredPolicy(priority, name, policy)


def decide(opinions: Iterable[Opinion]) -> Opinion:
    """Fold opinions: any deny denies, else any ask asks, else any allow allows, else deny."""
    first: dict[str, Opinion] = {}
    for opinion in opinions:
        first.setdefault(opinion.verdict, opinion)
    for verdict in ("deny", "ask", "allow"):
        if verdict in first:
            return first[verdict]
    return Opinion("deny", "no policy allows it", _KERNEL, {"kind": "nobody"})


async def authorize(
    coordinator: Any, policies: Iterable[RegisteredPolicy], action: str, details: Mapping[str, Any] | None
) -> Authorization:
    """Ask the policies, then a person if they say so, and report the outcome as events."""
    if not isinstance(action, str):
        raise TypeError(f"authorize: action must be a string, got {type(action).__name__}")
    if details is not None and not isinstance(details, Mapping):
        raise TypeError(f"authorize: details must be a mapping, got {type(details).__name__}")
    cleaned = clean(dict(details or {}))
    fresh = copier(cleaned)
    deadline = coordinator.hooks._timeout
    opinions: list[Opinion] = []
    for policy in sorted(policies, key=lambda policy: policy.priority):
        opinion = await _opinion(policy, action, fresh(), deadline)
        if opinion is not None:
            opinions.append(opinion)
            if opinion.verdict == "deny":
                break
    verdict = decide(opinions)
    if verdict.verdict == "ask":
        outcome = await _ask_for_policies(coordinator, verdict, opinions, action, fresh())
    else:
        outcome = Authorization(
            verdict.verdict == "allow", verdict.reason, verdict.source, answered_by=verdict.answered_by
        )
    await report(coordinator, outcome, {"origin": "policy", "action": action, "details": cleaned})
    return outcome


async def _opinion(policy: RegisteredPolicy, action: str, details: Any, deadline: float | None) -> Opinion | None:
    """Return the verdict of one policy; one that raises, is late or returns anything unknown denies."""
    try:
        answer = await call(running_task(), deadline, policy.function, action, details)
        return None if answer is None else _parse_answer(policy.name, answer)
    except Exception as error:
        logger.error("Policy '%s' failed on %s: %s", policy.name, action, describe(error), exc_info=error)
        return Opinion(
            "deny", f"policy failed: {reason(error)}", policy.name, {"kind": "policy", "policy": policy.name}
        )


def _parse_answer(name: str, answer: Any) -> Opinion:
    """Read the answer of a policy: a verdict, or a tuple of a verdict, a reason, who decided, and the subject.

    The last two are optional. Raises ValueError for anything else.
    """
    verdict, reason, by, subject = answer, None, None, None
    if isinstance(answer, tuple) and 2 <= len(answer) <= 4 and all(isinstance(part, Mapping) for part in answer[2:3]):
        verdict, reason, by, subject = (*answer, None, None)[:4]
    verdict = str.__str__(verdict) if isinstance(verdict, str) else None
    if verdict not in _VERDICTS:
        raise ValueError(f"it must answer allow, deny, ask or None, not {describe(answer)}")
    decider = clean(dict(by)) if by else {"kind": "policy", "policy": name}
    why = describe(reason) if reason else f"{verdict} by policy '{name}'"
    return Opinion(verdict, why, name, decider, describe(subject) if subject else None)


async def _ask_for_policies(
    coordinator: Any, opinion: Opinion, opinions: Iterable[Opinion], action: str, details: dict[str, Any]
) -> Authorization:
    """Have a person decide; whatever is not a clear yes is a no.

    The reason shown is that of one policy, but all that ask are named: one of them may accept an answer that another
    does not.
    """
    tool_name = details.get("tool_name")
    asking = [one for one in opinions if one.verdict == "ask"]
    decision = await ask(
        coordinator,
        tool_name=tool_name if isinstance(tool_name, str) else "",
        action=action,
        details=details,
        origin="policy",
        source=opinion.source,
        sources=tuple(one.source for one in asking),
        reason=opinion.reason,
        subject=next((one.subject for one in asking if one.subject), None),
        prompt=f"Allow {action}? {opinion.reason}",
        options=list(_OPTIONS),
        default="deny",
    )
    if decision.kind == "answer":
        return decision.outcome(f"{'approved' if decision.granted else 'not approved'}: {decision.text}")
    return decision.outcome(
        f"the approval system failed: {decision.text}" if decision.kind == "failure" else decision.text
    )


# -- the one way to a person --


class Decision(NamedTuple):
    """The outcome of asking a person."""

    approval_id: str
    granted: bool
    #: An answer was given, a hook denied the asking, no approval system is there, no answer came in time, or it failed.
    kind: Literal["answer", "hook", "nobody", "timeout", "failure"]
    #: The answer, or why there is none.
    text: str
    by: AnsweredBy
    waited_ms: int = 0
    error: BaseException | None = None

    def outcome(self, reason: str) -> Authorization:
        source = {"answer": _PERSON, "hook": _HOOK}.get(self.kind, _KERNEL)
        return Authorization(self.granted, reason, source, self.approval_id, self.waited_ms, self.by)


async def ask(coordinator: Any, *, timeout: float | None = None, **question: Any) -> Decision:
    """Make a request of the fields in `question`, announce it by `approval:required`, and ask the approval system.

    The wait is bounded by the shorter of `timeout` and `session.approval_timeout`; when it passes, the default of the
    request decides. An approval system that fails, or answers with the wrong type, denies, and its error is in the
    decision. The caller reports the outcome.
    """
    from amplifier_core.approval_models import ApprovalRequest

    identity = uuid4().hex
    timeouts = (timeout, coordinator._seconds("approval_timeout"))
    timeout = min((seconds for seconds in timeouts if seconds is not None), default=None)
    request = ApprovalRequest.model_construct(
        **question,
        risk_level="unknown",
        id=identity,
        session_id=coordinator.session_id,
        span_id=coordinator.span_id,
        timeout=timeout,
        deadline=_deadline(timeout),
    )
    heard = await coordinator.hooks.emit(APPROVAL_REQUIRED, announcement(request))
    if heard.action == "deny":
        reason = heard.reason or f"a hook denied {APPROVAL_REQUIRED}"
        return Decision(identity, False, "hook", reason, {"kind": "hook"})
    if coordinator.approval_system is None:
        reason = "approval needed, but no approval system is there to ask"
        return Decision(identity, False, "nobody", reason, {"kind": "nobody"})
    with measure_waits() as clock:
        try:
            with unhurried(running_task()):  # a gate that asks inside a hook has no deadline meanwhile
                response = await call(running_task(), timeout, put, coordinator.approval_system, request)
        except (ApprovalTimeoutError, DeadlineExceeded):
            is_granted, reason = request.default == "allow", "approval timeout: no answer in time"
            return Decision(identity, is_granted, "timeout", reason, {"kind": "timeout"}, clock.ms)
        except TimeoutError as error:  # of the approval system's own making: the default does not apply
            reason = "approval timeout: no answer in time"
            return Decision(identity, False, "timeout", reason, {"kind": "timeout"}, clock.ms, error)
        except Exception as error:
            logger.error("The approval system failed on %s: %s", request.action, describe(error), exc_info=error)
            return Decision(identity, False, "failure", describe(error), {"kind": "failure"}, clock.ms, error)
    by = clean(dict(response.answered_by)) if response.answered_by else {"kind": "app"}
    return Decision(identity, response.approved, "answer", response.text, by, clock.ms)


def announcement(request: ApprovalRequest) -> dict[str, Any]:
    """Return a request as the data of `approval:required`; its id is called `approval_id`, as in all other events."""
    # The registry adds the session and the span; the risk level is for policies and apps to judge.
    data = request.model_dump(exclude={"id", "details", "session_id", "span_id", "risk_level", "timeout"})
    data |= {"approval_id": request.id, "details": request.details, "sources": list(request.sources or ())}
    if request.deadline is not None:
        data |= {"timeout": request.timeout, "deadline": request.deadline.isoformat(timespec="milliseconds")}
    return data


def _deadline(timeout: float | None) -> datetime | None:
    return None if timeout is None or timeout > _LONGEST else datetime.now(UTC) + timedelta(seconds=timeout)


async def report(coordinator: Any, outcome: Authorization, about: Mapping[str, Any]) -> None:
    """Emit the outcome of an authorization or of a hook's question; only a policy's denial is a violation."""
    report = {**about, "reason": outcome.reason, "source": outcome.source, "answered_by": dict(outcome.answered_by)}
    if outcome.approval_id is not None:
        report |= {"approval_id": outcome.approval_id, "waited_ms": outcome.waited_ms}
    if outcome.granted:
        await coordinator.hooks.emit(APPROVAL_GRANTED, report)
        return
    if outcome.source not in (_KERNEL, _PERSON):
        await coordinator.hooks.emit(POLICY_VIOLATION, report)
    await coordinator.hooks.emit(APPROVAL_DENIED, report)
