"""Let a session in which a person calls a tool do without a model: nobody asks one, so that it needs no key."""

from __future__ import annotations

import os
from typing import Any, NoReturn

from amplifier_core.llm_errors import ConfigurationError


def leave_out_keyless(plan: dict[str, Any]) -> None:
    """Take out of a plan that is about to be mounted the providers whose key nobody has set.

    They could not be mounted, and a module that is missing stops a session. What is kept of the session still names
    them: whoever goes on with it is told of the key.
    """
    from amplifier_app_cli.providers.choice import unset_of

    entries = plan.get("providers")
    if isinstance(entries, list):
        plan["providers"] = [entry for entry in entries if not unset_of(entry, os.environ)]


async def stand_in(coordinator: Any) -> None:
    """Mount somebody in the place of a provider where there is none: the kernel has no turn without one."""
    if not coordinator.get("providers"):
        await coordinator.mount("providers", _NoModel(), name=_NoModel.name)


class _NoModel:
    """Stand where a provider stands, and answer nothing."""

    name = "nobody"

    def get_info(self) -> NoReturn:
        """Raise ConfigurationError: there is no model to tell of."""
        self._refuse()

    async def list_models(self) -> list[Any]:
        """Return none."""
        return []

    async def complete(self, request: Any, **kwargs: Any) -> NoReturn:
        """Raise ConfigurationError: a tool or a hook asks for a model, and there is none."""
        self._refuse()

    def parse_tool_calls(self, response: Any) -> list[Any]:
        """Return none: nothing was answered."""
        return []

    def _refuse(self) -> NoReturn:
        raise ConfigurationError(
            "a model was asked for, and no provider of this session has a key: `amplifier provider list` shows what "
            "each needs, `amplifier keys set` keeps one"
        )
