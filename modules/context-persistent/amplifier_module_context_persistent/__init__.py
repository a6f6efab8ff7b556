"""Keep the session in memory and in an append-only file, so that it can be resumed."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

from amplifier_module_context_persistent.context import PersistentConfig, PersistentContextManager

__amplifier_module_type__ = "context"
CONFIG: Final = PersistentConfig
__all__ = ["CONFIG", "PersistentContextManager", "mount"]


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Callable[[], Any]:
    """Read the transcript and memory files, mount the context manager and return its cleanup.

    Raises ValueError for an invalid config or a session without an id, RuntimeError when the memory
    files exceed the budget or another session writes the transcript, OSError when it cannot be read.
    """
    context = PersistentContextManager.from_config(config, coordinator)
    await coordinator.mount("context", context)
    return context.attach()
