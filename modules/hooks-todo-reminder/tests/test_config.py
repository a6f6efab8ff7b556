"""What a bundle may set, and what it is told when it sets something wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_hooks_todo_reminder.config import ReminderConfig


@pytest.mark.parametrize("config", [None, {}, {"inject_role": None, "priority": None, "recent_tool_threshold": None}])
def test_defaults(config: dict[str, Any] | None) -> None:
    """What is absent or null has its default."""
    expected = ReminderConfig(inject_role="user", priority=10, recent_tool_threshold=3)
    assert read_config(ReminderConfig, config, module="hooks-todo-reminder") == expected


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("inject_role", "tool", "one of system, user, assistant, got 'tool'"),
        ("inject_role", ["user"], "one of system, user, assistant, got ['user']"),
        ("priority", "high", "a whole number, got 'high'"),
        ("priority", True, "a whole number, got True"),
        ("recent_tool_threshold", 1.5, "a whole number of at least 0, got 1.5"),
        ("recent_tool_threshold", -1, "a whole number of at least 0, got -1"),
    ],
)
def test_a_wrong_value_is_named(key: str, value: Any, expected: str) -> None:
    """The error says which module, which key, what was expected and what was found."""
    with pytest.raises(ValueError) as raised:
        read_config(ReminderConfig, {key: value}, module="hooks-todo-reminder")
    assert str(raised.value) == f"hooks-todo-reminder: config key '{key}' must be {expected}"


def test_an_unknown_key_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A bundle written for another version still runs, and the log says what was ignored."""
    with caplog.at_level(logging.WARNING):
        read_config(ReminderConfig, {"priorty": 5}, module="hooks-todo-reminder")
    assert "unknown config key 'priorty': did you mean 'priority'?" in caplog.text
