"""Modules that misbehave in mount(): the session starts without them, or does not start, and nothing stays behind."""

from __future__ import annotations

import asyncio
import gc
import json
import logging
from textwrap import dedent
from typing import Any

import pytest

from amplifier_core.testing import wait_for

#: Some of the faults below make log lines that no report of a test run can carry.
OFF = logging.CRITICAL + 1

OPTIONAL = ["tool", "provider", "hooks"]
REQUIRED = ["loop", "context"]

#: Everything a module can register; all of it has to go when its mount fails.
REGISTER_ALL = """
coordinator.hooks.register("prompt:submit", print, name="leftover")
coordinator.register_capability("leftover", 1)
coordinator.register_capability("steady.lines", None)
coordinator.register_contributor("observability.events", "leftover", lambda: ["leftover"])
coordinator.register_cleanup(lambda: coordinator.session_state.__setitem__("cleaned", True))
coordinator.register_policy("leftover", lambda action, details: "allow")
coordinator.add_log_sink(print)
await coordinator.mount("tools", object(), name="leftover")
await coordinator.mount("providers", object(), name="leftover")
raise RuntimeError("after all that")
"""

RAISING = {
    "an exception": "raise RuntimeError('boom')",
    "an exception that cannot be printed": """
        class Unprintable(Exception):
            def __str__(self):
                raise ValueError("no text")
            __repr__ = __str__
        raise Unprintable
    """,
    "an exception that is text only in appearance": "raise RuntimeError('\\ud800 lone surrogate')",
    "an assertion": "assert False",
    "endless recursion": "def deeper(): return deeper()\ndeeper()",
    "a stop of iteration": "raise StopAsyncIteration",
    "a group": "raise ExceptionGroup('many', [ValueError('a'), KeyError('b')])",
    "a cancellation of its own making": "raise asyncio.CancelledError",
    "a cancelled inner task": "inner = asyncio.ensure_future(asyncio.sleep(60))\ninner.cancel()\nawait inner",
}


@pytest.mark.parametrize("kind", OPTIONAL)
@pytest.mark.parametrize("fault", RAISING.values(), ids=RAISING)
async def test_raising_in_mount(world: Any, caplog: pytest.LogCaptureFixture, kind: str, fault: str) -> None:
    """A provider, tool or hook that raises in mount() is left out, and everyone else is there."""
    caplog.set_level(OFF, "amplifier_core")
    session = world.session(world.faulty(kind, after=fault))
    failures: list[dict[str, Any]] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data))
    await session.initialize()
    assert [(data["module_id"], isinstance(data["error"], str)) for data in failures] == [(f"{kind}-faulty", True)]
    assert "faulty" not in session.coordinator.get("tools")
    assert "faulty" not in session.coordinator.get("providers")
    assert "faulty" not in session.coordinator.hooks.list_handlers("prompt:submit")["prompt:submit"]
    await world.check(session)


@pytest.mark.parametrize("kind", REQUIRED)
@pytest.mark.parametrize("fault", list(RAISING.values())[:7], ids=list(RAISING)[:7])
async def test_raising_in_a_required_mount(world: Any, caplog: pytest.LogCaptureFixture, kind: str, fault: str) -> None:
    """Without its orchestrator or context a session does not start, says why, and starts once the plan is repaired."""
    caplog.set_level(OFF, "amplifier_core")
    session = world.session(world.faulty(kind, after=fault))
    with pytest.raises(RuntimeError, match=r"^Cannot initialize without (orchestrator|context manager): "):
        await session.initialize()
    points = session.coordinator.mount_points
    assert (points["orchestrator"], points["context"], points["providers"], points["tools"]) == (None, None, {}, {})
    section = "orchestrator" if kind == "loop" else "context"
    session.config["session"][section]["module"] = f"{kind}-steady"
    await session.initialize()
    await world.check(session)


@pytest.mark.parametrize("kind", OPTIONAL)
async def test_everything_registered_is_taken_back(world: Any, kind: str) -> None:
    """A module that registers all it can and then raises leaves nothing behind, and its cleanup has run."""
    session = await world.started(world.faulty(kind, after=REGISTER_ALL), refused=True)
    coordinator = session.coordinator
    assert coordinator.get_capability("leftover") is None
    assert "leftover" not in {*coordinator.get("tools"), *coordinator.get("providers")}
    assert await coordinator.collect_contributions("observability.events") == [["steady:event"]]
    assert coordinator.session_state == {"cleaned": True}
    assert not await coordinator.authorize("filesystem.write", {})
    await world.check(session)


@pytest.mark.parametrize("kind", [*OPTIONAL, *REQUIRED])
async def test_exit_in_mount_propagates(world: Any, kind: str) -> None:
    """sys.exit() in mount() goes through, takes nothing with it, and the session can be started later."""
    faulty = world.faulty(kind, after="coordinator.config.get('calm') or sys.exit(3)")
    session = world.session(faulty)
    with pytest.raises(SystemExit) as leaving:
        await session.initialize()
    assert leaving.value.code == 3
    assert not session.initialized
    assert session.coordinator.get("tools") == session.coordinator.get("providers") == {}
    await world.check()
    session.config["calm"] = True
    await session.initialize()
    await world.check(session)


@pytest.mark.parametrize("kind", [*OPTIONAL, *REQUIRED])
async def test_hanging_in_mount(world: Any, kind: str) -> None:
    """A caller who gives up on a module that hangs in mount() is heard at once, and nothing stays behind."""
    fault = "coordinator.config.get('calm') or await asyncio.Event().wait()"
    session = world.session(world.faulty(kind, after=fault))
    with pytest.raises(TimeoutError):
        await asyncio.wait_for(session.initialize(), 0.05)
    assert session.coordinator.get("tools") == session.coordinator.get("providers") == {}
    await world.check()
    session.config["calm"] = True
    await session.initialize()
    await world.check(session)


@pytest.mark.parametrize("kind", OPTIONAL)
async def test_failing_while_another_session_starts(world: Any, kind: str) -> None:
    """Taking back one session's failed module takes nothing from a session that starts at the same moment."""
    barrier = asyncio.Barrier(2)
    fault = "await coordinator.session_state['barrier'].wait()\nif coordinator.session_state['bad']: raise RuntimeError"
    faulty = world.faulty(kind, after=fault)
    bad, good = world.session(faulty), world.session(faulty)
    for session in (bad, good):
        session.coordinator.session_state |= {"barrier": barrier, "bad": session is bad}
    await asyncio.gather(bad.initialize(), good.initialize())
    everything = [*good.coordinator.get("tools"), *good.coordinator.get("providers")]
    everything += good.coordinator.hooks.list_handlers("prompt:submit")["prompt:submit"]
    assert "faulty" in everything
    assert "faulty" not in [*bad.coordinator.get("tools"), *bad.coordinator.get("providers")]
    await world.check(good)
    await world.check(bad)


@pytest.mark.parametrize("kind", [*OPTIONAL, *REQUIRED])
async def test_failing_background_task(world: Any, kind: str) -> None:
    """A task that a module starts in mount() and that fails later is the loop's news, not the session's end."""
    reported: list[dict[str, Any]] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(context))
    fault = """
        async def later():
            await asyncio.sleep(0)
            raise RuntimeError("in the background")
        coordinator.session_state["task"] = asyncio.create_task(later())
    """
    session = await world.started(world.faulty(kind, after=fault))
    assert await wait_for(session.coordinator.session_state["task"].done, timeout=30)
    await world.check(session)
    session.coordinator.session_state.clear()
    gc.collect()
    assert [str(context["exception"]) for context in reported] == ["in the background"]


@pytest.mark.parametrize("kind", [*OPTIONAL, *REQUIRED])
async def test_mutating_its_config(world: Any, kind: str) -> None:
    """A module gets a copy of its config: what it does to it reaches neither the plan nor the next session."""
    fault = "config['list'].clear()\nconfig['dict']['deep'] = 'changed'\nconfig.clear()"
    session = world.session(world.faulty(kind, after=fault))
    entries = [*session.config["tools"], *session.config["providers"], *session.config["hooks"]]
    entries += [session.config["session"]["orchestrator"], session.config["session"]["context"]]
    (entry,) = [entry for entry in entries if entry["module"] == f"{kind}-faulty"]
    entry["config"] = {"list": [1, {"a": 1}], "dict": {"deep": "original"}}
    before = json.dumps(session.config)
    await session.initialize()
    assert json.dumps(session.config) == before
    await world.check(session)


@pytest.mark.parametrize("kind", OPTIONAL)
async def test_mutating_the_plan(world: Any, kind: str) -> None:
    """The plan is the session's own: a module that spoils it spoils no other session, and turns still run."""
    fault = "coordinator.config['agents'] = coordinator\ncoordinator.config['session'].pop('context')"
    session = await world.started(world.faulty(kind, after=fault))
    assert "context" not in session.config["session"]
    assert "context" in world.bystander.config["session"]
    await world.check(session)


UNMAKING = {
    "removes what is mounted": """
        coordinator.mount_points["providers"].clear()
        coordinator.mount_points["tools"].clear()
        coordinator.mount_points["context"] = coordinator.mount_points["orchestrator"] = None
    """,
    "unmounts the others": """
        await coordinator.unmount("context")
        for name in list(coordinator.get("tools")):
            await coordinator.unmount("tools", name)
    """,
    "replaces another's tool": """
        for point in ("tools", "providers"):
            for name in list(coordinator.get(point)):
                await coordinator.mount(point, object(), name=name)
    """,
}


@pytest.mark.parametrize("kind", OPTIONAL)
@pytest.mark.parametrize("fault", UNMAKING.values(), ids=UNMAKING)
async def test_unmaking_the_mount_points_and_failing(world: Any, kind: str, fault: str) -> None:
    """Whatever a failing module did to the mount points is put right: the same objects in the same dicts."""
    session = world.session(world.faulty(kind, after=f"{dedent(fault)}\nraise RuntimeError('and now this')"))
    failures: list[str] = []
    session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["error"]))
    tools, providers = session.coordinator.get("tools"), session.coordinator.get("providers")
    await session.initialize()
    assert failures == ["and now this"]
    assert set(session.coordinator.mount_points) == set(world.bystander.coordinator.mount_points)
    assert session.coordinator.get("tools") is tools
    assert session.coordinator.get("providers") is providers
    assert (list(tools), list(providers)) == (["steady"], ["steady"])
    await world.check(session)


@pytest.mark.parametrize("fault", UNMAKING.values(), ids=UNMAKING)
async def test_unmaking_the_mount_points_and_succeeding(world: Any, fault: str) -> None:
    """Mount points are writable: such a module may ruin its own session, but no other and not the kernel."""
    session = world.session(world.faulty("hooks", after=fault))
    try:
        await session.initialize()
        await session.execute("hello")
    except (RuntimeError, ValueError, AttributeError, TypeError, KeyError):
        pass  # its own session is its own loss
    await session.cleanup()
    await world.check()
    others = world.bystander.coordinator
    assert (list(others.get("tools")), list(others.get("providers"))) == (["steady"], ["steady"])


@pytest.mark.parametrize(
    "returned", ["42", "'text'", "object()", "[1]", "int", "lambda: 1 / 0", "lambda required: None", "NotImplemented"]
)
async def test_returning_nonsense(world: Any, returned: str) -> None:
    """What mount() returns beside its duty is a cleanup or nothing; a failing cleanup stops no other."""
    session = world.session(world.faulty("tool", before="", after=f"return {returned}"))
    cleaned: list[str] = []
    session.coordinator.register_cleanup(lambda: cleaned.append("yes"))
    await session.initialize()
    await world.check(session)
    await session.cleanup()
    assert cleaned == ["yes"]
    await world.check()
