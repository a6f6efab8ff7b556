"""The config is read strictly, and wrong keys are named."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_kit.config import read_config
from amplifier_module_tool_search.config import EXCLUSIONS, GlobConfig, GrepConfig, Limits, SearchConfig


@pytest.mark.parametrize("config", [None, {}, {"grep": None, "glob": {}, "max_results": None, "allowed_paths": None}])
def test_defaults(config: dict[str, Any] | None) -> None:
    """Without config, and with null, everything has its default."""
    assert read_config(SearchConfig, config, module="tool-search") == SearchConfig()
    assert len(EXCLUSIONS) == len(set(EXCLUSIONS)) == 19


def test_every_key() -> None:
    """Every key of the contract is read."""
    config = {
        "working_dir": "w",
        "allowed_paths": ["a", "b"],
        "engine": "python",
        "grep": {
            "max_file_size": 5,
            "timeout": 1,
            "exclusions": ["x/", "*.egg-info"],
            "default_limits": {"files_with_matches": 1, "content": 2, "count": 3},
        },
        "glob": {"max_results": 4, "timeout": 2.5, "exclusions": []},
    }
    assert read_config(SearchConfig, config, module="tool-search") == SearchConfig(
        working_dir="w",
        allowed_paths=("a", "b"),
        engine="python",
        grep=GrepConfig(
            max_file_size=5,
            timeout=1.0,
            exclusions=("x", "*.egg-info"),
            default_limits=Limits(files_with_matches=1, content=2, count=3),
        ),
        glob=GlobConfig(max_results=4, timeout=2.5, exclusions=()),
    )


def test_max_results_stands_for_every_limit() -> None:
    """`max_results` is the limit of whatever does not have its own."""
    config = {"max_results": 7, "grep": {"default_limits": {"content": 9}}}
    settings = read_config(SearchConfig, config, module="tool-search")
    assert settings.grep.default_limits == Limits(files_with_matches=7, content=9, count=7)
    assert settings.glob.max_results == 7


@pytest.mark.parametrize(
    ("config", "key"),
    [
        ({"working_dir": 3}, "working_dir"),
        ({"allowed_paths": "src"}, "allowed_paths"),
        ({"allowed_paths": [""]}, "allowed_paths"),
        ({"engine": "ag"}, "engine"),
        ({"max_results": 0}, "max_results"),
        ({"max_results": True}, "max_results"),
        ({"grep": []}, "grep"),
        ({"grep": {"timeout": 0}}, "grep.timeout"),
        ({"grep": {"timeout": float("inf")}}, "grep.timeout"),
        ({"grep": {"max_file_size": "10"}}, "grep.max_file_size"),
        ({"grep": {"exclusions": "build"}}, "grep.exclusions"),
        ({"glob": {"exclusions": ["a/b"]}}, "glob.exclusions"),
        ({"glob": {"exclusions": ["[a"]}}, "glob.exclusions"),
        ({"glob": {"exclusions": [""]}}, "glob.exclusions"),
        ({"grep": {"default_limits": {"content": -1}}}, "grep.default_limits.content"),
        ({"grep": {"default_limits": 5}}, "grep.default_limits"),
    ],
)
def test_wrong_values_name_their_key(config: dict[str, Any], key: str) -> None:
    """A value that makes no sense is an error with the name of its key."""
    with pytest.raises(ValueError, match=f"config key '{key}'"):
        read_config(SearchConfig, config, module="tool-search")


def test_unknown_keys_are_warned_of(caplog: pytest.LogCaptureFixture) -> None:
    """Keys that nobody knows are ignored, and named in a warning."""
    with caplog.at_level(logging.WARNING):
        assert read_config(SearchConfig, {"speed": 1, "grep": {"depth": 2}}, module="tool-search") == SearchConfig()
    assert "speed" in caplog.text
    assert "grep.depth" in caplog.text
