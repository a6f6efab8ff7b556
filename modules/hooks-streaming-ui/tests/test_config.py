"""What a bundle may set, and what it is told when it sets something wrong."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_hooks_streaming_ui.config import UiConfig, UiSection


@pytest.mark.parametrize("config", [None, {}, {"ui": None}, {"ui": {}}, {"ui": {"show_token_usage": None}}], ids=str)
def test_defaults(config: dict[str, Any] | None) -> None:
    """What is absent has its default, those of the published module."""
    settings = read_config(UiConfig, config, module="hooks-streaming-ui")
    assert settings == UiConfig()
    shown = settings.ui
    assert (shown.show_thinking_stream, shown.show_tool_lines, shown.show_token_usage) == (True, 5, True)


@pytest.mark.parametrize(
    "config", [{"ui": {"show_tool_lines": 3}}, {"ui.show_tool_lines": 3}], ids=["section", "dotted"]
)
def test_two_ways_to_write_a_key(config: dict[str, Any]) -> None:
    """A section and a dotted key mean the same."""
    assert read_config(UiConfig, config, module="hooks-streaming-ui") == UiConfig(ui=UiSection(show_tool_lines=3))


def test_null_lines_are_all_lines() -> None:
    """`show_tool_lines: null` means no limit."""
    assert read_config(UiConfig, {"ui": {"show_tool_lines": None}}, module="hooks-streaming-ui") == UiConfig(
        ui=UiSection(show_tool_lines=None)
    )


@pytest.mark.parametrize(
    ("config", "expected"),
    [
        ({"ui": True}, "'ui' must be a mapping, got True"),
        ({"ui": {"show_tool_lines": -1}}, "'ui.show_tool_lines' must be a whole number of at least 0, or null, got -1"),
        (
            {"ui": {"show_tool_lines": "5"}},
            "'ui.show_tool_lines' must be a whole number of at least 0, or null, got '5'",
        ),
        (
            {"ui": {"show_tool_lines": True}},
            "'ui.show_tool_lines' must be a whole number of at least 0, or null, got True",
        ),
        ({"ui": {"show_token_usage": 1}}, "'ui.show_token_usage' must be true or false, got 1"),
        ({"priority": "last"}, "'priority' must be a whole number, got 'last'"),
    ],
    ids=str,
)
def test_a_wrong_value_is_named(config: dict[str, Any], expected: str) -> None:
    """The error says which module, which key, what was expected and what was found."""
    with pytest.raises(ValueError) as raised:
        read_config(UiConfig, config, module="hooks-streaming-ui")
    assert str(raised.value) == f"hooks-streaming-ui: config key {expected}"


def test_an_unknown_key_is_a_warning(caplog: pytest.LogCaptureFixture) -> None:
    """A bundle written for another version still runs, and the log says what was ignored."""
    with caplog.at_level(logging.WARNING):
        assert read_config(UiConfig, {"ui": {"sparkles": True}}, module="hooks-streaming-ui") == UiConfig()
    assert "unknown config key 'ui.sparkles'" in caplog.text
