"""A context manager with the methods of the published protocol, all async."""

from typing import Any

__amplifier_module_type__ = "context"


class CensusContext:
    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []
        self._factory: Any = None

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)

    async def get_messages(self) -> list[dict[str, Any]]:
        return list(self.messages)

    async def get_messages_for_request(
        self, token_budget: int | None = None, provider: Any = None
    ) -> list[dict[str, Any]]:
        system = [{"role": "system", "content": await self._factory()}] if self._factory else []
        return [*system, *self.messages]

    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages = list(messages)

    async def set_system_prompt_factory(self, factory: Any) -> None:
        self._factory = factory

    async def clear(self) -> None:
        self.messages = []


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("context", CensusContext())
