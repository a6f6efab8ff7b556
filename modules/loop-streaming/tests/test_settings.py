"""The settings of loop-streaming beyond those that all loops share."""

from typing import Any

import pytest

from amplifier_module_loop_streaming.settings import GoalSettings, Preference, StreamingSettings


def test_defaults() -> None:
    """Without config everything is as documented."""
    settings = StreamingSettings.from_config(None)
    assert (settings.stream_delay, settings.min_delay_between_calls_ms) == (0.0, 0.0)
    assert settings.goal == GoalSettings()
    assert settings.loop.max_iterations == 100


def test_preferences_are_read() -> None:
    """Entries name provider and model, or a model of any provider."""
    config = {"goal_provider_preferences": [{"provider": "openai", "model": "gpt-*"}, "tiny-*", {"provider": "x"}]}
    assert GoalSettings.from_config(config).provider_preferences == (
        Preference("openai", "gpt-*"),
        Preference("*", "tiny-*"),
        Preference("x", "*"),
    )


def test_an_unlimited_goal_must_be_asked_for() -> None:
    """-1 lifts the cap of goals."""
    assert GoalSettings.from_config({"goal_default_cap": -1}).default_cap == -1


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
        StreamingSettings.from_config({key: value})
