"""Modules that misbehave while a turn runs: the turn may fail, the session and everyone else go on."""

from __future__ import annotations

import asyncio
import gc
from textwrap import dedent, indent
from typing import Any

import pytest

TOOL = """
import asyncio
import sys


class Tool:
    name = "faulty"
    description = "Misbehave"
    input_schema = {{"type": "object"}}

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        coordinator = self.coordinator
{body}


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Tool(coordinator), name="faulty")
"""

LOOP = """
import asyncio
import sys

from amplifier_module_loop_steady import Loop


class Faulty(Loop):
    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **_):
        if prompt == "misbehave":
{body}
        return await super().execute(prompt, context, providers, tools, hooks, coordinator)


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Faulty())
"""


def tool(make_module: Any, body: str) -> str:
    make_module("tool-faulty", TOOL.format(body=_indented(body, 8)))
    return "tool-faulty"


def loop(make_module: Any, body: str) -> str:
    make_module("loop-faulty", LOOP.format(body=_indented(body, 12)))
    return "loop-faulty"


def _indented(body: str, width: int) -> str:
    return indent(dedent(body).strip("\n"), " " * width)


async def run(session: Any, prompt: str) -> asyncio.Task[Any]:
    """Run a turn in a task of its own and return the finished task."""
    turn = asyncio.create_task(session.execute(prompt))
    await asyncio.wait([turn])
    return turn


MUTATING = {
    "the mount points": "coordinator.mount_points['tools']['extra'] = self\ncoordinator.mount_points['evil'] = 1",
    "the plan": "coordinator.config['tools'].clear()\ncoordinator.config['session']['raw'] = True",
    "another's tool": "coordinator.get('tools')['other'].name = 'renamed'",
    "the context": "await coordinator.get('context').clear()",
    "the fragments": "from amplifier_core.coordinator import set_context_fragment\nset_context_fragment('x', object())",
    "the default fields": "coordinator.hooks.set_default_fields(session_id=coordinator.session_id, odd=object())",
    "the capabilities": "coordinator.register_capability('session.spawn', 42)",
    "the children of the token": (
        "from amplifier_core import CancellationToken\ncoordinator.cancellation.register_child(CancellationToken())"
    ),
}


@pytest.mark.parametrize("body", MUTATING.values(), ids=MUTATING)
async def test_tool_that_mutates(world: Any, make_module: Any, body: str) -> None:
    """A tool that changes what its session has may do so; its turns go on, and no other session sees it."""
    session = await world.started(tool(make_module, f"{body}\nreturn 'done'"))
    session.coordinator.get("tools")["other"] = type("Other", (), {"name": "other"})()
    assert await session.execute("faulty") == "done"
    await world.check(session)


@pytest.mark.parametrize(
    ("body", "error"),
    [
        ("raise RuntimeError('boom')", RuntimeError),
        ("raise type('Base', (BaseException,), {})('boom')", BaseException),
        ("raise asyncio.CancelledError", asyncio.CancelledError),
        ("raise asyncio.TimeoutError", TimeoutError),
        ("sys.exit(6)", SystemExit),
        ("raise KeyboardInterrupt", KeyboardInterrupt),
        ("class Unprintable(Exception):\n    def __str__(self): return 1 / 0\nraise Unprintable", Exception),
    ],
)
async def test_orchestrator_that_raises(world: Any, make_module: Any, body: str, error: type[BaseException]) -> None:
    """What an orchestrator raises reaches the caller as it is, the turn is failed, and the next one runs."""
    session = await world.started(loop(make_module, body))
    with pytest.raises(error):
        await session.execute("misbehave")
    assert session.status.status == "failed"
    assert set(session.status.last_error) == {"message"}
    await world.check(session)
    assert session.status.status == "completed"


@pytest.mark.parametrize("body", ["return None", "return 42", "return object()", "return float('nan')"])
async def test_orchestrator_that_returns_anything(world: Any, make_module: Any, body: str) -> None:
    """The answer is the orchestrator's business: whatever it is, the turn is complete."""
    session = await world.started(loop(make_module, body))
    await session.execute("misbehave")
    assert session.status.status == "completed"
    await world.check(session)


@pytest.mark.parametrize("immediate", [False, True])
@pytest.mark.parametrize("end", ["return 'done'", "raise RuntimeError('stopping')"])
async def test_tool_that_cancels_the_session(world: Any, make_module: Any, immediate: bool, end: str) -> None:
    """A tool may ask its session to stop: that turn is cancelled, other sessions are not, a reset brings it back."""
    session = await world.started(tool(make_module, f"await coordinator.request_cancel({immediate})\n{end}"))
    completed: list[bool] = []
    session.coordinator.hooks.register("cancel:completed", lambda event, data: completed.append(data["was_immediate"]))
    await session.execute("faulty")
    assert session.status.status == "cancelled"
    assert completed == [immediate]
    session.coordinator.cancellation.reset()
    await world.check(session)


@pytest.mark.parametrize(
    "body", ["asyncio.current_task().cancel()\nawait asyncio.sleep(0)", "raise asyncio.CancelledError"]
)
async def test_tool_that_cancels_its_task(world: Any, make_module: Any, body: str) -> None:
    """A tool that cancels the task of its turn ends that turn; the session says so and runs the next."""
    session = await world.started(tool(make_module, body))
    turn = await run(session, "faulty")
    assert turn.cancelled()
    assert session.status.status == "failed"
    await world.check(session)


async def test_tool_that_cancels_the_callbacks(world: Any, make_module: Any) -> None:
    """Callbacks on the token that fail do not keep the others from hearing of a cancellation."""
    body = """
        def broken(): raise RuntimeError("boom")
        coordinator.cancellation.on_cancel(broken)
        coordinator.cancellation.on_cancel(lambda: coordinator.session_state.__setitem__("heard", True))
        await coordinator.request_cancel()
        await coordinator.cancellation.trigger_callbacks()
        return "done"
    """
    session = await world.started(tool(make_module, body))
    assert await session.execute("faulty") == "done"
    assert session.coordinator.session_state["heard"] is True
    session.coordinator.cancellation.reset()
    await world.check(session)


async def test_tool_whose_background_task_fails(world: Any, make_module: Any) -> None:
    """A failing task that a tool leaves behind touches no turn, neither this one nor the next."""
    reported: list[str] = []
    asyncio.get_running_loop().set_exception_handler(lambda loop, context: reported.append(str(context["exception"])))
    body = """
        async def later():
            raise RuntimeError("in the background")
        asyncio.create_task(later())
        return "done"
    """
    session = await world.started(tool(make_module, body))
    assert await session.execute("faulty") == "done"
    await asyncio.sleep(0)
    gc.collect()
    assert reported == ["in the background"]
    await world.check(session)


async def test_tool_that_outlives_its_session(world: Any, make_module: Any) -> None:
    """A background task that goes on after the session's end can still emit and register; nobody else hears it."""
    body = """
        async def later():
            await coordinator.session_state["go"].wait()
            coordinator.hooks.register("prompt:submit", print)
            coordinator.register_capability("late", 1)
            await coordinator.hooks.emit("late:here", {})
            coordinator.log("INFO", "late")
            return coordinator.turn_id
        coordinator.session_state["go"] = asyncio.Event()
        coordinator.session_state["task"] = asyncio.create_task(later())
        return "done"
    """
    session = await world.started(tool(make_module, body))
    assert await session.execute("faulty") == "done"
    await session.cleanup()
    session.coordinator.session_state["go"].set()
    await session.coordinator.session_state["task"]
    await world.check()


async def test_tool_that_starts_a_turn_of_its_own_session(world: Any, make_module: Any) -> None:
    """A turn inside a turn is a turn like any other; afterwards the outer one ends as usual."""
    session = await world.started(tool(make_module, "return await coordinator.session.execute('inner')"))
    assert await session.execute("faulty") == "steady: inner"
    await world.check(session)


async def test_tool_that_ends_its_own_session(world: Any, make_module: Any) -> None:
    """A tool that cleans its session up gets its turn finished; the session is over, and says so."""
    session = await world.started(tool(make_module, "await coordinator.session.cleanup()\nreturn 'done'"))
    assert await session.execute("faulty") == "done"
    with pytest.raises(RuntimeError, match=r"^Session not initialized\. Call initialize\(\) first\.$"):
        await session.execute("hello")
    await world.check()


@pytest.mark.parametrize("kind", ["context", "provider"])
async def test_context_or_provider_that_fails_at_work(world: Any, make_module: Any, kind: str) -> None:
    """A context or provider that raises in a turn fails that turn with its own exception, and no more."""
    source = {
        "context": (
            "from amplifier_module_context_steady import Context\n"
            "class Faulty(Context):\n"
            "    async def add_message(self, message):\n"
            "        if message['content'] == 'misbehave':\n"
            "            raise LookupError('disk full')\n"
            "        await super().add_message(message)\n"
            "async def mount(coordinator, config=None):\n"
            "    await coordinator.mount('context', Faulty())\n"
        ),
        "provider": (
            "from amplifier_module_provider_steady import Steady\n"
            "class Faulty(Steady):\n"
            "    async def complete(self, request, **kwargs):\n"
            "        if request == 'misbehave':\n"
            "            raise LookupError('no such model')\n"
            "        return await super().complete(request)\n"
            "async def on_session_ready(coordinator):\n"
            "    await coordinator.mount('providers', coordinator.get('providers', 'faulty'), name='steady')\n"
            "async def mount(coordinator, config=None):\n"
            "    await coordinator.mount('providers', Faulty(), name='faulty')\n"
        ),
    }[kind]
    make_module(f"{kind}-faulty", source)
    session = await world.started(f"{kind}-faulty")
    with pytest.raises(LookupError):
        await session.execute("misbehave")
    assert session.status.status == "failed"
    await world.check(session)
