"""Real sessions with small modules around the mock provider."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ChatRequest, Message, ToolSpec
from amplifier_core.testing import MockCoordinator

MODULES = {
    "loop_small": """
        from amplifier_core import ChatRequest, Message, ToolSpec

        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
                await context.add_message({"role": "user", "content": prompt})
                provider = min(providers.values(), key=lambda provider: provider.priority)
                specs = [ToolSpec(name=name, parameters={}) for name in tools] or None
                while True:
                    messages = [Message(**message) for message in await context.get_messages()]
                    response = await provider.complete(ChatRequest(messages=messages, tools=specs))
                    text = "".join(block.text for block in response.content if block.type == "text")
                    await context.add_message({"role": "assistant", "content": text})
                    calls = provider.parse_tool_calls(response)
                    if not calls:
                        return text
                    for call in calls:
                        result = await tools[call.name].execute(call.arguments)
                        await context.add_message({"role": "tool", "tool_call_id": call.id, "content": result.output})

        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
    """,
    "context_small": """
        class Context:
            def __init__(self): self.messages = []
            async def add_message(self, message): self.messages.append(message)
            async def get_messages_for_request(self, token_budget=None, provider=None): return list(self.messages)
            async def get_messages(self): return list(self.messages)
            async def set_messages(self, messages): self.messages = list(messages)
            async def clear(self): self.messages = []

        async def mount(coordinator, config):
            await coordinator.mount("context", Context())
    """,
    "tool_look": """
        from amplifier_core import ToolResult

        class Look:
            name = "look"
            description = "Look somewhere."
            input_schema = {"type": "object", "properties": {"where": {"type": "string"}}}
            async def execute(self, input): return ToolResult(output=f"{input['where']}: a desk")

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Look(), name="look")
    """,
}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, Any]]]:
    """Give `plan(providers, metadata)`, a mount plan of small modules around the given providers."""
    folder = tmp_path / "modules"
    for name, source in MODULES.items():
        package = folder / f"amplifier_module_{name}"
        package.mkdir(parents=True)
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.syspath_prepend(str(folder))
    monkeypatch.chdir(tmp_path)
    importlib.invalidate_caches()

    def make(providers: list[dict[str, Any]], **metadata: Any) -> dict[str, Any]:
        return {
            "session": {"orchestrator": "loop-small", "context": "context-small", "metadata": metadata},
            "providers": providers,
            "tools": [{"module": "tool-look"}],
        }

    yield make
    for name in MODULES:
        sys.modules.pop(f"amplifier_module_{name}", None)


@pytest.fixture
def coordinator() -> MockCoordinator:
    """Return a coordinator that keeps what it heard, without times, under the capability `heard`."""
    coordinator: MockCoordinator = MockCoordinator()
    heard: list[tuple[str, dict[str, Any]]] = []
    dropped = ("timestamp", "session_id", "parent_id")

    def hear(event: str, data: dict[str, Any]) -> None:
        heard.append((event, {key: value for key, value in data.items() if key not in dropped}))

    coordinator.hooks.register("*", hear)
    coordinator.register_capability("heard", heard)
    return coordinator


def request_of(*said: str | tuple[str, str], tools: tuple[str, ...] = (), **fields: Any) -> ChatRequest:
    """Return a request: texts are of the user, pairs of role and text of whomever they say."""
    pairs = [("user", text) if isinstance(text, str) else text for text in said]
    messages = [Message(role=role, content=text) for role, text in pairs]
    specs = [ToolSpec(name=name, parameters={}) for name in tools] or None
    return ChatRequest(messages=messages, tools=specs, **fields)


@pytest.fixture
def ask() -> Callable[..., ChatRequest]:
    """Give `ask(*said, tools=..., **fields)`, which makes a request."""
    return request_of


@pytest.fixture
def scenario_file(tmp_path: Path) -> Callable[[str], Path]:
    """Give `scenario_file(text)`, which writes a scenario and returns where."""

    def write(text: str) -> Path:
        path = tmp_path / "scenario.yaml"
        path.write_text(textwrap.dedent(text), encoding="utf-8")
        return path

    return write
