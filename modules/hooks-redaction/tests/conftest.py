"""Real sessions with small modules."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

LOOP = """
class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        await hooks.emit("prompt:complete", {"response_preview": prompt, "length": len(prompt)})
        return prompt

async def mount(coordinator, config):
    await coordinator.mount("orchestrator", Loop())
"""
TELL = """
async def mount(coordinator, config):
    async def tell(event, data):
        coordinator.log("INFO", "", event=event, **data)
    coordinator.hooks.register("*", tell, priority=100, name="tell")
"""


@pytest.fixture
def plan(
    make_module: Callable[[str, str], Path], make_quiet_plan: Callable[..., dict[str, Any]]
) -> Callable[..., dict[str, Any]]:
    """Give `plan(metadata, hooks)`, a mount plan of small modules with this module in it."""
    make_module("loop-echo", LOOP)
    make_module("hooks-tell", TELL)

    def make(metadata: dict[str, Any] | None = None, hooks: list[dict[str, Any]] | None = None) -> dict[str, Any]:
        session = {"orchestrator": "loop-echo", "metadata": metadata or {}}
        return make_quiet_plan(session, hooks=hooks or [{"module": "hooks-redaction"}, {"module": "hooks-tell"}])

    return make
