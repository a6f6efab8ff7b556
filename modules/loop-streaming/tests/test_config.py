"""The config of loop-streaming beyond what all loops share."""

from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_loop_streaming.config import Preference, StreamingConfig


def read(config: Any) -> StreamingConfig:
    """Return what the loop reads from a config."""
    return read_config(StreamingConfig, config, module="loop-streaming")


@pytest.mark.parametrize("config", [None, {}, {"goal_model_role": ""}, {"goal_default_cap": None}])
def test_defaults(config: Any) -> None:
    """Without config everything is as documented."""
    settings = read(config)
    assert settings == StreamingConfig()
    assert (settings.stream_delay, settings.min_delay_between_calls_ms) == (0.0, 0.0)
    assert (settings.max_iterations, settings.goal_model_role, settings.goal_default_cap) == (100, "fast", 50)


def test_preferences_are_read() -> None:
    """Entries name provider and model, or a model of any provider."""
    config = {"goal_provider_preferences": [{"provider": "openai", "model": "gpt-*"}, "tiny-*", {"provider": "x"}]}
    assert read(config).goal_provider_preferences == (
        Preference(provider="openai", model="gpt-*"),
        Preference(provider="*", model="tiny-*"),
        Preference(provider="x", model="*"),
    )


def test_an_unlimited_goal_must_be_asked_for() -> None:
    """-1 lifts the cap of goals."""
    assert read({"goal_default_cap": -1}).goal_default_cap == -1


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("stream_delay", -1),
        ("min_delay_between_calls_ms", "1"),
        ("goal_stall_threshold", 0),
        ("goal_busy_stall_window", 1),
        ("goal_busy_stall_min_overlap", "half"),
        ("goal_default_cap", 0),
        ("goal_provider_preferences", "haiku"),
        ("goal_provider_preferences", [7]),
        ("goal_model_role", 3),
    ],
)
def test_what_is_wrong_is_named(key: str, value: Any) -> None:
    """A value that makes no sense is refused with its key."""
    with pytest.raises(ValueError, match=key):
        read({key: value})
