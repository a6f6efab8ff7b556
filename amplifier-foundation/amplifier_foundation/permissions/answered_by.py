"""Say in the log who decided: a person by the name of their account, a rule, a policy, a hook, or nobody.

The kernel tells of a decision and of the policy or the approval system it came from, in the task that asked them. What
they know beyond that is kept for this task until the event says that it is decided.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakKeyDictionary

from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED, APPROVAL_REQUIRED
from amplifier_core.models import HookResult

if TYPE_CHECKING:
    from amplifier_foundation.permissions.permissions import Judgement

#: `kind`, and what goes with it: `user` and `via` of a person, `rule`, `scope` and `where` of a rule.
AnsweredBy = Mapping[str, str]

#: The key of the events.
KEY: Final = "answered_by"
NOBODY: Final[AnsweredBy] = {"kind": "nobody"}
#: A person of whom no more is known.
SOMEBODY: Final[AnsweredBy] = {"kind": "person"}
#: Whoever an app asks in a way of its own.
APP: Final[AnsweredBy] = {"kind": "app"}
#: Before whoever reads, and whoever masks secrets.
_FIRST: Final = -1000
#: How the kernel begins its reasons when neither a policy nor a person has decided.
_OF_KERNEL: Final = {"approval timeout": "timeout", "the approval system failed": "failure"}

_answers: WeakKeyDictionary[asyncio.Task[Any], AnsweredBy] = WeakKeyDictionary()
#: What rules decided, by the reason that the kernel is given.
_rules: WeakKeyDictionary[asyncio.Task[Any], dict[str, AnsweredBy]] = WeakKeyDictionary()


def account_name() -> str:
    """Return whose process this is: the name of the account, else its number. Variables have no say in it."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def person_at(via: str, user: str = "", at: str = "") -> AnsweredBy:
    """Return a person, the one whose process this is unless named: where they answered, and when if not just now."""
    return {"kind": "person", "user": user or account_name(), "via": via} | ({"at": at} if at else {})


def of_rule(judged: Judgement) -> AnsweredBy:
    """Return the rule that a judgement comes from; nobody for a denial because there is none."""
    from amplifier_foundation.permissions.remembered import is_remembered

    rule, scope = judged.rule, judged.scope
    if rule is None:
        return NOBODY
    kind = "default" if scope == "default" else "remembered" if is_remembered(rule, scope) else "rule"
    where = {"where": rule.where} if rule.where and scope != "default" else {}
    return {"kind": kind, "rule": str(rule), "scope": scope, **where}


def note_answer(by: AnsweredBy) -> None:
    """Say who gives the answer to the question that this task puts, unless it has been said more exactly."""
    if (task := _task()) is not None:
        _answers.setdefault(task, by)


def take_answer() -> AnsweredBy | None:
    """Return who answered the last question of this task, once; None when nobody has said so."""
    task = _task()
    return _answers.pop(task, None) if task is not None else None


def note_rule(judged: Judgement, reason: str) -> None:
    """Say which rule is behind a verdict that the kernel is given for a reason."""
    if (task := _task()) is not None:
        _rules.setdefault(task, {})[reason] = of_rule(judged)


def tell_who_answered(coordinator: Any) -> None:
    """Let the events of a session's decisions say who made them."""
    coordinator.hooks.register(APPROVAL_REQUIRED, _on_required, priority=_FIRST, name="app-answered-by")
    for event in (APPROVAL_GRANTED, APPROVAL_DENIED):
        coordinator.hooks.register(event, _on_decided, priority=_FIRST, name="app-answered-by")


def _on_required(event: str, data: dict[str, Any]) -> None:
    take_answer()  # of a question that a hook has put by itself


def _on_decided(event: str, data: dict[str, Any]) -> HookResult:
    task = _task()
    rules = _rules.pop(task, {}) if task is not None else {}
    source = data.get("source", "hooks")  # a module that tells of a decision of its own names none
    by = _decider(str(source), str(data.get("reason")), take_answer(), rules)
    return HookResult(action="modify", data={**data, KEY: dict(by)})


def _decider(source: str, reason: str, answer: AnsweredBy | None, rules: Mapping[str, AnsweredBy]) -> AnsweredBy:
    if source == "approval_system":
        return answer or APP
    if source == "kernel":
        return {"kind": next((kind for start, kind in _OF_KERNEL.items() if reason.startswith(start)), "nobody")}
    if source == "hooks":
        return {"kind": "hook"}
    return rules.get(reason) or {"kind": "policy", "policy": source}


def _task() -> asyncio.Task[Any] | None:
    try:
        return asyncio.current_task()
    except RuntimeError:
        return None
