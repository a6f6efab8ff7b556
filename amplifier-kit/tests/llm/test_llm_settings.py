"""The config keys that providers share."""

from __future__ import annotations

from dataclasses import fields
from typing import Any

import pytest

from amplifier_kit.llm import COMMON_KEYS, CommonSettings, env_or_config, read_bool, read_choice, read_float, read_int
from amplifier_kit.llm.settings import name_of_key


def test_defaults() -> None:
    """Without a config the published defaults hold; a provider may have its own."""
    settings = CommonSettings.read({})
    assert settings == CommonSettings()
    assert (settings.max_retries, settings.min_retry_delay, settings.max_retry_delay) == (5, 1.0, 60.0)
    assert (settings.max_concurrent_requests, settings.timeout, settings.priority) == (5, 600.0, 100)
    assert settings.send_session_id is False
    assert CommonSettings.read({}, max_retries=3).max_retries == 3


def test_every_setting_is_a_key() -> None:
    """Each field is read from the key of its name."""
    names = {field.name for field in fields(CommonSettings)}
    assert names <= COMMON_KEYS
    for name in names:
        default = getattr(CommonSettings(), name)
        given = not default if isinstance(default, bool) else 7
        assert getattr(CommonSettings.read({name: given}), name) == given


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("max_retries", -1),
        ("max_retries", "many"),
        ("max_retries", True),
        ("timeout", 0),
        ("timeout", "inf"),
        ("timeout", "nan"),
        ("use_streaming", "perhaps"),
        ("priority", "first"),
        ("stream_idle_timeout", "0"),
    ],
)
def test_wrong_values_name_their_key(key: str, value: Any) -> None:
    """What cannot be used is an error that says which key."""
    with pytest.raises(ValueError, match=key):
        CommonSettings.read({key: value})


def test_texts_of_wizards() -> None:
    """Numbers and switches may come as texts, empty ones as nothing."""
    assert read_int({"a": "3"}, "a", 1) == 3
    assert read_float({"a": "2.5"}, "a", 1) == 2.5
    assert read_bool({"a": "Off"}, "a", True) is False
    assert read_bool({"a": "yes"}, "a", False) is True
    assert (read_int({"a": ""}, "a", 1), read_float({"a": ""}, "a", 1), read_bool({"a": ""}, "a", True)) == (1, 1, True)
    assert read_choice({"a": "x"}, "a", ("x", "y"), None) == "x"
    with pytest.raises(ValueError, match="one of x, y"):
        read_choice({"a": "z"}, "a", ("x", "y"), None)


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The config wins over the environment unless told otherwise; an unexpanded variable is nothing."""
    monkeypatch.delenv("T_KEY_A", raising=False)
    monkeypatch.setenv("T_KEY_B", " b ")
    names = ("T_KEY_A", "T_KEY_B")
    assert env_or_config({"k": "own"}, "k", names) == "own"
    assert env_or_config({"k": "own"}, "k", names, env_wins=True) == "b"
    assert env_or_config({"k": "${T_KEY_A}"}, "k", names) == "b"
    assert env_or_config({"k": "  "}, "k", ("T_KEY_A",)) is None
    assert env_or_config({}, "k") is None


def test_where_a_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """A key is told by the variable that holds it: its own first, then another, and none for one of the config."""
    monkeypatch.setenv("A_VARIABLE", "sk-0123456789-here")
    monkeypatch.setenv("Z_API_KEY", " sk-0123456789-here ")
    monkeypatch.setenv("SHORT", "sk-1")
    assert name_of_key("sk-0123456789-here", ("OTHER_KEY", "Z_API_KEY")) == "Z_API_KEY"
    assert name_of_key("sk-0123456789-here", ("OTHER_KEY",)) == "A_VARIABLE"
    assert name_of_key("sk-1", ("OTHER_KEY",)) is None
    assert name_of_key("sk-0123456789-config", ("OTHER_KEY",)) is None
    assert (name_of_key(None, ("OTHER_KEY",)), name_of_key(None, ())) == ("OTHER_KEY", None)
