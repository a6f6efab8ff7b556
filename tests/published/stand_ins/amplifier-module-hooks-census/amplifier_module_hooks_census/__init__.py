"""Hooks on several events, registered one by one, removed by the cleanup that mount returns."""

from typing import Any

from amplifier_core import HookResult

__amplifier_module_type__ = "hook"


class CensusHooks:
    def __init__(self) -> None:
        self.counts: dict[str, int] = {}

    async def count(self, event: str, data: dict[str, Any]) -> HookResult:
        self.counts[event] = self.counts.get(event, 0) + 1
        return HookResult(action="continue")

    async def remind(self, event: str, data: dict[str, Any]) -> HookResult:
        return HookResult(
            action="inject_context",
            context_injection='<system-reminder source="census">Count with care.</system-reminder>',
            context_injection_role="user",
            ephemeral=True,
        )


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> Any:
    config = config or {}
    hooks = CensusHooks()
    handlers = [
        coordinator.hooks.register(event, hooks.count, priority=config.get("priority", 50), name=f"census-{event}")
        for event in ("session:start", "tool:pre", "tool:post", "prompt:complete", "session:end")
    ]
    handlers.append(coordinator.hooks.register("provider:request", hooks.remind, priority=10, name="census-remind"))

    def cleanup() -> None:
        for unregister in handlers:
            unregister()

    return cleanup
