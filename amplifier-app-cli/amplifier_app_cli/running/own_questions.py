"""Keep the questions of child sessions from whoever lets calls of the session itself wait."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal

if TYPE_CHECKING:
    from amplifier_app_cli.chat.child_questions import ChildQuestions
    from amplifier_foundation.sessions.unattended import Unattended


class OwnQuestions:
    """Ask `Unattended` about calls of the session alone.

    It knows a call by where the question is put, which for a child is inside of the call that started it. That call
    would wait, and a yes to it would be one to whatever the child wants to do the next time.
    """

    def __init__(self, unattended: Unattended, children: ChildQuestions) -> None:
        self._unattended, self._children = unattended, children

    async def request_approval(
        self, prompt: str, options: list[str], timeout: float, default: Literal["allow", "deny"]
    ) -> str:
        """Return what is answered to a question of the session, and a no to one of a child, which cannot wait."""
        asked = self._children.about(prompt)
        if asked is None:
            return await self._unattended.request_approval(prompt, options, timeout, default)
        self._unattended.lost.append(f"{prompt} (asked by the agent {asked.asker}, whose calls cannot wait)")
        return "Deny: nobody is here to allow it, and a call of an agent cannot wait"
