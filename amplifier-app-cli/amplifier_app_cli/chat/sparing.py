"""Know what rules make of a question and its answer: some they cannot spare, and no yes lifts what they deny."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Any, Final

from amplifier_app_cli.chat.question import Asked
from amplifier_kit.awaitable import plain_result

if TYPE_CHECKING:
    from amplifier_foundation.permissions.answered_by import AnsweredBy
    from amplifier_foundation.permissions.session_permissions import SessionPermissions

#: The policies of the app itself: of the session, and of the agents above it.
_RULES: Final = "rules"
_AGENT_RULES: Final = "agent-rules-"
#: A module that gives way to what a person allows, unless it says otherwise.
_APPROVAL: Final = "hooks-approval"
ASKS_EACH_TIME: Final = "approval.asks_each_time"


def can_be_spared(asked: Asked, coordinators: Iterable[Any]) -> bool:
    """Tell whether only rules ask, and no policy that would ask again whatever rules allow.

    Of a question of a child only its own session knows more.
    """
    others = {source for source in asked.sources if source != _RULES and not source.startswith(_AGENT_RULES)}
    if asked.asker or (asked.sources and not others):
        return True
    if others != {_APPROVAL}:
        return False
    known = [coordinator.get_capability(ASKS_EACH_TIME) for coordinator in coordinators]
    wanted = [plain_result(asks(asked.action, asked.details)) for asks in known if callable(asks)]
    return bool(wanted) and all(wants is False for wants in wanted)


def denied_by_now(asked: Asked | None, permissions: SessionPermissions | None) -> AnsweredBy | None:
    """Return the rule that denies by now what a person has allowed: questions may stand for hours. None for none."""
    if asked is None or not asked.action or asked.asker or permissions is None:
        return None
    return permissions.denying_rule(asked.action, asked.details)
