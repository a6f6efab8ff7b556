"""Copies of plans and configs."""

from __future__ import annotations

from typing import Any

from amplifier_core.data import copy_tree


def test_containers_are_copied_and_the_rest_is_shared() -> None:
    """Dicts, lists, tuples and sets are copied all the way down; objects reach the module as they are."""
    client = object()
    config: dict[str, Any] = {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}
    copied = copy_tree(config)
    assert copied == config
    assert copied["client"] is client
    copied["list"][0]["a"] = copied["pair"][0]["b"] = 0
    copied["set"].add(2)
    assert config == {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}
