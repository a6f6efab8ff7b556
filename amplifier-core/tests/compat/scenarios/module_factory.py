"""Writes small modules of every kind as real packages, for whichever kernel loads them."""

from __future__ import annotations

from pathlib import Path
from typing import Any

ORCHESTRATOR = '''
"""A loop that answers at once."""


class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        return "done"


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
'''

CONTEXT = '''
"""Messages in a list."""


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


async def mount(coordinator, config=None):
    await coordinator.mount("context", Context())
'''

PROVIDER = '''
"""A model that has nothing to say."""

from amplifier_core import ChatResponse, ProviderInfo


class Provider:
    def __init__(self, name, config):
        self.name = name
        self.config = config

    def get_info(self):
        return ProviderInfo(id=self.name, display_name=self.name)

    async def list_models(self):
        return []

    async def complete(self, request, **kwargs):
        return ChatResponse(content=[])

    def parse_tool_calls(self, response):
        return []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Provider("{name}", config), name="{name}")
'''

TOOL = '''
"""A tool that echoes."""

from amplifier_core import ToolResult


class Tool:
    name = "{name}"
    description = "Echo the input."
    input_schema = {{"type": "object", "properties": {{"text": {{"type": "string"}}}}}}

    def __init__(self, config):
        self.config = config

    async def execute(self, input):
        return ToolResult(output=input.get("text", ""))


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool(config), name="{name}")
'''

HOOK = '''
"""An observer of tool calls."""

from amplifier_core import HookResult


async def observe(event, data):
    return HookResult(action="continue")


async def mount(coordinator, config=None):
    return coordinator.hooks.register("tool:pre", observe, name="{name}")
'''


def write_module(folder: Path, module_id: str, source: str) -> Path:
    """Write `source` as the package of `module_id` below `folder` and return the package's path."""
    package = folder / f"amplifier_module_{module_id.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(source, encoding="utf-8")
    return package


def write_tool(folder: Path, module_id: str, name: str) -> Path:
    """Write a well-formed tool module."""
    return write_module(folder, module_id, TOOL.format(name=name))


def write_provider(folder: Path, module_id: str, name: str) -> Path:
    """Write a well-formed provider module whose default mount name is `name`."""
    return write_module(folder, module_id, PROVIDER.replace("{name}", name))


def write_hook(folder: Path, module_id: str, name: str) -> Path:
    """Write a well-formed hook module that registers one handler called `name`."""
    return write_module(folder, module_id, HOOK.replace("{name}", name))


def write_session_modules(folder: Path, tools: int) -> dict[str, Any]:
    """Write everything a session needs, with `tools` tools, and return the mount plan that names it all."""
    write_module(folder, "loop-bench", ORCHESTRATOR)
    write_module(folder, "context-bench", CONTEXT)
    write_provider(folder, "provider-bench", "bench")
    names = [f"tool-bench-{index}" for index in range(tools)]
    for name in names:
        write_tool(folder, name, name.removeprefix("tool-"))
    return {
        "session": {"orchestrator": {"module": "loop-bench"}, "context": {"module": "context-bench"}},
        "providers": [{"module": "provider-bench", "config": {"model": "bench-1"}}],
        "tools": [{"module": name, "config": {"working_dir": "."}} for name in names],
    }
