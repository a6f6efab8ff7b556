"""The undo ledger: what a module registered can be taken back, whatever others did meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator
from amplifier_core._mount import Ledger
from amplifier_core.trace import open_module

KEYS = st.sampled_from(["x", "y"])
STEPS = st.lists(
    st.one_of(
        st.tuples(st.just("put"), st.sampled_from(["a", "b", "c", None]), KEYS),
        st.tuples(st.just("undo"), st.sampled_from(["a", "b", "c"]), st.just("")),
        st.tuples(st.just("pop"), st.none(), KEYS),
    ),
    max_size=14,
)


class Owner:
    """Stand for a coordinator: the ledger only asks whose scope it is."""


@given(STEPS)
def test_an_undone_module_might_never_have_been_there(steps: list[tuple[str, str | None, str]]) -> None:
    """After any puts, removals and undos a table is what it would be without the modules that were undone."""
    owner, table = Owner(), dict[str, Any]()
    ledger = Ledger(owner)
    history: list[tuple[str, str | None, str, object]] = []

    async def act() -> None:
        for kind, module, key in steps:
            if kind == "undo":
                await ledger.undo(module)
                history[:] = [step for step in history if step[1] != module]
                continue
            value = object()
            history.append((kind, module, key, value))
            if kind == "pop":
                table.pop(key, None)
                continue
            with open_module(owner, module):
                ledger.put(table, key, value)

    asyncio.run(act())

    expected: dict[str, Any] = {}
    for kind, _, key, value in history:
        if kind == "put":
            expected[key] = value
        else:
            expected.pop(key, None)
    assert table == expected


async def undo(kernel: ModuleCoordinator, module: str) -> None:
    """Take back what a module did."""
    await kernel._ledger.undo(module)
