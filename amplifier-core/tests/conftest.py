"""Real modules on disk and plans that use them; the tests of every part of the kernel share these fixtures."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

MakeModule = Callable[[str, str], Path]
MakePlan = Callable[..., dict[str, Any]]

_LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await context.add_message({"role": "user", "content": prompt})
        return f"echo: {prompt}"

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
_CONTEXT = """
class Context:
    def __init__(self):
        self.messages = []
    async def add_message(self, message):
        self.messages.append(message)
    async def get_messages_for_request(self, token_budget=None, provider=None):
        return list(self.messages)
    async def get_messages(self):
        return list(self.messages)
    async def set_messages(self, messages):
        self.messages = list(messages)
    async def clear(self):
        self.messages = []

async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""
_PROVIDER = """
from amplifier_core import ChatResponse, ProviderInfo, TextBlock

class Provider:
    def __init__(self, name, config):
        self.name = name
        self.config = config
    def get_info(self):
        return ProviderInfo(id=self.name, display_name=self.name)
    async def list_models(self):
        return []
    async def complete(self, request, **kwargs):
        return ChatResponse(content=[TextBlock(text="answer")])
    def parse_tool_calls(self, response):
        return []

async def mount(coordinator, config):
    await coordinator.mount("providers", Provider("NAME", config), name="NAME")
"""
_TOOL = """
from amplifier_core import ToolResult

class Tool:
    name = "NAME"
    description = "A tool of a test"
    input_schema = {"type": "object"}
    def __init__(self, config):
        self.config = config
    async def execute(self, input):
        return ToolResult(success=True, output=input)

async def mount(coordinator, config):
    await coordinator.mount("tools", Tool(config), name="NAME")
"""


@pytest.fixture
def make_provider(make_module: MakeModule) -> Callable[[str], Path]:
    """Give `make_provider(name)`: it writes a valid module `provider-<name>` that mounts a provider of that name."""
    return lambda name: make_module(f"provider-{name}", _PROVIDER.replace("NAME", name))


@pytest.fixture
def make_tool(make_module: MakeModule) -> Callable[[str], Path]:
    """Give `make_tool(name)`: it writes a valid module `tool-<name>` that mounts a tool of that name."""
    return lambda name: make_module(f"tool-{name}", _TOOL.replace("NAME", name))


@pytest.fixture
def context_source() -> str:
    """Return the source of a module that mounts a context, a `Context`, which keeps the messages in memory."""
    return _CONTEXT


@pytest.fixture
def make_plan(make_module: MakeModule, make_provider: Callable[[str], Path]) -> MakePlan:
    """Give `make_plan(session={...}, tools=[...], ...)`: a plan whose loop, context and provider exist and work.

    The orchestrator answers "echo: <prompt>" and stores the prompt in the context. Sections replace the plan's own,
    `session` is laid over it. Call it as often as you like.
    """
    make_module("loop-plain", _LOOP)
    make_module("context-plain", _CONTEXT)
    make_provider("plain")

    def make(session: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
        return {
            "session": {"orchestrator": "loop-plain", "context": "context-plain", **(session or {})},
            "providers": [{"module": "provider-plain"}],
            **sections,
        }

    return make
