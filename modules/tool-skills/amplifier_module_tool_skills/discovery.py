"""Know the skills of one session, and tell others of them."""

from __future__ import annotations

import asyncio
import logging
from typing import Any, Final

from amplifier_module_tool_skills.catalogue import Catalogue, Text
from amplifier_module_tool_skills.config import SkillsConfig
from amplifier_module_tool_skills.roots import find_roots
from amplifier_module_tool_skills.skill import Skill

logger = logging.getLogger(__name__)

DISCOVERED: Final = "skills:discovered"
LOADED: Final = "skill:loaded"
#: `(path, root) -> reason`: an app with rules says which files must not be given to the model, None for those that may.
_DENIED: Final = "prompt.denied"


class SkillsDiscovery:
    """Be the capability `skills_discovery`: the skills of a session, for modules and apps."""

    def __init__(self, coordinator: Any, settings: SkillsConfig, catalogue: Catalogue) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._catalogue = catalogue
        self._announced: list[str] | None = None
        self._told: set[str] = set()

    @classmethod
    async def start(cls, coordinator: Any, settings: SkillsConfig) -> SkillsDiscovery:
        """Find the folders and look into them."""
        denied = coordinator.get_capability(_DENIED)
        made = cls(coordinator, settings, Catalogue(await find_roots(coordinator, settings), denied))
        await made.refresh()
        return made

    @property
    def skills(self) -> dict[str, Skill]:
        """Return all skills by name, as found last."""
        return dict(self._catalogue.skills)

    @property
    def problems(self) -> list[str]:
        """Return what is wrong with invalid skill files, each with file and line."""
        return list(self._catalogue.problems)

    @property
    def sources(self) -> list[str]:
        """Return the folders that are searched, in order."""
        return [str(root.path) for root in self._catalogue.roots.folders]

    def list_skills(self) -> list[tuple[str, str]]:
        """Return name and description of what a user may call."""
        return [(skill.name, skill.description) for skill in self._catalogue.skills.values() if skill.is_for_user]

    def get_shortcuts(self) -> dict[str, dict[str, str]]:
        """Return what a user may call by a shortcut: its skill's name and description, and where it runs."""
        return {
            skill.shortcut: {
                "name": skill.name,
                "description": skill.description,
                "context": "fork" if skill.is_fork else "inline",
            }
            for skill in reversed(self._catalogue.skills.values())  # of two with one shortcut, the first found counts
            if skill.shortcut is not None and skill.is_for_user
        }

    def for_model(self) -> list[Skill]:
        """Return what the model may know of."""
        return [skill for skill in self._catalogue.skills.values() if skill.is_for_model]

    def find(self, name: str) -> Skill | None:
        """Return the skill of that name, None when there is none."""
        return self._catalogue.find(name)

    async def refresh(self) -> None:
        """Look into the folders again."""
        await asyncio.to_thread(self._catalogue.scan)
        for problem in self._catalogue.problems:
            if problem not in self._told:
                self._told.add(problem)
                logger.warning("tool-skills: %s", problem)

    async def on_start(self, event: str, data: Any) -> None:
        """Say which skills there are when the session starts."""
        await self.announce()

    async def announce(self) -> None:
        """Emit `skills:discovered` when there are others than those it was emitted for last."""
        names = list(self._catalogue.skills)
        if names == self._announced:
            return
        self._announced = names
        report = {"skill_count": len(names), "skill_names": names, "sources": self.sources}
        await self._coordinator.hooks.emit(DISCOVERED, report)

    async def load(self, skill: Skill) -> Text:
        """Return the text of a skill and emit `skill:loaded`; raise SkillError when it cannot be had."""
        text = await asyncio.to_thread(self._catalogue.text, skill, self._settings.max_skill_bytes)
        report = {
            "skill_name": skill.name,
            "source": str(skill.source),
            "content_length": len(text.content),
            "version": skill.version,
        }
        await self._coordinator.hooks.emit(LOADED, report)
        return text
