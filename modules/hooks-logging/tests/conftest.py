"""Real sessions with small modules, and their logs."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        for event, data in coordinator.session_state.get("events", ()):
            await hooks.emit(event, data)
        await hooks.emit("prompt:complete", {"response_preview": "done", "length": 4})
        return "done"

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
CONTEXT = """
class Context:
    async def add_message(self, message): pass
    async def get_messages_for_request(self, token_budget=None, provider=None): return []
    async def get_messages(self): return []
    async def set_messages(self, messages): pass
    async def clear(self): pass

async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""
PROVIDER = """
from amplifier_core import ProviderInfo

class Provider:
    name = "quiet"
    def get_info(self): return ProviderInfo(id="quiet", display_name="Quiet")
    async def list_models(self): return []
    async def complete(self, request, **kwargs): return None
    def parse_tool_calls(self, response): return []

async def mount(coordinator, config):
    await coordinator.mount("providers", Provider(), name="quiet")
"""


@pytest.fixture(autouse=True)
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Let no test write anywhere else than below its own folder."""
    folder = tmp_path / "home"
    monkeypatch.setenv("AMPLIFIER_HOME", str(folder))
    monkeypatch.setenv("HOME", str(tmp_path / "user"))
    return folder


@pytest.fixture
def make_module(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[[str, str], None]]:
    """Give `make_module(id, source)`, which writes an importable module that is gone after the test."""
    root = tmp_path / "modules"
    root.mkdir()
    monkeypatch.syspath_prepend(str(root))
    names: set[str] = set()

    def make(module_id: str, source: str) -> None:
        name = f"amplifier_module_{module_id.replace('-', '_')}"
        names.add(name)
        (root / name).mkdir()
        (root / name / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
        importlib.invalidate_caches()

    yield make
    for loaded in list(sys.modules):
        if loaded.partition(".")[0] in names:
            del sys.modules[loaded]


@pytest.fixture
def plan(make_module: Callable[[str, str], None]) -> Callable[..., dict[str, Any]]:
    """Give `plan(config, **sections)`, a mount plan with this module in it."""
    make_module("loop-small", LOOP)
    make_module("context-small", CONTEXT)
    make_module("provider-quiet", PROVIDER)

    def make(config: dict[str, Any] | None = None, **sections: Any) -> dict[str, Any]:
        return {
            "session": {"orchestrator": "loop-small", "context": "context-small"},
            "providers": [{"module": "provider-quiet"}],
            "hooks": [{"module": "hooks-logging", "config": config or {}}],
            **sections,
        }

    return make
