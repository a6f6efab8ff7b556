"""Tell the model which skills there are: names and descriptions at every request, texts when it asks for them."""

from __future__ import annotations

import logging
import re
from collections.abc import Sequence
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.reminders import fitting_reminder
from amplifier_module_tool_skills.catalogue import SkillError
from amplifier_module_tool_skills.config import Visibility
from amplifier_module_tool_skills.discovery import SkillsDiscovery
from amplifier_module_tool_skills.skill import Skill

logger = logging.getLogger(__name__)

NAME: Final = "tool-skills"
FRAGMENT: Final = "skills"
#: Characters of one description, and of all texts that are given without being asked for.
LONGEST: Final = 500
AUTO_ROOM: Final = 20_000

_CUT: Final = "(cut here)"
_HEADING: Final = "Skills. Load one with load_skill(skill_name=...) before a task that matches its description:"
# The text of a skill must neither close the reminder around it nor open another one.
_TAG: Final = re.compile(r"<(?=\s*/?\s*(?:system-reminder|skill\b))", re.IGNORECASE)


class SkillsVisibility:
    """Put the list into each request, or into the system part."""

    def __init__(self, coordinator: Any, settings: Visibility, discovery: SkillsDiscovery) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._discovery = discovery
        #: Texts of skills that load themselves, and what was said in the system part, as read last.
        self._auto: dict[str, str] = {}
        self._standing: str | None = None

    async def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Add the list to this request only, or see to it that the system part has it; nothing when there is none."""
        await self._discovery.announce()
        if self._settings.placement == "prefix" and await self.stand():
            return None
        text = fitting_reminder(await self._said(), NAME, getattr(self._coordinator, "injection_size_limit", None))
        if text is None:
            return None
        return HookResult(
            action="inject_context",
            context_injection=text,
            context_injection_role=self._settings.inject_role,
            ephemeral=True,
            append_to_last_tool_result=True,
        )

    async def stand(self) -> bool:
        """Put the list into the system part, when it has changed; return False when the kernel has no place for it."""
        if not hasattr(self._coordinator, "fragments"):
            return False
        from amplifier_core.coordinator import set_context_fragment

        text = await self._said() or None
        if text != self._standing:
            self._standing = text
            try:
                set_context_fragment(FRAGMENT, text, session_id=self._coordinator.session_id)
            except RuntimeError as error:
                logger.warning("tool-skills: the list of skills goes with each request instead: %s", error)
                self._standing = None
                return False
        return True

    async def _said(self) -> str:
        skills = self._discovery.for_model()
        lines = self._lines([skill for skill in skills if not skill.is_auto])
        texts = [await self._auto_text(skill) for skill in skills if skill.is_auto]
        room = AUTO_ROOM
        given: list[str] = []
        for text in texts:
            if len(text) > room:
                logger.warning("tool-skills: texts of skills with auto-load are over %d characters", AUTO_ROOM)
                text = f"{text[:room]}\n{_CUT}\n</skill>" if room else ""
            given.append(text)
            room = max(room - len(text), 0)
        return "\n\n".join(part for part in ("\n".join(lines), *given) if part)

    def _lines(self, skills: Sequence[Skill]) -> list[str]:
        shown = skills[: self._settings.max_skills_visible]
        if not skills:
            return []
        lines = [_HEADING, *map(_line, shown)]
        if len(shown) < len(skills):
            lines.append(f"({len(skills) - len(shown)} more: load_skill(list=true))")
        return lines

    async def _auto_text(self, skill: Skill) -> str:
        """Return the text of a skill that loads itself, read once in a session; empty when it cannot be read."""
        if skill.name not in self._auto:
            try:
                text = await self._discovery.load(skill)
            except SkillError as error:
                logger.warning("tool-skills: %s", error)
                return ""
            body = _TAG.sub("‹", text.content)
            self._auto[skill.name] = f'<skill name="{_attribute(skill.name)}">\n{body}\n</skill>'
        return self._auto[skill.name]


def _line(skill: Skill) -> str:
    said = skill.description
    shown = said if len(said) <= LONGEST else f"{said[:LONGEST]}…"
    return f"- {_TAG.sub('‹', skill.name)}: {_TAG.sub('‹', shown)}"


def _attribute(name: str) -> str:
    return name.replace("&", "&amp;").replace('"', "&quot;").replace("<", "&lt;")
