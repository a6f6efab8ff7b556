"""The list with separate contents for every session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import ModuleCoordinator
from amplifier_core._mount import SessionList, separate_deferred_lists
from amplifier_core.trace import open_module

STEPS = st.one_of(
    st.tuples(st.just("append"), st.integers()),
    st.tuples(st.just("extend"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("insert"), st.integers(-5, 5), st.integers()),
    st.tuples(st.just("pop"), st.integers(-5, 5)),
    st.tuples(st.just("pop")),
    st.tuples(st.just("remove"), st.integers(0, 3)),
    st.tuples(st.just("clear")),
    st.tuples(st.just("reverse")),
    st.tuples(st.just("sort")),
    st.tuples(st.just("index"), st.integers(0, 3)),
    st.tuples(st.just("count"), st.integers(0, 3)),
    st.tuples(st.just("__getitem__"), st.integers(-5, 5)),
    st.tuples(st.just("__getitem__"), st.slices(5)),
    st.tuples(st.just("__delitem__"), st.integers(-5, 5)),
    st.tuples(st.just("__setitem__"), st.integers(-5, 5), st.integers()),
    st.tuples(st.just("__contains__"), st.integers(0, 3)),
    st.tuples(st.just("__add__"), st.lists(st.integers(), max_size=3)),
    st.tuples(st.just("copy")),
)


def do(target: Any, step: tuple[Any, ...]) -> Any:
    """Do one step and return its result, or the type of what it raised."""
    try:
        return getattr(target, step[0])(*step[1:])
    except (IndexError, ValueError) as error:
        return type(error)


@given(st.lists(STEPS), st.booleans())
def test_it_behaves_as_a_list(steps: list[tuple[Any, ...]], in_a_session: bool) -> None:
    """Inside and outside of sessions every operation gives what a plain list gives."""
    plain: list[int] = []
    ours = SessionList([])
    coordinator = ModuleCoordinator()

    def run() -> None:
        for step in steps:
            assert do(ours, step) == do(plain, step)
            assert ours == plain
            assert plain == ours
            assert list(ours) == plain
            assert len(ours) == len(plain)
            assert bool(ours) is bool(plain)
            assert repr(ours) == repr(plain)
            assert list(reversed(ours)) == plain[::-1]

    if in_a_session:
        with open_module(coordinator, "module"):
            run()
    else:
        run()


@given(st.lists(st.tuples(st.integers(0, 3), st.integers())))
def test_sessions_never_see_each_other(appended: list[tuple[int, int]]) -> None:
    """Whatever sessions append in whatever order, each finds its own, in its order, and outsiders theirs."""
    ours = SessionList([])
    coordinators = [ModuleCoordinator() for _ in range(3)]
    for owner, value in appended:
        if owner == 3:
            ours.append(value)
        else:
            with open_module(coordinators[owner], None):
                ours.append(value)

    for owner, coordinator in enumerate(coordinators):
        with open_module(coordinator, None):
            assert ours == [value for who, value in appended if who == owner]
    assert ours == [value for who, value in appended if who == 3]


def test_nested_sessions() -> None:
    """Inside a child's scope the child's contents count; back in the parent's, the parent's."""
    ours = SessionList([])
    parent, child = ModuleCoordinator(), ModuleCoordinator()
    with open_module(parent, None):
        ours.append("parent")
        with open_module(child, None):
            assert ours == []
            ours.append("child")
        assert ours == ["parent"]


async def test_what_a_module_added_is_taken_back() -> None:
    """Undoing a module's registrations removes what it added, and nothing else."""
    ours = SessionList([])
    coordinator = ModuleCoordinator()
    with open_module(coordinator, "good"):
        ours.append("good")
    with open_module(coordinator, "bad"):
        ours.append("bad")
        ours.extend(["worse", "worst"])

    await coordinator._ledger.undo("bad")

    with open_module(coordinator, None):
        assert ours == ["good"]


async def test_tasks_started_by_a_module_share_its_contents() -> None:
    """A task that a mount starts sees the contents of its session."""
    ours = SessionList([])

    async def add() -> None:
        ours.append("task")

    coordinator = ModuleCoordinator()
    with open_module(coordinator, "module"):
        ours.append("mount")
        await asyncio.create_task(add())
        assert ours == ["mount", "task"]
    assert ours == []


def test_it_is_unhashable_and_iterates_while_growing() -> None:
    """Like every list it cannot be a key, and iterating sees what is added meanwhile."""
    ours = SessionList([1])
    with pytest.raises(TypeError):
        hash(ours)

    seen = []
    for value in ours:
        seen.append(value)
        if value < 3:
            ours.append(value + 1)

    assert seen == [1, 2, 3]
    assert [0] + ours == [0, 1, 2, 3]  # noqa: RUF005  # this very operator


def test_only_private_empty_lists_are_separated() -> None:
    """A public list, and one that holds something when the module is loaded, belong to the whole process."""
    namespace: dict[str, Any] = {}
    exec(
        "_a, _b, _c, D, __e__, _deferred_configs = [], [1], {}, [], [], []\n"
        "async def mount(coordinator, config): ...\n"
        "async def on_session_ready(coordinator): ...\n",
        namespace,
    )

    separate_deferred_lists(None, namespace["mount"], namespace["on_session_ready"])

    assert {name for name, value in namespace.items() if type(value) is SessionList} == {"_a", "_deferred_configs"}


def test_separating_twice_changes_nothing() -> None:
    """Every loader of a process looks at the module; the list and its contents stay the same."""
    namespace: dict[str, Any] = {"_deferred_configs": []}
    exec("async def mount(c, config): ...\nasync def on_session_ready(c): ...", namespace)
    separate_deferred_lists(None, namespace["mount"], namespace["on_session_ready"])
    first = namespace["_deferred_configs"]
    first.append(1)

    separate_deferred_lists(None, namespace["mount"], namespace["on_session_ready"])

    assert namespace["_deferred_configs"] is first
    assert first == [1]


def test_decorated_functions_are_looked_through() -> None:
    """A decorator that keeps `__wrapped__` does not hide the module of a function."""
    namespace: dict[str, Any] = {}
    exec(
        "import functools\n"
        "def decorate(function):\n"
        "    @functools.wraps(function)\n"
        "    async def wrapper(*args): return await function(*args)\n"
        "    return wrapper\n"
        "_inbox = []\n"
        "@decorate\nasync def mount(c, config): _inbox.append(config)\n"
        "@decorate\nasync def on_session_ready(c): _inbox.pop()\n",
        namespace,
    )

    separate_deferred_lists(None, namespace["mount"], namespace["on_session_ready"])

    assert type(namespace["_inbox"]) is SessionList
