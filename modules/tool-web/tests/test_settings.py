"""The config is read strictly."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_module_tool_web.settings import Settings


def test_defaults_are_the_published_ones() -> None:
    """Without a config, and with null for everything, the defaults hold."""
    settings = Settings.from_config(None)
    assert settings == Settings.from_config({"timeout": None, "allowed_domains": None})
    assert (settings.timeout, settings.default_limit, settings.max_results) == (10.0, 204800, 5)
    assert settings.extract_text is True


def test_hosts_are_read_in_lower_case() -> None:
    """One host may stand without a list; case and blanks do not matter."""
    assert Settings.from_config({"blocked_domains": " A.Example "}).blocked_domains == ("a.example",)


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
        Settings.from_config({key: value})


def test_unknown_keys_are_told(caplog: pytest.LogCaptureFixture) -> None:
    """A key that nobody knows is ignored with a warning."""
    assert Settings.from_config({"timout": 3}) == Settings()
    assert "timout" in caplog.text
