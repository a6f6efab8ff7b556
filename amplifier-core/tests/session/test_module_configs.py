"""Every module gets a config of its own, whatever the plan holds."""

from __future__ import annotations

import threading
from collections import OrderedDict, defaultdict
from copy import deepcopy
from typing import Any, NamedTuple

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession
from amplifier_core.data import copy_tree

VANDAL = """
def wreck(value):
    if isinstance(value, dict):
        for item in list(value.values()):
            wreck(item)
        value.clear()
        value["wrecked"] = True
    elif isinstance(value, (list, set)):
        for item in list(value):
            wreck(item)
        value.clear()
    elif isinstance(value, tuple):
        for item in value:
            wreck(item)

async def mount(coordinator, config):
    wreck(config)
"""
CONFIG: dict[str, Any] = {
    "dict": {"deep": {"deeper": [1, {"x": [2]}]}},
    "list": [[1], {"a": 1}],
    "ordered": OrderedDict(a=OrderedDict(b=[1])),
    "default": defaultdict(list, a=[1]),
    "tuple": ([1], {"a": [2]}),
    "set": {1, 2},
}
LEAVES = st.none() | st.booleans() | st.integers() | st.text(max_size=3)
CONFIGS = st.recursive(
    LEAVES,
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.text(max_size=3), inner, max_size=3)
        | st.lists(inner, max_size=3).map(tuple)
    ),
    max_leaves=20,
)


@pytest.mark.parametrize("section", ["orchestrator", "context", "orchestrator dict", "providers", "tools", "hooks"])
async def test_modules_cannot_change_the_plan(make_plan: Any, make_module: Any, section: str) -> None:
    """A module that wrecks its config, all the way down, leaves the plan as it was."""
    mine = section.partition(" ")[0]
    config = deepcopy(CONFIG)
    bases = {"orchestrator": "loop_plain", "context": "context_plain", "providers": "provider_plain"}
    rest = f"\n    from amplifier_module_{bases.get(mine)} import mount as real\n    await real(coordinator, {{}})\n"
    make_module("vandal", VANDAL + (rest if mine in bases else "    return print"))
    if section == "orchestrator dict":
        plan = make_plan(session={"orchestrator": {"module": "vandal", "config": config}})
    elif mine in ("orchestrator", "context"):
        plan = make_plan(session={mine: "vandal"}, **{mine: {"config": config}})
    else:
        plan = make_plan(**{section: [{"module": "vandal", "config": config}]})
    session = AmplifierSession(plan)

    await session.initialize()

    assert config == CONFIG
    assert type(config["ordered"]["a"]) is OrderedDict


async def test_two_entries_with_one_config(make_plan: Any, make_module: Any) -> None:
    """Two entries that share one dict in the plan (a YAML anchor) get a copy each."""
    make_module(
        "hooks-adding",
        """
        async def mount(coordinator, config):
            config["list"].append(1)
            seen = coordinator.get_capability("seen") or []
            coordinator.register_capability("seen", [*seen, config["list"]])
        """,
    )
    shared = {"list": [0]}
    session = AmplifierSession(make_plan(hooks=[{"module": "hooks-adding", "config": shared}] * 2))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == [[0, 1], [0, 1]]


async def test_objects_reach_the_module_as_they_are(make_plan: Any, make_tool: Any) -> None:
    """What is no container is shared: clients, locks, functions, classes, even what forbids copying."""

    class Uncopyable:
        def __deepcopy__(self, memo: Any) -> Any:
            raise TypeError("not to be copied")

        __copy__ = __reduce_ex__ = __deepcopy__

    make_tool("a")
    values = [threading.Lock(), Uncopyable(), print, Uncopyable, open(__file__, "rb"), (n for n in ""), b"x"]  # noqa: SIM115
    session = AmplifierSession(make_plan(tools=[{"module": "tool-a", "config": {"values": values}}]))

    await session.initialize()

    got = session.coordinator.get("tools", "a").config["values"]
    assert all(ours is theirs for ours, theirs in zip(got, values, strict=True))
    assert got is not values
    values[4].close()  # type: ignore[attr-defined]


async def test_missing_config_is_an_empty_dict(make_plan: Any, make_tool: Any) -> None:
    """mount() always gets a dict, a fresh one each time."""
    make_tool("a")
    make_tool("b")
    plan = make_plan(tools=[{"module": "tool-a"}, {"module": "tool-b", "config": None}])
    session = AmplifierSession(plan)

    await session.initialize()

    tools = session.coordinator.get("tools")
    assert (tools["a"].config, tools["b"].config) == ({}, {})
    assert tools["a"].config is not tools["b"].config


@given(CONFIGS)
def test_copies_are_equal_and_share_nothing(config: Any) -> None:
    """A copy equals its original and has no dict or list in common with it."""

    def containers(value: Any) -> list[int]:
        if isinstance(value, dict):
            return [id(value), *(found for item in value.values() for found in containers(item))]
        if isinstance(value, (list, tuple)):
            own = [id(value)] if isinstance(value, list) else []
            return [*own, *(found for item in value for found in containers(item))]
        return []

    copied = copy_tree(config)

    assert copied == config
    assert type(copied) is type(config)
    assert not set(containers(copied)) & set(containers(config))


def test_named_tuples_keep_their_type() -> None:
    """A named tuple stays one, around copies of what it holds."""

    class Point(NamedTuple):
        x: list[int]

    point = Point([1])

    copied = copy_tree({"point": point})["point"]

    assert type(copied) is Point
    assert copied == point
    assert copied.x is not point.x
