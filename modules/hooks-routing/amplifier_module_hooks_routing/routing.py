"""Read the matrix of a session, fill the roles of its agents, and tell the model which roles there are."""

from __future__ import annotations

import logging
import os
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

from amplifier_core.models import HookResult
from amplifier_kit.engine.routing.matrix import Candidate, MatrixError, Role, load_matrix, with_overrides
from amplifier_kit.engine.routing.resolver import RoleResolver
from amplifier_kit.guard.files.configured_file import project_of
from amplifier_kit.guard.project_trust import is_project_trusted, project_around
from amplifier_kit.home import amplifier_home
from amplifier_kit.reminders import fitting_reminder, without_tags
from amplifier_module_hooks_routing.config import RoutingConfig

__all__ = ["NAME", "Routing"]

logger = logging.getLogger(__name__)

NAME: Final = "hooks-routing"
#: The capability with overrides that an app changes while a session runs; children share it.
_LIVE: Final = "session.routing"
#: Tools that take a role.
_USERS: Final = ("delegate", "task", "recipes")


class Routing:
    """The roles of one session; files are read on first use."""

    resolver: RoleResolver

    def __init__(self, coordinator: Any, settings: RoutingConfig) -> None:
        self._coordinator = coordinator
        self._settings = settings
        self._roles: dict[str, Role] | None = None

    @property
    def roles(self) -> Mapping[str, Role]:
        """Return the roles by name, with the overrides of config and app."""
        if self._roles is None:
            try:
                roles = load_matrix(self._settings.default_matrix, self._folders()).roles
                self._roles = with_overrides(roles, self._settings.overrides, "overrides")
            except (MatrixError, OSError) as error:
                logger.warning("hooks-routing: no role is known: %s", error)
                self._roles = {}
        live = self._coordinator.get_capability(_LIVE)
        overrides = live.get("overrides") if isinstance(live, Mapping) else None
        if not isinstance(overrides, Mapping) or not overrides:
            return self._roles
        try:
            return with_overrides(self._roles, overrides, f"{_LIVE}.overrides")
        except MatrixError as error:
            logger.warning("hooks-routing: %s", error)
            return self._roles

    def candidates(self, role: str) -> tuple[Candidate, ...]:
        """Return the candidates of a role, best first; none for an unknown one."""
        found = self.roles.get(role)
        return found.candidates if found is not None else ()

    def _folders(self) -> list[Path]:
        """Return the folders with matrices; those of a project that is not trusted are left out."""
        project = project_of(self._coordinator)
        home = Path(str(self._coordinator.get_capability("amplifier.home") or amplifier_home()))
        folders = [project / os.path.expanduser(path) for path in self._settings.custom_routing_dirs]
        for folder in folders:
            if project_around(self._coordinator, folder) is not None and not is_project_trusted(self._coordinator):
                logger.warning("hooks-routing: %s is left out: the project is not trusted", folder)
                folders = [other for other in folders if other != folder]
        return [*folders, home / "routing"]

    async def on_session_start(self, event: str, data: Any) -> None:
        """Give each agent with a role, and no preferences of its own, the model that fills it."""
        config = self._coordinator.config
        agents = config.get("agents") if isinstance(config, Mapping) else None
        for agent in (agents or {}).values() if isinstance(agents, Mapping) else ():
            role = agent.get("model_role") if isinstance(agent, dict) else None
            if not role or agent.get("provider_preferences"):
                continue
            roles = [role] if isinstance(role, str) else [each for each in role if isinstance(each, str)]
            if found := await self.resolver.resolve(roles):
                agent["provider_preferences"] = [preference.to_dict() for preference in found]

    async def on_provider_request(self, event: str, data: Any) -> HookResult | None:
        """Add the list of roles to this request, where a tool takes one."""
        tools = self._coordinator.get("tools") or {}
        roles = self.roles
        if not roles or not any(name in tools for name in _USERS):
            return None
        lines = [f"- {name}: {role.description}" if role.description else f"- {name}" for name, role in roles.items()]
        text = without_tags("\n".join(["Model roles that you may name when you hand work to an agent:", *lines]))
        reminder = fitting_reminder(text, NAME, getattr(self._coordinator, "injection_size_limit", None))
        if reminder is None:
            return None
        return HookResult(
            action="inject_context", context_injection=reminder, context_injection_role="user", ephemeral=True
        )
