"""The module passes the tests of its kind, and leaves nothing behind."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_core.validation.behavioral import HookBehaviorTests
from amplifier_core.validation.structural import HookStructuralTests
from amplifier_module_hooks_approval import mount
from amplifier_module_hooks_approval import rules as rules_module


class TestStructure(HookStructuralTests):
    """The validator has nothing to say against it."""


class TestBehavior(HookBehaviorTests):
    """It behaves as every hook must."""


async def test_cleanup_takes_everything_away(person: Any, yes: Any) -> None:
    """Policy, handlers and the approval system's place are given back."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.approval_system = None
    clean_up = await mount(coordinator, {})
    handlers = coordinator.hooks.list_handlers()
    assert "approval_hook" in handlers["tool:pre"]
    coordinator.get_capability("approval.register_provider")(person(yes))
    assert (await coordinator.authorize("process.exec", {"tool_name": "bash", "tool_input": {"command": "ls"}})).granted
    clean_up()
    assert coordinator.approval_system is None
    assert not any(coordinator.hooks.list_handlers().values())
    assert (await coordinator.authorize("process.exec", {})).source == "kernel"


async def test_the_rules_are_offered_to_the_app() -> None:
    """The capability `approval.rules` has the rules as they were understood, in the order of the config."""
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, {"rules": [{"pattern": "rm *", "action": "auto_deny"}]})
    assert [str(rule) for rule in coordinator.get_capability("approval.rules")] == ['deny command "rm *"']


async def test_the_app_is_told_which_questions_no_rule_spares() -> None:
    """The capability `approval.asks_each_time` is true of what rules, config and session want."""
    coordinator: MockCoordinator = MockCoordinator()
    config = {"rules": [{"verdict": "ask", "command": "git push *"}], "tools": {"mail": {"require_approval": True}}}
    await mount(coordinator, config)
    coordinator.session_state["require_approval_tools"] = ["deploy"]
    asks = coordinator.get_capability("approval.asks_each_time")
    command = {"tool_name": "bash", "tool_input": {"command": "make"}}
    assert not asks("process.exec", command)
    assert asks("process.exec", {**command, "tool_input": {"command": "make; git push"}})
    assert [asks(f"tool.{name}", {"tool_name": name, "tool_input": {}}) for name in ("mail", "deploy", "look")] == [
        True, True, False,
    ]  # fmt: skip


async def test_rules_that_cannot_be_read_at_all_deny_everything(monkeypatch: pytest.MonkeyPatch) -> None:
    """When the reader itself fails, the module is there and says no: without it nothing would be asked."""

    def fail(entries: Any) -> Any:
        raise ImportError("no grammar")

    monkeypatch.setattr("amplifier_module_hooks_approval.read_rules", fail)
    assert rules_module.read_rules is not fail
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, {})
    decided = await coordinator.authorize("filesystem.read", {"tool_name": "look", "tool_input": {}})
    assert not decided.granted
    assert "no grammar" in decided.reason


@pytest.mark.parametrize("provider", [object(), "person", lambda request: True])
async def test_what_cannot_be_asked_is_no_provider(provider: Any) -> None:
    """Registering it is an error at once, not a surprise at the first question."""
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, {})
    with pytest.raises(TypeError, match="request_approval"):
        coordinator.get_capability("approval.register_provider")(provider)


@pytest.mark.parametrize(
    "config",
    [
        "nonsense",
        ["rules"],
        {"default_action": "maybe"},
        {"default_timeout": -1},
        {"default_timeout": float("nan")},
        {"default_timeout": True},
        {"policy_driven_only": "yes"},
        {"tools": ["bash"]},
        {"tools": {"bash": {"require_approval": "no"}}},
        {"rules": "all"},
        {"rules": [{"pattern": "x", "action": "auto_explode"}]},
        {"working_dir": 5},
        {"colour": "blue"},
    ],
)
async def test_a_config_that_makes_no_sense_is_reported_and_never_stops_the_mount(
    config: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """The module is there, an error names the key, and a command is still asked for."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.approval_system = None
    await mount(coordinator, config)
    assert [record.levelname for record in caplog.records] == ["ERROR"]
    decided = await coordinator.authorize("process.exec", {"tool_name": "bash", "tool_input": {"command": "make"}})
    assert not decided.granted
    assert "approval needed" in decided.reason
