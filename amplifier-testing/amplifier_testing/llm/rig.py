"""A provider under test: a server, a session to listen to, and requests to send."""

from __future__ import annotations

import itertools
from typing import Any

from amplifier_core import ChatRequest, Message, ToolSpec
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.provider import LLMProvider
from amplifier_testing.llm.server import ModelServer

__all__ = ["KEY", "Rig", "ask"]

#: The key of providers under test; no event, error or log may hold it.
KEY = "sk-test-key-0123456789abcdef"

_STAMPS = ("timestamp", "session_id", "parent_id")


def ask(*said: Any, tools: tuple[str, ...] = (), **fields: Any) -> ChatRequest:
    """Return a request: texts are the user's, pairs have a role and a text, mappings are whole messages."""
    messages = []
    for item in said or ("hello",):
        if isinstance(item, str):
            messages.append(Message(role="user", content=item))
        elif isinstance(item, tuple):
            messages.append(Message(role=item[0], content=item[1]))
        else:
            messages.append(Message(**item))
    schema = {"type": "object", "properties": {"where": {"type": "string"}}}
    specs = [ToolSpec(name=name, description=f"The tool {name}", parameters=schema) for name in tools]
    return ChatRequest(messages=messages, tools=specs or None, **fields)


class Rig:
    """A provider, its server, and the events it emitted."""

    def __init__(self, provider: LLMProvider, server: ModelServer, coordinator: MockCoordinator) -> None:
        self.provider = provider
        self.server = server
        self.coordinator = coordinator
        self.heard: list[tuple[str, dict[str, Any]]] = []
        coordinator.hooks.register("*", self._hear)

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.heard.append((event, {key: value for key, value in data.items() if key not in _STAMPS}))

    @property
    def names(self) -> list[str]:
        """Return the names of the events, repeated ones once."""
        return [name for name, _ in itertools.groupby(event for event, _ in self.heard)]

    def events(self, name: str) -> list[dict[str, Any]]:
        """Return the payloads of all events of a name."""
        return [data for event, data in self.heard if event == name]

    def event(self, name: str) -> dict[str, Any]:
        """Return the payload of the one event of a name."""
        [data] = self.events(name)
        return data

    def streamed(self) -> list[tuple[str, str]]:
        """Return the blocks that were streamed to the end, as kind and text."""
        blocks: dict[tuple[str, int], tuple[str, str]] = {}
        ended: list[tuple[str, int]] = []
        for event, data in self.heard:
            if not event.startswith("llm:stream_block"):
                continue
            key = (data["request_id"], data["block_index"])
            if event.endswith("start"):
                blocks[key] = (data["block_type"], "")
            elif event.endswith("delta"):
                blocks[key] = (data["block_type"], blocks[key][1] + data["text"])
            else:
                ended.append(key)
        return [blocks[key] for key in ended]
