"""A config that makes no sense is refused by the name of its key."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_hook_shell.config import ShellHooksConfig


def test_nothing_is_needed() -> None:
    """Without a config everything has its default; a key without a value counts as not given."""
    assert read_config(ShellHooksConfig, None, module="hook-shell") == ShellHooksConfig()
    assert read_config(ShellHooksConfig, {"timeout": None, "hooks": None}, module="hook-shell") == ShellHooksConfig()


WRONG: dict[str, tuple[Any, ...]] = {
    "timeout": (0, -1, True, "5", float("nan"), float("inf")),
    "on_timeout": ("maybe", True, 1),
    "on_error": ("maybe", True, 1),
    "priority": (1.5, "1", True),
    "max_output": (0, -1, "1"),
    "files": ("one", [1], [""], {"a": 1}),
    "pass_env": ("one", [1], [""], {"a": 1}),
    "claude_settings": (1, "yes"),
    "hooks": ([], "x", 1),
    "working_dir": (7,),
}


@pytest.mark.parametrize(("key", "value"), [(key, value) for key, values in WRONG.items() for value in values])
def test_wrong_values(key: str, value: Any) -> None:
    """Every wrong value is refused, and the message names its key."""
    with pytest.raises(ValueError, match=f"'{key}' must be"):
        read_config(ShellHooksConfig, {key: value}, module="hook-shell")


def test_unknown_keys(caplog: pytest.LogCaptureFixture) -> None:
    """Keys without a meaning are ignored with a warning."""
    with caplog.at_level(logging.WARNING):
        assert read_config(ShellHooksConfig, {"timout": 3}, module="hook-shell") == ShellHooksConfig()
    assert "timout" in caplog.text
