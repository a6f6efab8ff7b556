"""Say in the log who decided: a person by the name of their account, a rule, a policy, a hook, or nobody.

Policies and approval systems return it with their answers, and the kernel writes it into the events.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

from amplifier_core.approval import AnsweredBy
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED
from amplifier_core.models import HookResult

if TYPE_CHECKING:
    from amplifier_foundation.permissions.permissions import Judgement

__all__ = [
    "APP",
    "KEY",
    "NOBODY",
    "SOMEBODY",
    "AnsweredBy",
    "account_name",
    "name_modules_that_decide",
    "of_rule",
    "person_at",
]

#: The key of the events.
KEY: Final = "answered_by"
NOBODY: Final[AnsweredBy] = {"kind": "nobody"}
#: A person of whom no more is known.
SOMEBODY: Final[AnsweredBy] = {"kind": "person"}
#: Whoever an app asks in a way of its own.
APP: Final[AnsweredBy] = {"kind": "app"}
#: Before whoever reads, and whoever masks secrets.
_FIRST: Final = -1000


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


def name_modules_that_decide(coordinator: Any) -> None:
    """Let `approval:granted` and `approval:denied` of modules say that a hook decided; the kernel's say who did."""
    for event in (APPROVAL_GRANTED, APPROVAL_DENIED):
        coordinator.hooks.register(event, _on_decided, priority=_FIRST, name="app-answered-by")


def _on_decided(event: str, data: dict[str, Any]) -> HookResult | None:
    return None if KEY in data else HookResult(action="modify", data={**data, KEY: {"kind": "hook"}})
