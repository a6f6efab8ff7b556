"""Write real modules to disk and plans that use them; the tests of every part of the kernel share these fixtures."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
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
def make_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[MakeModule]:
    """Give `make_module(id, source)`: it writes an importable package `amplifier_module_<id>`, gone after the test.

    The source is dedented. Further files may be written into the folder that is returned.
    """
    root = tmp_path / "modules"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    names: set[str] = set()

    def make(module_id: str, source: str) -> Path:
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        names.add(name)
        package = root / name
        package.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()
        return package

    yield make
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in names:
            del sys.modules[loaded]


@pytest.fixture
def make_provider(make_module: MakeModule) -> Callable[[str], Path]:
    """Give `make_provider(name)`: it writes a valid module `provider-<name>` that mounts a provider of that name."""
    return lambda name: make_module(f"provider-{name}", _PROVIDER.replace("NAME", name))


@pytest.fixture
def make_tool(make_module: MakeModule) -> Callable[[str], Path]:
    """Give `make_tool(name)`: it writes a valid module `tool-<name>` that mounts a tool of that name."""
    return lambda name: make_module(f"tool-{name}", _TOOL.replace("NAME", name))


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
