"""The config of a loop: defaults, limits, and clear words for what is wrong."""

from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_testing.loop.fakes import PlainTool


@pytest.mark.parametrize("config", [None, {}, {"max_iterations": None}, {"unknown": 1}])
def test_defaults(config: Any) -> None:
    """Absent keys, null limits and keys of others leave the defaults."""
    settings = read_config(LoopConfig, config, module="loop-test")
    assert settings == LoopConfig()
    assert (settings.max_iterations, settings.tool_timeout) == (100, 600.0)


def test_an_explicit_minus_one_is_no_limit() -> None:
    """-1 means unlimited, anything else is a count."""
    assert not read_config(LoopConfig, {"max_iterations": -1}, module="loop-test").is_limit_reached(10_000)
    assert read_config(LoopConfig, {}, module="loop-test").is_limit_reached(100)
    assert not read_config(LoopConfig, {"max_iterations": 3}, module="loop-test").is_limit_reached(2)


def test_null_takes_a_deadline_away() -> None:
    """Null means no deadline, no heartbeat and no guard."""
    config = {"tool_timeout": None, "heartbeat_interval": None, "loop_guard_warn": None, "loop_guard_stop": None}
    settings = read_config(LoopConfig, config, module="loop-test")
    assert (settings.tool_timeout, settings.heartbeat_interval) == (None, None)
    assert (settings.loop_guard_warn, settings.loop_guard_stop) == (None, None)


def test_a_deadline_by_name_wins_over_the_tools_own() -> None:
    """The plan speaks first, then the tool, then the default for all."""
    settings = read_config(LoopConfig, {"tool_timeouts": {"delegate": 3600, "watch": None}}, module="loop-test")
    assert settings.timeout_of("delegate", PlainTool("delegate", deadline=5)) == 3600
    assert settings.timeout_of("watch", PlainTool("watch")) is None
    assert settings.timeout_of("bash", PlainTool("bash", deadline=5)) == 5
    assert settings.timeout_of("bash", PlainTool("bash", deadline=None)) is None
    assert settings.timeout_of("bash", PlainTool("bash", deadline="soon")) == 600.0
    assert settings.timeout_of("bash", PlainTool("bash")) == 600.0


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_iterations", 0),
        ("max_iterations", -2),
        ("max_iterations", True),
        ("max_iterations", "many"),
        ("tool_timeout", 0),
        ("tool_timeout", "10"),
        ("tool_timeouts", [1]),
        ("tool_timeouts", {"bash": -1}),
        ("heartbeat_interval", -1),
        ("loop_guard_warn", 1),
        ("loop_guard_stop", 2.5),
        ("extended_thinking", "yes"),
        ("default_provider", 3),
        ("reasoning_effort", ["high"]),
    ],
)
def test_what_is_wrong_is_named(key: str, value: Any) -> None:
    """A value that makes no sense is refused with the key and the value."""
    with pytest.raises(ValueError, match=key) as caught:
        read_config(LoopConfig, {key: value}, module="loop-test")
    shown = value["bash"] if isinstance(value, dict) else value
    assert repr(shown) in str(caught.value)
