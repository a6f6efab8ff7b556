"""Configs are read with their defaults, and what makes no sense is refused by name."""

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_kit.engine.context.token_budget import ContextConfig

DEFAULTS = {
    "max_tokens": None,
    "max_tokens_fallback": 200_000,
    "output_reserve_fraction": 0.5,
    "token_meter": "estimate",
    "max_tool_result_bytes": 131_072,
    "compact_threshold": 0.92,
    "target_usage": 0.50,
    "protected_recent": 0.30,
    "protected_tool_results": 5,
    "truncate_chars": 250,
    "compaction_notice_enabled": True,
    "compaction_notice_token_reserve": 800,
    "compaction_notice_verbosity": "normal",
    "compaction_notice_min_level": 1,
    "instruction_filters": (),
    "instruction_callback_timeout_s": 5.0,
    "instruction_callback_max_workers": 4,
}


@pytest.mark.parametrize("config", [None, {}, dict.fromkeys(DEFAULTS)])
def test_defaults(config: dict[str, Any] | None) -> None:
    """No config, an empty one and one of nulls give the published defaults."""
    read = read_config(ContextConfig, config, module="context-simple")
    assert {key: getattr(read, key) for key in DEFAULTS} == DEFAULTS


def test_every_key_can_be_set(caplog: pytest.LogCaptureFixture) -> None:
    """What a config says counts, key by key, without a word of complaint."""
    config = {
        **DEFAULTS,
        "max_tokens": 5000,
        "token_meter": "actual",
        "protected_recent": 0,
        "compact_threshold": 1,
        "compaction_notice_verbosity": "verbose",
        "instruction_filters": ["policy.filter"],
        "truncate_chars": 0,
    }
    read = read_config(ContextConfig, config, module="context-simple")
    assert {key: getattr(read, key) for key in config} == {**config, "instruction_filters": ("policy.filter",)}
    assert caplog.records == []


@pytest.mark.parametrize("value", [0, -5, "200000", 1.5, True, []])
def test_an_invalid_cap_is_ignored_with_a_warning(value: Any, caplog: pytest.LogCaptureFixture) -> None:
    """A `max_tokens` that is no positive whole number leaves requests uncapped, and says so."""
    assert read_config(ContextConfig, {"max_tokens": value}, module="context-simple").max_tokens is None
    [record] = caplog.records
    assert record.levelno == logging.WARNING
    expected = f"config key 'max_tokens' must be a whole number of at least 1, or null, got {value!r}"
    assert record.getMessage() == f"context-simple: {expected} (ignored)"


@pytest.mark.parametrize(
    ("key", "value", "accepted"),
    [
        ("max_tool_result_bytes", 255, "a whole number of at least 256"),
        ("max_tool_result_bytes", "many", "a whole number of at least 256"),
        ("max_tokens_fallback", 0, "a whole number of at least 1"),
        ("output_reserve_fraction", 1.1, "a number from 0 to 1"),
        ("compact_threshold", 0, "a number from above 0 to 1"),
        ("compact_threshold", float("nan"), "a number from above 0 to 1"),
        ("target_usage", -0.1, "a number from above 0 to 1"),
        ("protected_recent", "half", "a number from 0 to 1"),
        ("protected_tool_results", -1, "a whole number of at least 0"),
        ("truncate_chars", True, "a whole number of at least 0"),
        ("token_meter", "guess", "one of estimate, actual"),
        ("compaction_notice_verbosity", "loud", "one of minimal, normal, verbose"),
        ("compaction_notice_enabled", "yes", "true or false"),
        ("instruction_callback_timeout_s", 0, "a positive number of seconds"),
        ("instruction_callback_max_workers", 0, "a whole number of at least 1"),
        ("instruction_filters", "policy", "a list of capability names"),
    ],
)
def test_a_value_out_of_range_is_refused(key: str, value: Any, accepted: str) -> None:
    """The error names the module, the key, what is accepted and what was given."""
    with pytest.raises(ValueError, match="context-simple") as refused:
        read_config(ContextConfig, {key: value}, module="context-simple")
    assert str(refused.value) == f"context-simple: config key {key!r} must be {accepted}, got {value!r}"
