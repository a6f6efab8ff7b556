"""Every module gets its own copy of its config."""

from __future__ import annotations

from collections import OrderedDict, defaultdict
from copy import deepcopy
from typing import Any

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
