"""What a bundle may set."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_module_hooks_logging import SETUP, mount
from amplifier_module_hooks_logging.config import EXCLUDED, LogConfig


@pytest.mark.parametrize("config", [None, {}, {"priority": None, "exclude_events": None, "unknown": 1}])
def test_defaults(config: Any) -> None:
    """Everything is recorded, last of all handlers, but the pieces of streams."""
    assert read_config(LogConfig, config, module="hooks-logging") == LogConfig(
        priority=100, auto_discover=True, additional_events=(), exclude_events=EXCLUDED, strip_raw=False
    )


def test_every_key() -> None:
    """Each key is read."""
    config: dict[str, Any] = {
        "priority": "50",
        "auto_discover": False,
        "additional_events": ["a:b"],
        "exclude_events": [],
        "strip_raw": True,
        "session_log_template": "/logs/{session_id}.jsonl",
    }
    assert read_config(LogConfig, config, module="hooks-logging") == LogConfig(
        **{**config, "additional_events": ("a:b",), "exclude_events": (), "priority": 50}
    )


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("priority", "high", "a whole number"),
        ("priority", [], "a whole number"),
        ("auto_discover", "yes", "true or false"),
        ("strip_raw", 1, "true or false"),
        ("additional_events", "a:b", "a list of event names"),
        ("exclude_events", [1], "a list of event names"),
        ("session_log_template", "", "a path, or null"),
        ("session_log_template", 3, "a path, or null"),
    ],
)
async def test_a_mistake_is_named_when_the_module_mounts(key: str, value: Any, expected: str) -> None:
    """The error has the key, what was expected and what was given."""
    with pytest.raises(ValueError) as caught:
        await mount(MockCoordinator(), {key: value})
    assert str(caught.value) == f"hooks-logging: config key {key!r} must be {expected}, got {value!r}"


async def test_unknown_keys_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """A misspelt key is ignored, but not silently."""
    await mount(MockCoordinator(), {"exclude_event": [], "priority": 1})
    assert "unknown config key 'exclude_event': did you mean 'exclude_events'?" in caplog.text


async def test_mount_only_keeps_the_config() -> None:
    """Nothing is registered before everyone is there; the config is a copy."""
    coordinator, config = MockCoordinator(), {"priority": 7}
    mounted: Any = await mount(coordinator, config)  # type: ignore[func-returns-value]  # it returns no cleanup
    assert mounted is None
    assert coordinator.get_capability(SETUP) == {"priority": 7}
    assert coordinator.get_capability(SETUP) is not config
    assert coordinator.hooks.list_handlers() == {}
    assert SETUP == "hooks_logging._setup"
