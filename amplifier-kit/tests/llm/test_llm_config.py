"""The config keys that providers share."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import ConfigError, check_config, read_config
from amplifier_kit.llm.chat.request import ChatConfig
from amplifier_kit.llm.config import ProviderConfig, env_or_config, name_of_key
from amplifier_kit.llm.responses.request import ResponsesConfig


def _read(config: dict[str, Any]) -> ProviderConfig:
    return read_config(ProviderConfig, config, module="provider-p")


def test_defaults() -> None:
    """Without a config the published defaults hold."""
    settings = _read({})
    assert (settings.max_retries, settings.min_retry_delay, settings.max_retry_delay) == (5, 1.0, 60.0)
    assert (settings.max_concurrent_requests, settings.timeout, settings.priority) == (5, 600.0, 100)
    assert settings.send_session_id is False


def test_every_key_is_read() -> None:
    """Each field is read from the key of its name."""
    for name, field in ProviderConfig.model_fields.items():
        given: Any = not field.default if isinstance(field.default, bool) else 7
        expected = "7" if name in ("model", "default_model") else given
        assert getattr(_read({name: given}), name) == expected


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
    """A wrong value is an error that names module, key and value."""
    with pytest.raises(ConfigError, match=rf"provider-p: config key '{key}' must be .*, got {value!r}"):
        _read({key: value})


def test_texts_of_wizards() -> None:
    """Numbers and switches may be stored as text; empty text leaves a key at its default."""
    given = {"max_retries": "3", "timeout": "2.5", "retry_jitter": "Off", "raw": "yes", "send_session_id": 1}
    settings = _read(given)
    assert (settings.max_retries, settings.timeout) == (3, 2.5)
    assert (settings.retry_jitter, settings.raw, settings.send_session_id) == (False, True, True)
    assert _read(dict.fromkeys(given, "")) == _read(dict.fromkeys(given)) == _read({})


def test_the_model_has_two_names() -> None:
    """`default_model` wins over `model`, which wins over the default of the provider."""
    assert _read({"default_model": "a", "model": "b"}).chosen_model == "a"
    assert _read({"default_model": "", "model": "b"}).chosen_model == "b"
    assert _read({}).chosen_model == ""


def test_null_is_a_value_where_the_service_decides() -> None:
    """null leaves the temperature and the retention of caches to the service, and other keys at their defaults."""
    chat = read_config(ChatConfig, {"temperature": None, "max_tokens": None}, module="provider-p")
    assert (chat.temperature, chat.max_tokens) == (None, 4096)
    given = {"reasoning_summary": None, "enable_response_chaining": None, "reasoning": None}
    responses = read_config(ResponsesConfig, given, module="provider-p")
    assert (responses.reasoning_summary, responses.enable_response_chaining, responses.reasoning) == (None, "auto", {})


def test_keys_of_apps_are_known(caplog: pytest.LogCaptureFixture) -> None:
    """A key that only apps read is no problem; a misspelt one is, with what was probably meant."""
    with caplog.at_level(logging.WARNING):
        _read({"instance_id": "p-2", "debug": True, "max_retry": 3})
    assert "'max_retry': did you mean 'max_retries'?" in caplog.text
    assert "instance_id" not in caplog.text
    assert "debug" not in caplog.text


def test_secrets_are_in_no_message() -> None:
    """What headers hold is in no error."""
    [problem] = check_config(ChatConfig, {"extra_headers": ["authorization: hidden-value"]})
    assert "extra_headers" in problem.text
    assert "hidden" not in problem.text
    assert "hidden" not in repr(ChatConfig(extra_headers={"x-key": "hidden-value"}))


def test_keys_of_the_environment(monkeypatch: pytest.MonkeyPatch) -> None:
    """The config wins over the environment by default; an unexpanded variable counts as missing."""
    monkeypatch.delenv("T_KEY_A", raising=False)
    monkeypatch.setenv("T_KEY_B", " b ")
    names = ("T_KEY_A", "T_KEY_B")
    assert env_or_config({"k": "own"}, "k", names) == "own"
    assert env_or_config({"k": "own"}, "k", names, env_wins=True) == "b"
    assert env_or_config({"k": "${T_KEY_A}"}, "k", names) == "b"
    assert env_or_config({"k": "  "}, "k", ("T_KEY_A",)) is None
    assert env_or_config({}, "k") is None


def test_where_a_key_is(monkeypatch: pytest.MonkeyPatch) -> None:
    """The variable that holds a key is named: the provider's first, then another; None for a key of the config."""
    monkeypatch.setenv("A_VARIABLE", "sk-0123456789-here")
    monkeypatch.setenv("Z_API_KEY", " sk-0123456789-here ")
    monkeypatch.setenv("SHORT", "sk-1")
    assert name_of_key("sk-0123456789-here", ("OTHER_KEY", "Z_API_KEY")) == "Z_API_KEY"
    assert name_of_key("sk-0123456789-here", ("OTHER_KEY",)) == "A_VARIABLE"
    assert name_of_key("sk-1", ("OTHER_KEY",)) is None
    assert name_of_key("sk-0123456789-config", ("OTHER_KEY",)) is None
    assert (name_of_key(None, ("OTHER_KEY",)), name_of_key(None, ())) == ("OTHER_KEY", None)
