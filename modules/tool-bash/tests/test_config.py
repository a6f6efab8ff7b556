"""The config is read strictly where it matters, and leniently where other versions may differ."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_tool_bash.config import BashConfig


def test_published_keys() -> None:
    """Every published key is taken, and null is as good as absent."""
    settings = read_config(
        BashConfig,
        {
            "working_dir": "/tmp",
            "timeout": 5,
            "require_approval": False,
            "safety_profile": "permissive",
            "allowed_commands": ["ls"],
            "denied_commands": None,
            "safety_overrides": {"allow": ["sudo ls"], "block": None},
            "max_output_bytes": 10,
            "max_concurrent": None,
        },
        module="tool-bash",
    )
    assert settings.allowed_commands == ("ls",)
    assert settings.denied_commands == ()
    assert (settings.overrides("allow"), settings.overrides("block")) == (("sudo ls",), ())
    assert settings.max_concurrent is None


def test_unknown_keys_are_ignored_aloud(caplog: pytest.LogCaptureFixture) -> None:
    """A key of another version does no harm, and is not overlooked."""
    with caplog.at_level(logging.WARNING):
        assert read_config(BashConfig, {"colour": "red"}, module="tool-bash") == BashConfig()
    assert "unknown config key 'colour'" in caplog.text


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("working_dir", ""),
        ("working_dir", "a\0b"),
        ("timeout", 0),
        ("timeout", True),
        ("timeout", float("nan")),
        ("timeout", "30"),
        ("require_approval", "yes"),
        ("safety_profile", "none"),
        ("allowed_commands", "ls"),
        ("denied_commands", [""]),
        ("denied_commands", [1]),
        ("safety_overrides", ["sudo"]),
        ("safety_overrides", {"deny": []}),
        ("safety_overrides", {"block": "sudo"}),
        ("max_output_bytes", 0),
        ("max_concurrent", 1.5),
        ("pass_env", "PATH"),
    ],
)
def test_wrong_values(key: str, value: Any) -> None:
    """What cannot be meant is refused, and the key is named."""
    with pytest.raises(ValueError, match=f"config key '{key}"):
        read_config(BashConfig, {key: value}, module="tool-bash")
