"""The undo ledger: what a module registered can be taken back, whatever others did meanwhile."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator
from amplifier_core._mount import Ledger
from amplifier_core.trace import open_module, open_turn

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


async def test_only_what_a_module_does_is_noted() -> None:
    """Registrations outside of any mount, or for another coordinator, are nobody's to take back."""
    kernel, other = ModuleCoordinator(), ModuleCoordinator()
    kernel.register_capability("app", 1)
    with open_module(other, "m"):
        kernel.register_capability("elsewhere", 2)
    with open_module(kernel, "m"):
        kernel.register_capability("own", 3)

    await undo(kernel, "m")
    assert [kernel.get_capability(name) for name in ("app", "elsewhere", "own")] == [1, 2, None]


async def test_everything_is_taken_back_newest_first() -> None:
    """Undoing goes backwards, so that a cleanup still finds what its module had set up before."""
    kernel = ModuleCoordinator()
    found: list[Any] = []
    with open_module(kernel, "m"):
        kernel.register_capability("before", "there")
        kernel.register_cleanup(lambda: found.append((kernel.get_capability("before"), kernel.get_capability("after"))))
        kernel.register_capability("after", "there")

    await undo(kernel, "m")
    assert found == [("there", None)]


async def test_a_cleanup_taken_back_early_runs_once() -> None:
    """A cleanup that ran when its module was unmounted does not run again with the session's."""
    kernel = ModuleCoordinator()
    ran: list[str] = []

    async def tear_down() -> None:
        await asyncio.sleep(0)
        ran.append("module")

    kernel.register_cleanup(lambda: ran.append("app"))
    with open_module(kernel, "m"):
        kernel.register_cleanup(tear_down)

    await undo(kernel, "m")
    assert ran == ["module"]
    await kernel.cleanup()
    assert ran == ["module", "app"]
    await undo(kernel, "m")
    assert ran == ["module", "app"]


async def test_one_fault_does_not_stop_the_undoing(caplog: pytest.LogCaptureFixture) -> None:
    """A cleanup that fails is logged; one that interrupts is heard, after everything was taken back."""
    kernel = ModuleCoordinator()

    def fail() -> None:
        raise ValueError("stuck")

    def interrupt() -> None:
        raise KeyboardInterrupt

    with open_module(kernel, "m"):
        kernel.register_capability("x", 1)
        kernel.register_cleanup(fail)
        kernel.register_cleanup(interrupt)

    with pytest.raises(KeyboardInterrupt):
        await undo(kernel, "m")
    assert kernel.get_capability("x") is None
    assert "Error during cleanup: stuck" in caplog.text


async def test_a_mark_survives_the_undoing_of_others() -> None:
    """Going back to a mark takes back what came after it, also when earlier steps are gone meanwhile."""
    kernel = ModuleCoordinator()
    with open_module(kernel, "early"):
        for number in range(5):
            kernel.register_capability(f"early{number}", number)
    mark = kernel._ledger.mark()
    with open_module(kernel, "late"):
        kernel.register_capability("late", 1)
    await undo(kernel, "early")

    await kernel._ledger.undo("late", mark)
    assert kernel.get_capability("late") is None


async def test_what_came_before_a_mark_stays() -> None:
    """A second mount of a module that fails does not take the first one with it."""
    kernel = ModuleCoordinator()
    with open_module(kernel, "m"):
        kernel.register_capability("first", 1)
        mark = kernel._ledger.mark()
        kernel.register_capability("second", 2)

    await kernel._ledger.undo("m", mark)
    assert (kernel.get_capability("first"), kernel.get_capability("second")) == (1, None)


async def test_what_a_module_mounts_again_is_its_own() -> None:
    """An object that was there before, was replaced and is mounted again gives way to the one it replaced."""
    kernel = ModuleCoordinator()
    first, second = object(), object()
    await kernel.mount("context", first)
    for module, mounted in (("b", second), ("a", first)):
        with open_module(kernel, module):
            await kernel.mount("context", mounted)

    await undo(kernel, "a")
    assert kernel.get("context") is second
    await undo(kernel, "b")
    assert kernel.get("context") is first


async def test_modules_that_mount_the_same_object_leave_one_by_one() -> None:
    """An object stays mounted until the last module that mounted it is gone."""
    kernel = ModuleCoordinator()
    shared = object()
    for module in ("a", "b"):
        with open_module(kernel, module):
            await kernel.mount("tools", shared, name="shared")

    await undo(kernel, "a")
    assert kernel.get("tools", "shared") is shared
    await undo(kernel, "b")
    assert kernel.get("tools") == {}


async def test_a_turn_is_no_part_of_a_mount() -> None:
    """What is registered in a turn that a module started from its mount is the turn's, not the module's."""
    kernel = ModuleCoordinator()
    with open_module(kernel, "m"), open_turn(kernel, None):
        kernel.register_capability("turn", 1)

    await undo(kernel, "m")
    assert kernel.get_capability("turn") == 1


async def test_a_handler_is_no_part_of_a_mount() -> None:
    """What handlers register while a module mounts and emits is theirs, not that module's."""
    kernel = ModuleCoordinator()
    kernel.hooks.register("e", lambda event, data: kernel.register_capability("theirs", 1))
    with open_module(kernel, "m"):
        await kernel.hooks.emit("e", {})
        kernel.register_capability("own", 2)

    await undo(kernel, "m")
    assert (kernel.get_capability("theirs"), kernel.get_capability("own")) == (1, None)
