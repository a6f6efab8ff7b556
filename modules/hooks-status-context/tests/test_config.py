"""What a bundle may set, and what it is told when it sets something wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_hooks_status_context.config import StatusConfig


@pytest.mark.parametrize("config", [None, {}])
def test_defaults(config: dict[str, Any] | None) -> None:
    """Defaults are those the published module has."""
    settings = read_config(StatusConfig, config, module="hooks-status-context")
    assert settings == StatusConfig()
    assert (settings.priority, settings.include_git, settings.include_session) == (0, True, True)
    assert (settings.git_status_max_lines, settings.git_status_max_untracked) == (100, 20)
    assert (settings.git_status_max_tracked, settings.git_status_tier2_limit) == (50, 10)
    assert (settings.git_include_commits, settings.git_timeout) == (5, 1.0)
    assert settings.datetime_include_timezone is False


def test_null_means_no_limit_for_a_limit_and_the_default_for_the_rest() -> None:
    """A key that is null is one that was not set, except where null is a value."""
    read = read_config(StatusConfig, dict.fromkeys(StatusConfig.model_fields), module="hooks-status-context")
    assert read == StatusConfig(
        git_status_max_lines=None,
        git_status_max_tracked=None,
        git_status_max_untracked=None,
        git_status_tier2_limit=None,
    )


def test_values_are_taken() -> None:
    """Lists become tuples, whole numbers are seconds too, the rest is taken as it is."""
    config = {"git_timeout": 2, "git_status_tier1_patterns_extend": ["a/"], "priority": -5, "working_dir": "x"}
    read = read_config(StatusConfig, config, module="hooks-status-context")
    assert read == StatusConfig(git_timeout=2.0, git_status_tier1_patterns_extend=("a/",), priority=-5, working_dir="x")


@pytest.mark.parametrize(
    ("key", "value", "expected"),
    [
        ("include_git", "yes", "true or false, got 'yes'"),
        ("include_session", 1, "true or false, got 1"),
        ("priority", "first", "a whole number, got 'first'"),
        ("priority", True, "a whole number, got True"),
        ("git_include_commits", -1, "a whole number of at least 0, got -1"),
        ("git_status_max_lines", 2.5, "a whole number of at least 0, or null, got 2.5"),
        ("git_status_max_tracked", -1, "a whole number of at least 0, or null, got -1"),
        ("git_timeout", 0, "a positive number of seconds, got 0"),
        ("git_timeout", float("nan"), "a positive number of seconds, got nan"),
        ("git_timeout", "1s", "a positive number of seconds, got '1s'"),
        ("working_dir", 7, "a path, or null, got 7"),
        ("working_dir", "", "a path, or null, got ''"),
        ("working_dir", "a\0b", "a path, or null, got 'a\\x00b'"),
        ("git_status_tier1_patterns_extend", "*.x", "a list of patterns, got '*.x'"),
        ("git_status_tier2_patterns_extend", [""], "a list of patterns, got ['']"),
    ],
)
def test_a_wrong_value_is_named(key: str, value: Any, expected: str) -> None:
    """The error says which module, which key, what was expected and what was found."""
    with pytest.raises(ValueError) as raised:
        read_config(StatusConfig, {key: value}, module="hooks-status-context")
    assert str(raised.value) == f"hooks-status-context: config key '{key}' must be {expected}"


def test_an_unknown_key_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A bundle written for another version still runs, and the log says what was ignored."""
    with caplog.at_level(logging.WARNING):
        assert read_config(StatusConfig, {"include_weather": True}, module="hooks-status-context") == StatusConfig()
    assert "unknown config key 'include_weather'" in caplog.text
