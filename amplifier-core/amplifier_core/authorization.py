"""Decide whether an action may happen: policies speak, a person may be asked, and silence means no.

The kernel knows no action names and has no opinion of its own. See `docs/contracts/authorization.md`.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any, Final, NamedTuple

from amplifier_core._injection import is_consent
from amplifier_core.approval import ApprovalTimeoutError
from amplifier_core.bounded_call import FATAL, call, running_task, unhurried
from amplifier_core.data import clean, copier, describe
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED, POLICY_VIOLATION

logger = logging.getLogger(__name__)

Policy = Callable[[str, dict[str, Any]], Any]

_VERDICTS: Final = ("allow", "deny", "ask")
_NOBODY: Final = "kernel"
_PERSON: Final = "approval_system"
_HOOK: Final = "hooks"


@dataclass(frozen=True, slots=True)
class Authorization:
    """Say whether an action may happen, why, and who decided; true only when granted."""

    granted: bool
    reason: str
    source: str

    def __bool__(self) -> bool:
        return self.granted


class Opinion(NamedTuple):
    """What one policy says of one action."""

    verdict: str
    reason: str
    source: str


class RegisteredPolicy(NamedTuple):
    """A policy with its priority: lower ones are asked earlier, equal ones in order of registration."""

    priority: int
    name: str
    function: Policy


def registered_policy(name: str, policy: Policy, priority: int) -> RegisteredPolicy:
    """Check what a policy is registered with; raise TypeError or ValueError for what would fail later or mislead."""
    if not isinstance(name, str):
        raise TypeError(f"register_policy: name must be a string, got {type(name).__name__}")
    if name in (_NOBODY, _PERSON, _HOOK):
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
    return Opinion("deny", "no policy allows it", _NOBODY)


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
    report = {"action": action, "details": cleaned}
    if verdict.verdict == "ask":
        asking = [opinion.source for opinion in opinions if opinion.verdict == "ask"]
        outcome = await _ask(coordinator, verdict, asking, report)
    else:
        outcome = Authorization(verdict.verdict == "allow", verdict.reason, verdict.source)
    report |= {"reason": outcome.reason, "source": outcome.source}
    if outcome.granted:
        await coordinator.hooks.emit(APPROVAL_GRANTED, report)
        return outcome
    if outcome.source not in (_NOBODY, _PERSON):
        await coordinator.hooks.emit(POLICY_VIOLATION, report)
    await coordinator.hooks.emit(APPROVAL_DENIED, report)
    return outcome


async def _opinion(policy: RegisteredPolicy, action: str, details: Any, deadline: float | None) -> Opinion | None:
    """Return what one policy says; one that raises, is late or talks nonsense denies."""
    try:
        said = await call(running_task(), deadline, policy.function, action, details)
        return None if said is None else _understood(policy.name, said)
    except (asyncio.CancelledError, *FATAL):
        raise
    except BaseException as error:
        logger.error("Policy '%s' failed on %s: %s", policy.name, action, describe(error), exc_info=error)
        return Opinion("deny", f"policy failed: {describe(error) or type(error).__name__}", policy.name)


def _understood(name: str, said: Any) -> Opinion:
    """Read the answer of a policy, a verdict or a verdict with a reason; raise ValueError when it is neither."""
    verdict, reason = said if isinstance(said, tuple) and len(said) == 2 else (said, None)
    verdict = str.__str__(verdict) if isinstance(verdict, str) else None
    if verdict not in _VERDICTS:
        raise ValueError(f"it must answer allow, deny, ask or None, not {describe(said)}")
    return Opinion(verdict, describe(reason) if reason else f"{verdict} by policy '{name}'", name)


async def _ask(coordinator: Any, opinion: Opinion, sources: list[str], report: dict[str, Any]) -> Authorization:
    """Ask the approval system; whatever is not a clear yes is a no.

    The question is that of one policy, but all that ask are named: an answer that one of them would do without may be
    one that another insists on.
    """
    asking = {**report, "reason": opinion.reason, "source": opinion.source, "sources": sources}
    verdict = await coordinator.hooks.emit(APPROVAL_REQUIRED, asking)
    if verdict.action == "deny":
        return Authorization(False, verdict.reason or f"a hook denied {APPROVAL_REQUIRED}", _HOOK)
    if coordinator.approval_system is None:
        return Authorization(False, "approval needed, but no approval system is there to ask", _NOBODY)
    prompt = f"Allow {report['action']}? {opinion.reason}"
    try:
        timeout = coordinator._seconds("approval_timeout")
        limit = float("inf") if timeout is None else timeout
        request = coordinator.approval_system.request_approval
        with unhurried(running_task()):  # a gate that asks from inside of a hook has no deadline meanwhile
            answer = await call(running_task(), timeout, request, prompt, ["Allow", "Deny"], limit, "deny")
    except (asyncio.CancelledError, *FATAL):
        raise
    except (ApprovalTimeoutError, TimeoutError):
        return Authorization(False, "approval timeout: nobody answered in time", _NOBODY)
    except BaseException as error:
        logger.error("The approval system failed on %s: %s", report["action"], describe(error), exc_info=error)
        return Authorization(False, f"the approval system failed: {describe(error)}", _NOBODY)
    if is_consent(answer):
        return Authorization(True, f"approved: {answer}", _PERSON)
    return Authorization(False, f"not approved: {describe(answer)}", _PERSON)
