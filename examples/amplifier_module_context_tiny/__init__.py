"""A context manager that keeps every message in a list."""

from typing import Any

__amplifier_module_type__ = "context"

Message = dict[str, Any]


class ListContext:
    """Keep the whole history; never shorten it."""

    def __init__(self) -> None:
        self._messages: list[Message] = []

    async def add_message(self, message: Message) -> None:
        self._messages.append(message)

    async def get_messages(self) -> list[Message]:
        return list(self._messages)

    async def get_messages_for_request(self, token_budget: int | None = None, provider: Any = None) -> list[Message]:
        return list(self._messages)

    async def set_messages(self, messages: list[Message]) -> None:
        self._messages = list(messages)

    async def clear(self) -> None:
        self._messages = []


async def mount(coordinator: Any, config: dict[str, Any] | None = None) -> None:
    await coordinator.mount("context", ListContext())
