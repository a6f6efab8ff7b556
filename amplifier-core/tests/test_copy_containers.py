"""Copies of plans and configs."""

from __future__ import annotations

from collections import OrderedDict
from typing import Any

from amplifier_core.data import copy_containers


def test_containers_are_copied_and_the_rest_is_shared() -> None:
    """Dicts, lists, tuples and sets are copied all the way down; objects reach the module as they are."""
    client = object()
    config: dict[str, Any] = {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}
    copied = copy_containers(config)
    assert copied == config
    assert copied["client"] is client
    copied["list"][0]["a"] = copied["pair"][0]["b"] = 0
    copied["set"].add(2)
    assert config == {"client": client, "list": [{"a": 1}], "pair": ({"b": 2},), "set": {1}}


def test_references_to_itself_are_kept() -> None:
    """What refers to itself does so in the copy, and what was shared inside stays shared inside."""
    shared = [1]
    config: dict[str, Any] = {"one": shared, "two": shared}
    config["self"] = config
    copied = copy_containers(config)
    assert copied["self"] is copied is not config
    assert copied["one"] is copied["two"] is not shared


def test_types_are_kept() -> None:
    """A subclass of a container stays what it is."""
    config = {"ordered": OrderedDict(a=[1])}
    copied = copy_containers(config)
    assert type(copied["ordered"]) is OrderedDict
    copied["ordered"]["a"].append(2)
    assert config["ordered"]["a"] == [1]
