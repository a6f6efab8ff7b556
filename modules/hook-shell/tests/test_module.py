"""The module passes the tests of its kind, and its gates deny when they break."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookRegistry
from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests
from amplifier_module_hook_shell import mount
from amplifier_module_hook_shell.shell_hooks import ShellHooks


class TestStructure(HookStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(HookBehaviorTests):
    """It behaves as every hook must."""


async def test_a_gate_that_breaks_denies_even_without_authorize(monkeypatch: pytest.MonkeyPatch) -> None:
    """On this kernel the handlers that may block are gates, whatever the coordinator lacks: a fault is no consent."""

    async def break_down(self: ShellHooks, event: str, data: object) -> None:
        raise RuntimeError("broken")

    monkeypatch.setattr(ShellHooks, "on_event", break_down)
    capabilities: dict[str, Any] = {}
    coordinator = SimpleNamespace(
        hooks=HookRegistry(),
        config={},
        register_capability=capabilities.__setitem__,
        get_capability=capabilities.get,
        register_contributor=lambda *_: None,
        register_cleanup=lambda *_: None,
    )
    await mount(coordinator, {})
    verdict = await coordinator.hooks.emit("tool:pre", {"tool_name": "bash", "tool_input": {}})
    assert verdict.action == "deny"
    assert "broken" in str(verdict.reason)
