"""Keep the whole session in memory, and compact only the requests."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_kit.config import read_config
from amplifier_kit.engine.context.base import BaseContext
from amplifier_kit.engine.context.token_budget import ContextConfig

__amplifier_module_type__ = "context"
CONFIG: Final = ContextConfig
__all__ = ["CONFIG", "SimpleContextManager", "mount"]


class SimpleContextManager(BaseContext):
    """A context manager in memory; see `BaseContext`."""

    name = "context-simple"

    def __init__(
        self, settings: ContextConfig | int | None = None, coordinator: Any = None, *, hooks: Any = None, **config: Any
    ) -> None:
        """Take settings, or config keys as subclasses of the published class give them, with `max_tokens` first.

        Without a coordinator, `hooks` is where events go. Raises ConfigError for a wrong config key.
        """
        if isinstance(settings, int):
            config["max_tokens"], settings = settings, None
        if config:
            if settings is not None:
                raise TypeError("SimpleContextManager takes settings or config keys, not both")
            settings = read_config(ContextConfig, config, module=self.name)
        super().__init__(settings, coordinator if coordinator is not None or hooks is None else _HooksAlone(hooks))


class _HooksAlone:
    """A coordinator with hooks and nothing else."""

    def __init__(self, hooks: Any) -> None:
        self.hooks = hooks

    def get_capability(self, name: str) -> Any:
        return None

    async def process_hook_result(self, result: Any, event: str, hook_name: str = "") -> Any:
        return result


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Mount the context manager and return its cleanup; raise ConfigError that names every wrong config key."""
    settings = read_config(ContextConfig, config, module=SimpleContextManager.name)
    context = SimpleContextManager(settings, coordinator)
    await coordinator.mount("context", context)
    return context.attach()
