"""Real sessions with small modules."""

from __future__ import annotations

import importlib
import sys
import textwrap
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

MODULES = {
    "loop_echo": """
        class Loop:
            async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
                await hooks.emit("prompt:submit", {"prompt": prompt})
                await hooks.emit("prompt:complete", {"response_preview": prompt, "length": len(prompt)})
                return prompt

        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
    """,
    "context_none": """
        class Context:
            async def add_message(self, message): pass
            async def get_messages_for_request(self, token_budget=None, provider=None): return []
            async def get_messages(self): return []
            async def set_messages(self, messages): pass
            async def clear(self): pass

        async def mount(coordinator, config):
            await coordinator.mount("context", Context())
    """,
    "provider_quiet": """
        from amplifier_core import ProviderInfo

        class Provider:
            name = "quiet"
            def get_info(self): return ProviderInfo(id="quiet", display_name="Quiet")
            async def list_models(self): return []
            async def complete(self, request, **kwargs): return None
            def parse_tool_calls(self, response): return []

        async def mount(coordinator, config):
            await coordinator.mount("providers", Provider(), name="quiet")
    """,
    "hooks_tell": """
        async def mount(coordinator, config):
            async def tell(event, data):
                coordinator.log("INFO", "", event=event, **data)
            coordinator.hooks.register("*", tell, priority=100, name="tell")
    """,
}


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Callable[..., dict[str, Any]]]:
    """Give `plan(metadata, hooks)`, a mount plan of small modules with this module in it."""
    for name, source in MODULES.items():
        package = tmp_path / f"amplifier_module_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(textwrap.dedent(source), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    importlib.invalidate_caches()

    def make(metadata: dict[str, Any] | None = None, hooks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        return {
            "session": {"orchestrator": "loop-echo", "context": "context-none", "metadata": metadata or {}},
            "providers": [{"module": "provider-quiet"}],
            "hooks": hooks or [{"module": "hooks-redaction"}, {"module": "hooks-tell"}],
        }

    yield make
    for name in MODULES:
        sys.modules.pop(f"amplifier_module_{name}", None)
