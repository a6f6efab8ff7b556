"""Who decided a request, as the log records it: a person by account name, a rule, a hook, or none of them.

Policies and approval systems return it with their answers, and the kernel writes it into the events.
"""

from __future__ import annotations

from typing import Any, Final

from amplifier_core.approval import AnsweredBy
from amplifier_core.events import APPROVAL_DENIED, APPROVAL_GRANTED
from amplifier_core.models import HookResult

__all__ = ["APP", "NOBODY", "UNNAMED_PERSON", "AnsweredBy", "account_name", "name_modules_that_decide", "person_at"]

NOBODY: Final[AnsweredBy] = {"kind": "nobody"}
UNNAMED_PERSON: Final[AnsweredBy] = {"kind": "person"}
#: The app's approval system, when it does not say who answered.
APP: Final[AnsweredBy] = {"kind": "app"}
#: Before hooks that read the event or mask secrets in it.
_FIRST: Final = -1000


def account_name() -> str:
    """Return the account of this process by name, else by number; environment variables are ignored."""
    import os
    import pwd

    try:
        return pwd.getpwuid(os.getuid()).pw_name
    except KeyError:
        return str(os.getuid())


def person_at(via: str, user: str = "", at: str = "") -> AnsweredBy:
    """Return a person, by default the owner of this process: where they answered, and when if it was earlier."""
    return {"kind": "person", "user": user or account_name(), "via": via} | ({"at": at} if at else {})


def name_modules_that_decide(coordinator: Any) -> None:
    """Add `answered_by` to approval events that modules emit themselves; the kernel's have it already."""
    for event in (APPROVAL_GRANTED, APPROVAL_DENIED):
        coordinator.hooks.register(event, _on_decided, priority=_FIRST, name="app-answered-by")


def _on_decided(event: str, data: dict[str, Any]) -> HookResult | None:
    if "answered_by" in data:
        return None
    return HookResult(action="modify", data={**data, "answered_by": {"kind": "hook"}})
