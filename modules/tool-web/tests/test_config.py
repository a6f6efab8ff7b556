"""The config is read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_tool_web.config import WebConfig


def test_defaults_are_the_published_ones() -> None:
    """Without a config, and with null for everything, the defaults hold."""
    settings = read_config(WebConfig, None, module="tool-web")
    assert settings == read_config(WebConfig, {"timeout": None, "allowed_domains": None}, module="tool-web")
    assert (settings.timeout, settings.default_limit, settings.max_results) == (10.0, 204800, 5)
    assert settings.extract_text is True


def test_hosts_are_read_in_lower_case() -> None:
    """One host may stand without a list; case and blanks do not matter."""
    assert read_config(WebConfig, {"blocked_domains": " A.Example "}, module="tool-web").blocked_domains == (
        "a.example",
    )


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("timeout", 0),
        ("timeout", "10"),
        ("timeout", True),
        ("timeout", float("nan")),
        ("default_limit", 0),
        ("default_limit", 1.5),
        ("max_redirects", -1),
        ("extract_text", "yes"),
        ("allowed_domains", [1]),
        ("allowed_domains", [""]),
        ("blocked_domains", {"a": 1}),
        ("working_dir", 3),
    ],
)
def test_values_that_make_no_sense(key: str, value: Any) -> None:
    """A wrong value is an error that names its key."""
    with pytest.raises(ValueError, match=key):
        read_config(WebConfig, {key: value}, module="tool-web")


def test_unknown_keys_are_reported(caplog: pytest.LogCaptureFixture) -> None:
    """An unknown key is ignored with a warning."""
    assert read_config(WebConfig, {"timout": 3}, module="tool-web") == WebConfig()
    assert "timout" in caplog.text
