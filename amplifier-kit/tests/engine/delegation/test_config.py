"""What a plan may say about handing work over."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_kit.config import ConfigError, read_config
from amplifier_kit.engine.delegation.request import DelegationConfig, ModuleNames


class Sample(DelegationConfig):
    """The config of a tool that keeps itself from its children."""

    exclude_tools: ModuleNames | None = ("tool-x",)


def read(**config: Any) -> DelegationConfig:
    return read_config(Sample, config, module="tool-x")


def test_defaults() -> None:
    """Without a word there is a deadline, a sign of life, and no tool that would start a chain."""
    settings = read()
    assert (settings.timeout, settings.heartbeat_interval) == (3600.0, 30.0)
    assert (settings.max_parallel, settings.max_recursion_depth) == (10, 5)
    assert settings.inheritance("tools") == {"exclude_tools": ["tool-x"]}
    assert settings.inheritance("hooks") is None


def test_null_and_minus_one_mean_no_limit() -> None:
    """Who says so explicitly has no deadline."""
    assert read(timeout=None, heartbeat_interval=-1).timeout is None
    assert read(heartbeat_interval=-1).heartbeat_interval is None


def test_inheritance() -> None:
    """What is named takes the place of what holds without a word."""
    assert read(exclude_tools=[]).inheritance("tools") == {"exclude_tools": []}
    assert read(inherit_tools=["a"]).inheritance("tools") == {"inherit_tools": ["a"]}
    assert read(exclude_hooks=["h"]).inheritance("hooks") == {"exclude_hooks": ["h"]}
    assert read(inherit_hooks=["h"]).inheritance("hooks") == {"inherit_hooks": ["h"]}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("timeout", 0),
        ("timeout", "soon"),
        ("timeout", True),
        ("timeout", float("inf")),
        ("heartbeat_interval", -5),
        ("max_parallel", 0),
        ("max_parallel", 2.5),
        ("max_recursion_depth", -1),
        ("response_limit", 10),
        ("exclude_tools", "tool-x"),
        ("inherit_hooks", [1]),
    ],
)
def test_wrong_values_are_named(key: str, value: Any) -> None:
    """A value that makes no sense is refused by the name of its key."""
    with pytest.raises(ConfigError, match=f"tool-x: config key '{key}' must be"):
        read(**{key: value})
