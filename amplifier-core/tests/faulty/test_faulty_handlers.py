"""Handlers, contributors and cleanups that misbehave: the event goes on, the others hear it unchanged."""

from __future__ import annotations

import asyncio
import gc
from textwrap import dedent, indent
from typing import Any

import pytest

HOOK = """
import asyncio
import sys


async def mount(coordinator, config=None):
    hooks = coordinator.hooks

    async def handler(event, data):
{body}

    remove = hooks.register("prompt:submit", handler, priority={priority}, name="faulty")
    coordinator.register_cleanup(lambda: coordinator.session_state.__setitem__("cleaned", True))
"""

HARMLESS = {
    "raises": "raise RuntimeError('boom')",
    "raises a base exception": "raise type('Base', (BaseException,), {})('boom')",
    "raises what cannot be printed": """
        class Unprintable(Exception):
            def __str__(self):
                raise ValueError("no text")
            __repr__ = __str__
        raise Unprintable
    """,
    "recurses for ever": "def deeper(): return deeper()\ndeeper()",
    "mutates its data": "data['prompt'] = 'changed'\ndata.clear()",
    "mutates its data deeply": "data.setdefault('nested', []).append(data)\ndata['session_id'] = 'somebody else'",
    "registers during the emit": "hooks.register(event, handler, name='another')",
    "registers for everything during the emit": "hooks.register('*', lambda e, d: None, priority=-1, name='another')",
    "unregisters itself": "remove()\nremove()",
    "unregisters itself by name": "hooks.unregister('faulty')",
    "raises a cancellation": "raise asyncio.CancelledError",
    "awaits a cancelled task": "inner = asyncio.ensure_future(asyncio.sleep(60))\ninner.cancel()\nawait inner",
    "hangs": "await asyncio.Event().wait()",
    "hangs in an inner task": "await asyncio.gather(asyncio.Event().wait())",
    "hangs and swallows its end": """
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            await asyncio.sleep(0)
    """,
    "returns an empty dict": "return {}",
    "returns a modification of nothing": "return {'action': 'modify'}",
    "sets context variables": "import contextvars\ncontextvars.ContextVar('leak').set(1)",
    "collects contributions that fail": """
        coordinator.register_contributor('broken', 'faulty', lambda: 1 / 0)
        await coordinator.collect_contributions('broken')
    """,
}


def hook(make_module: Any, body: str, priority: int = 0) -> str:
    source = HOOK.format(body=indent(dedent(body).strip("\n"), " " * 8), priority=priority)
    make_module("hooks-faulty", source)
    return "hooks-faulty"


@pytest.mark.parametrize("priority", [-1, 100], ids=["before the others", "after the others"])
@pytest.mark.parametrize("body", HARMLESS.values(), ids=HARMLESS)
async def test_handler_that_cannot_harm(world: Any, make_module: Any, body: str, priority: int) -> None:
    """Whatever a handler does, the turn runs, the others hear the event as it was, and the next turn runs too."""
    session = await world.started(hook(make_module, body, priority), hook_timeout=0.05)
    for _ in range(2):
        turn = asyncio.create_task(session.execute("hello"))
        await asyncio.wait([turn])
        assert turn.result() == "steady: hello"
        assert turn.cancelling() == 0
    await world.check(session)
    await session.cleanup()
    assert session.coordinator.session_state["cleaned"] is True


REFUSING = {
    "a text": "return 'yes'",
    "a number": "return 1",
    "a list": "return []",
    "an unknown action": "return {'action': 'explode'}",
    "fields of the wrong type": "return {'action': 'inject_context', 'context_injection': 42}",
    "a class": "from amplifier_core import HookResult\nreturn HookResult",
    "a result that was never checked": (
        "from amplifier_core import HookResult\nreturn HookResult.model_construct(action='allow-all')"
    ),
}


@pytest.mark.parametrize("body", REFUSING.values(), ids=REFUSING)
async def test_nonsense_is_a_refusal(world: Any, make_module: Any, body: str) -> None:
    """An answer that cannot be read denies the event, and only that one; the session goes on."""
    session = await world.started(hook(make_module, body))
    verdict = await session.coordinator.hooks.emit("prompt:submit", {"prompt": "x"})
    assert (verdict.action, verdict.reason) == ("deny", "Hook handler returned invalid response")
    session.coordinator.hooks.unregister("faulty")
    await world.check(session)


@pytest.mark.parametrize("priority", [-1, 100])
async def test_emitting_its_own_event_for_ever(world: Any, make_module: Any, priority: int) -> None:
    """A handler that answers its event with the same event runs into the stack's end, and the turn goes on."""
    body = "hooks.list_handlers('calm')['calm'] or await hooks.emit(event, data)"
    session = await world.started(hook(make_module, body, priority))
    assert await session.execute("hello") == "steady: hello"
    session.coordinator.hooks.register("calm", print)
    await world.check(session)


async def test_unregistering_the_others(world: Any, make_module: Any) -> None:
    """A handler that removes the others does so in its own session, from the next event on."""
    body = "for name in ('steady-log', 'other'):\n    hooks.unregister(name)"
    session = await world.started(hook(make_module, body, -1))
    heard: list[str] = []
    session.coordinator.hooks.register("prompt:submit", lambda event, data: heard.append(data["prompt"]), name="other")
    await session.execute("one")
    await session.execute("two")
    assert heard == ["one"]
    await world.check()


async def test_exit_in_a_handler_propagates(world: Any, make_module: Any) -> None:
    """sys.exit() in a handler ends the turn, not the session, and no other session."""
    session = await world.started(hook(make_module, "coordinator.session_state or sys.exit(5)"))
    with pytest.raises(SystemExit) as leaving:
        await session.execute("hello")
    assert leaving.value.code == 5
    assert session.status.status == "failed"
    session.coordinator.session_state["calm"] = True
    await world.check(session)


async def test_cancelling_the_session_token(world: Any, make_module: Any) -> None:
    """A handler that asks the session to stop is obeyed in that session, and a reset makes it work again."""
    session = await world.started(hook(make_module, "await coordinator.request_cancel()"))
    assert await session.execute("hello") == "steady: hello"
    assert session.status.status == "cancelled"
    session.coordinator.hooks.unregister("faulty")
    session.coordinator.cancellation.reset()
    await world.check(session)


async def test_background_tasks_that_fail(world: Any, make_module: Any) -> None:
    """Tasks that a handler leaves behind fail in the loop's hands, not in the session's."""
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))
    body = """
        async def later():
            raise RuntimeError("in the background")
        asyncio.create_task(later())
    """
    session = await world.started(hook(make_module, body))
    await session.execute("hello")
    await asyncio.sleep(0)
    gc.collect()
    assert reported == ["in the background"]
    await world.check(session)


CONTRIBUTORS = {
    "raises": "def give(): raise RuntimeError('boom')",
    "raises a base exception": "def give(): raise type('Base', (BaseException,), {})('boom')",
    "raises a cancellation": "def give(): raise asyncio.CancelledError",
    "is no function": "give = 42",
    "wants arguments": "def give(what): return what",
    "registers another": (
        "def give():\n    coordinator.register_contributor('observability.events', 'again', lambda: [])\n    return []"
    ),
    "gives something else": "def give(): return object()",
}


@pytest.mark.parametrize("body", CONTRIBUTORS.values(), ids=CONTRIBUTORS)
async def test_contributor_that_cannot_harm(world: Any, make_module: Any, body: str) -> None:
    """A faulty contributor is skipped; the others' contributions are all there, in order."""
    register = "coordinator.register_contributor('observability.events', 'faulty', give)"
    mount = f"async def mount(coordinator, config=None):\n{indent(body, '    ')}\n    {register}\n"
    make_module("hooks-faulty", f"import asyncio\n\n{mount}")
    session = await world.started("hooks-faulty")
    session.coordinator.register_contributor("observability.events", "last", lambda: ["last"])
    collected = await session.coordinator.collect_contributions("observability.events")
    assert [given for given in collected if given in (["steady:event"], ["last"])] == [["steady:event"], ["last"]]
    await world.check(session)


CLEANUPS = {
    "raises": "def leave(): raise RuntimeError('boom')",
    "raises later": "async def leave():\n    await asyncio.sleep(0)\n    raise RuntimeError('boom')",
    "registers another": "def leave(): coordinator.register_cleanup(leave)",
    "cleans up again": "async def leave(): await coordinator.session.cleanup()",
    "wants arguments": "def leave(what): ...",
    "unmounts everything": "def leave(): coordinator.mount_points.clear()",
}


@pytest.mark.parametrize("body", CLEANUPS.values(), ids=CLEANUPS)
async def test_cleanup_that_cannot_harm(world: Any, make_module: Any, body: str) -> None:
    """A faulty cleanup is logged and skipped; all others run, once, and no other session notices."""
    lines = body.replace("\n", "\n    ")
    make_module(
        "hooks-faulty", f"import asyncio\n\nasync def mount(coordinator, config=None):\n    {lines}\n    return leave\n"
    )
    session = world.session("hooks-faulty")
    cleaned: list[int] = []
    session.coordinator.register_cleanup(lambda: cleaned.append(1))
    await session.initialize()
    session.coordinator.register_cleanup(lambda: cleaned.append(2))
    await session.execute("hello")
    await session.cleanup()
    assert cleaned == [2, 1]
    assert not session.initialized
    await world.check()
