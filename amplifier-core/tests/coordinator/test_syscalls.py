"""The system calls: which session they act on, what they do, and how they say no."""

from __future__ import annotations

import asyncio
import gc
from collections.abc import Awaitable, Callable
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import AmplifierSession, HookResult
from amplifier_core import coordinator as syscalls
from amplifier_core.session import fork_session, get_session, session_create

MakePlan = Callable[..., dict[str, Any]]
Live = Callable[..., Awaitable[AmplifierSession]]


@pytest.fixture
def live(make_plan: MakePlan) -> Live:
    """Give `await live(work)`: a live session whose turns do `work`, and whose id is its answer to the event `who`."""

    async def live(work: Callable[[], Awaitable[Any]] | None = None, **options: Any) -> AmplifierSession:
        session = get_session(await session_create(make_plan(), **options))
        answer = HookResult(action="deny", reason=session.session_id)
        session.coordinator.hooks.register("who", lambda event, data: answer)
        if work is not None:

            async def execute(**_: Any) -> Any:
                return await work()

            session.coordinator.mount_points["orchestrator"] = SimpleNamespace(execute=execute)
        return session

    return live


CALLS: dict[str, Callable[..., Any]] = {
    "mount": lambda **at: syscalls.mount("tools", SimpleNamespace(name="t"), **at),
    "unmount": lambda **at: syscalls.unmount("context", **at),
    "emit": lambda **at: syscalls.emit("who", {}, **at),
    "register_hook": lambda **at: syscalls.register_hook("e", print, **at),
    "get_context": lambda **at: syscalls.get_context(**at),
    "set_context_fragment": lambda **at: syscalls.set_context_fragment("k", "v", **at),
}


#: Whether each call took effect, given the session it acted on and what it returned.
EFFECTS: dict[str, Callable[[AmplifierSession, Any], bool]] = {
    "mount": lambda session, _: list(session.coordinator.get("tools")) == ["t"],
    "unmount": lambda session, _: session.coordinator.get("context") is None,
    "emit": lambda session, verdict: verdict.reason == session.session_id,
    "register_hook": lambda session, _: "e" in session.coordinator.hooks.list_handlers(),
    "get_context": lambda session, context: context.log == session.coordinator.log,
    "set_context_fragment": lambda session, _: (
        dict(syscalls.get_context(session_id=session.session_id).fragments) == {"k": "v"}
    ),
}


async def outcome(result: Any) -> Any:
    """Return what a call gives, awaited when it can be."""
    return await result if hasattr(result, "__await__") else result


@pytest.mark.parametrize("call", CALLS)
async def test_outside_of_every_session_a_call_says_so(call: str) -> None:
    """Without a session at hand each call raises a RuntimeError that names it and the way out."""
    with pytest.raises(RuntimeError, match=f"{call}: no session is running here.*session_id="):
        await outcome(CALLS[call]())


@pytest.mark.parametrize("call", CALLS)
async def test_an_unknown_session_is_named(call: str) -> None:
    """An unknown session id is a LookupError that names the call and the id."""
    with pytest.raises(LookupError, match=f"{call}: .*no live session 'nobody'"):
        await outcome(CALLS[call](session_id="nobody"))


@pytest.mark.parametrize("call", CALLS)
async def test_a_session_id_is_text(call: str) -> None:
    """A session id of another type is a TypeError that says what was expected."""
    with pytest.raises(TypeError, match=f"{call}: session_id must be a string, got list"):
        await outcome(CALLS[call](session_id=[]))


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_takes_a_session_by_id(call: str, live: Live) -> None:
    """Named by keyword, a live session can be acted on from anywhere."""
    session = await live()
    given = await outcome(CALLS[call](session_id=session.session_id))

    assert EFFECTS[call](session, given)
    await session.cleanup()


@pytest.mark.parametrize("call", CALLS)
async def test_a_call_acts_on_the_session_whose_turn_runs(call: str, live: Live) -> None:
    """Inside a turn no session needs to be named."""
    session = await live(lambda: outcome(CALLS[call]()))
    given = await session.execute("go")

    assert EFFECTS[call](session, given)
    await session.cleanup()


async def test_turns_side_by_side_act_each_on_its_own_session(live: Live) -> None:
    """Concurrent turns of two sessions never act on each other."""

    async def work() -> list[str]:
        for step in range(3):
            syscalls.set_context_fragment(f"step{step}", "done")
            await asyncio.sleep(0)
        return sorted(syscalls.get_context().fragments)

    one, other = await live(work), await live()
    first, _ = await asyncio.gather(one.execute("go"), other.execute("go"))

    assert first == ["step0", "step1", "step2"]
    assert dict(syscalls.get_context(session_id=other.session_id).fragments) == {}


async def test_emit_is_the_registrys(live: Live) -> None:
    """Handlers hear the data, and the caller gets their verdict; no data is no fields."""
    heard: list[Any] = []

    async def work() -> HookResult:
        remove = syscalls.register_hook("mine", lambda event, data: heard.append(data.get("a")), priority=5)
        syscalls.register_hook("mine", lambda event, data: HookResult(action="deny", reason="no"), 10)
        assert (await syscalls.emit("mine")).action == "deny"
        verdict = await syscalls.emit("mine", {"a": 1})
        remove()
        await syscalls.emit("mine", {"a": 2})
        return verdict

    session = await live(work)
    verdict = await session.execute("go")

    assert (verdict.action, verdict.reason) == ("deny", "no")
    assert heard == [None, 1]


async def test_mounting_an_object(live: Live) -> None:
    """An object is mounted under its own name, and the mount point is given back."""
    session = await live()
    tool = SimpleNamespace(name="mine")
    mounted = await syscalls.mount("tools", tool, session_id=session.session_id)
    context = object()

    assert mounted is session.coordinator.get("tools")
    assert mounted["mine"] is tool
    assert await syscalls.mount("context", context, session_id=session.session_id) is context


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        (("toolz", object()), ValueError, "mount: unknown mount point 'toolz'; known are .*tools"),
        (("toolz", "tool-x"), ValueError, "mount: unknown mount point 'toolz'; known are .*tools"),
        ((5, object()), TypeError, "mount: point must be a string, got int"),
        (("tools", None), TypeError, "mount: module for 'tools' must be a module id or an object, got None"),
        (("tools", "tool-x", []), TypeError, "mount: config must be a dict, got list"),
        (("tools", object(), {"a": 1}), ValueError, "mount: config was given for an object at 'tools'"),
        (("tools", object()), ValueError, r"mount: Name required for tools \(got object\)"),
        (("hooks", object()), ValueError, "mount: Hooks should be registered directly with the HookRegistry"),
        (("tools", "tool-none"), ValueError, "Module 'tool-none' not found"),
    ],
)
async def test_a_mount_that_cannot_be_meant(
    live: Live, arguments: tuple[Any, ...], error: type[Exception], message: str
) -> None:
    """The error says which call, which argument and what was expected, and nothing is mounted."""
    session = await live()
    before = {point: repr(mounted) for point, mounted in session.coordinator.mount_points.items()}

    with pytest.raises(error, match=message):
        await syscalls.mount(*arguments, session_id=session.session_id)
    assert {point: repr(mounted) for point, mounted in session.coordinator.mount_points.items()} == before


async def test_unmounting(live: Live) -> None:
    """A single point needs no name; a named one takes a name or the object itself."""
    session = await live()
    at: dict[str, Any] = {"session_id": session.session_id}
    one, other = SimpleNamespace(name="one"), SimpleNamespace(name="other")
    await syscalls.mount("tools", one, **at)
    await syscalls.mount("tools", other, **at)

    await syscalls.unmount("tools", "one", **at)
    await syscalls.unmount("tools", other, **at)
    assert session.coordinator.get("tools") == {}

    context = session.coordinator.get("context")
    await syscalls.unmount("context", context, **at)
    await syscalls.unmount("orchestrator", **at)
    assert session.coordinator.get("context") is None
    assert session.coordinator.get("orchestrator") is None


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (("toolz",), "unmount: unknown mount point 'toolz'; known are .*tools"),
        (("tools",), r"unmount: a name, a module id or an object is required; mounted at 'tools': \['here'\]"),
        (("tools", "typo"), r"unmount: 'typo' is not mounted there; mounted at 'tools': \['here'\]"),
        (("tools", SimpleNamespace(name="here")), "unmount: namespace.* is not mounted there"),
        (("context", "typo"), "unmount: 'typo' is not mounted at 'context'; mounted there: .*Context"),
        (("context", object()), "unmount: <object .*> is not mounted at 'context'"),
    ],
)
async def test_an_unmount_that_cannot_be_meant(live: Live, arguments: tuple[Any, ...], message: str) -> None:
    """What is not mounted is named, with what is, and nothing else is unmounted in its place."""
    session = await live()
    await syscalls.mount("tools", SimpleNamespace(name="here"), session_id=session.session_id)

    with pytest.raises(ValueError, match=message):
        await syscalls.unmount(*arguments, session_id=session.session_id)
    assert list(session.coordinator.get("tools")) == ["here"]
    assert session.coordinator.get("context") is not None


@pytest.mark.parametrize(
    ("call", "message"),
    [
        (lambda: syscalls.emit(5), "emit: event must be a string, got int"),  # type: ignore[arg-type]
        (lambda: syscalls.register_hook(None, print), "register_hook: event must be a string"),  # type: ignore[arg-type]
        (lambda: syscalls.register_hook("e", "no"), "register_hook: handler must be callable"),  # type: ignore[arg-type]
        (lambda: syscalls.register_hook("e", print, "1"), "register_hook: priority must be an int"),  # type: ignore[arg-type]
        (lambda: syscalls.set_context_fragment(1, "x"), "set_context_fragment: key must be a string"),  # type: ignore[arg-type]
    ],
)
async def test_wrong_arguments_are_named(live: Live, call: Callable[[], Any], message: str) -> None:
    """Each call says which of its arguments is wrong and what it should be."""
    session = await live(lambda: outcome(call()))

    with pytest.raises(TypeError, match=message):
        await session.execute("go")


async def test_a_created_session_lives_until_its_cleanup(make_plan: MakePlan) -> None:
    """session_create gives the id of a session that works; cleanup forgets it."""
    session_id = await session_create(make_plan(), session_id="mine")
    gc.collect()
    session = get_session(session_id)

    assert session_id == session.session_id == "mine"
    assert await session.execute("hi") == "echo: hi"
    await session.cleanup()
    with pytest.raises(LookupError, match="no live session 'mine'"):
        get_session(session_id)


async def test_a_session_that_cannot_start_is_not_created(make_plan: MakePlan) -> None:
    """When the plan fails there is an error and no session behind it."""
    with pytest.raises(RuntimeError, match="Cannot initialize without orchestrator"):
        await session_create(make_plan({"orchestrator": "loop-none"}), session_id="mine")
    with pytest.raises(LookupError):
        get_session("mine")


async def test_a_fork_is_a_child_with_a_plan_of_its_own(make_plan: MakePlan, make_tool: Callable[[str], Any]) -> None:
    """The overlay is merged over a copy of the parent's plan; the parent keeps its own."""
    make_tool("extra")
    parent = get_session(await session_create(make_plan({"metadata": {"kept": 1}})))
    before = repr(parent.config)
    overlay = {"session": {"metadata": {"added": 2}}, "tools": [{"module": "tool-extra"}]}
    child = get_session(await fork_session(parent.session_id, overlay))

    assert child.parent_id == child.coordinator.parent_id == parent.session_id
    assert child.config["session"]["metadata"] == {"kept": 1, "added": 2}
    assert list(child.coordinator.get("tools")) == ["extra"]
    assert (repr(parent.config), parent.coordinator.get("tools")) == (before, {})
    child.config["session"]["metadata"]["kept"] = 5
    assert repr(parent.config) == before


async def test_a_fork_hears_of_its_parents_cancellation(live: Live) -> None:
    """A request to stop the parent reaches the child until the child is gone."""
    parent = await live()
    child = get_session(await fork_session(parent.session_id))
    gone = get_session(await fork_session(parent.session_id))
    await gone.cleanup()
    await parent.coordinator.request_cancel(immediate=True)

    assert child.coordinator.cancellation.is_immediate
    assert not gone.coordinator.cancellation.is_cancelled


@pytest.mark.parametrize(
    ("parent", "overlay", "error", "message"),
    [
        ("nobody", None, LookupError, "no live session 'nobody'"),
        (None, [], TypeError, "fork_session: overlay must be a dict, got list"),
    ],
)
async def test_a_fork_that_cannot_be_meant(
    live: Live, parent: str | None, overlay: Any, error: type[Exception], message: str
) -> None:
    """An unknown parent or an overlay that is no plan is an error that says so."""
    session = await live()

    with pytest.raises(error, match=message):
        await fork_session(parent or session.session_id, overlay)
