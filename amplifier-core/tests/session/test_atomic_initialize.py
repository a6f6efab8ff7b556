"""initialize() succeeds or leaves no trace, also with concurrent callers and when it is cancelled."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.session import get_session

REGISTERING = """
import asyncio

class Direct:
    name = "direct"
    description = "d"
    async def execute(self, input): ...

async def register_everything(coordinator, name):
    coordinator.hooks.register("x:y", lambda event, data: None, name=name)
    coordinator.register_capability(f"cap.{name}", name)
    coordinator.register_contributor("channel", name, lambda: name)
    coordinator.register_cleanup(lambda: LOG.append(f"cleanup {name}"))
    coordinator.mount_points["tools"][f"direct-{name}"] = Direct()
    await asyncio.sleep(0)

LOG = []
FAIL = set()

async def step(coordinator, name):
    await register_everything(coordinator, name)
    if name in FAIL:
        raise LookupError(f"{name} failed")
"""
MODULE = """
import amplifier_module_registering as shared
from amplifier_core import ProviderInfo

class Part:
    name = "NAME"
    description = "d"
    def get_info(self): return ProviderInfo(id="x", display_name="x")
    def parse_tool_calls(self, response): return []
    async def list_models(self): return []
    async def complete(self, request, **kwargs): return None
    async def add_message(self, message): ...
    async def get_messages_for_request(self, token_budget=None, provider=None): return []
    async def get_messages(self): return []
    async def set_messages(self, messages): ...
    async def clear(self): ...
    async def execute(self, prompt=None, context=None, providers=None, tools=None, hooks=None, **rest): return "done"

async def mount(coordinator, config):
    shared.LOG.append("mount NAME")
    if "POINT" != "hooks":
        await coordinator.mount("POINT", Part())
    await shared.step(coordinator, "NAME")

async def on_session_ready(coordinator):
    await shared.step(coordinator, "ready-NAME")
"""
POINTS = {
    "orchestrator": "orchestrator",
    "context": "context",
    "provider": "providers",
    "tool": "tools",
    "hook": "hooks",
}


@pytest.fixture
def shared(make_module: Any) -> Any:
    """Return the module that the others share: what they logged, and which of them are to fail."""
    make_module("registering", REGISTERING)
    for kind, point in POINTS.items():
        make_module(f"{kind}-all", MODULE.replace("NAME", kind).replace("POINT", point))
    import amplifier_module_registering  # type: ignore[import-not-found]

    return amplifier_module_registering


PLAN: dict[str, Any] = {
    "session": {"orchestrator": "orchestrator-all", "context": "context-all"},
    "providers": [{"module": "provider-all"}],
    "tools": [{"module": "tool-all"}],
    "hooks": [{"module": "hook-all"}],
}


def state(session: AmplifierSession) -> Any:
    """Return everything that modules can change of a coordinator."""
    coordinator = session.coordinator
    points = {point: dict(it) if isinstance(it, dict) else it for point, it in coordinator.mount_points.items()}
    return (
        {point: it for point, it in points.items() if point != "hooks"},
        {event: names for event, names in coordinator.hooks.list_handlers().items() if names},
        coordinator.to_dict()["capabilities"],
        {channel: names for channel, names in coordinator.channels.items() if names},
        list(coordinator._cleanup_fns),
        coordinator.loader.get_on_session_ready_queue(),
    )


def furnish(session: AmplifierSession) -> None:
    """Put things of the app's own on the coordinator, which no failure may touch."""
    coordinator = session.coordinator
    coordinator.mount_points["tools"].update(first=1, second=2)
    coordinator.mount_points["module-source-resolver"] = None
    coordinator.hooks.register("x:y", lambda event, data: None, name="app")
    coordinator.register_capability("cap.app", 1)
    coordinator.register_contributor("channel", "app", lambda: 1)
    coordinator.register_cleanup(print_nothing)


def print_nothing() -> None:
    """Do nothing."""


@pytest.mark.parametrize("phase", ["orchestrator", "context"])
async def test_failure_leaves_everything_as_it_was(shared: Any, phase: str) -> None:
    """After a fatal failure mount points, handlers, capabilities, contributors and cleanups are as before."""
    session = AmplifierSession(PLAN)
    furnish(session)
    before = state(session)
    shared.FAIL.add(phase)

    with pytest.raises(RuntimeError, match=f"{phase} failed"):
        await session.initialize()

    assert state(session) == before
    assert session.initialized is False
    assert f"cleanup {phase}" in shared.LOG
    with pytest.raises(LookupError):
        get_session(session.session_id)


async def test_second_try_works(shared: Any) -> None:
    """After a failure initialize() may be called again, and every module is mounted and made ready once in that try."""
    session = AmplifierSession(PLAN)
    shared.FAIL.add("context")
    with pytest.raises(RuntimeError):
        await session.initialize()
    shared.FAIL.clear()
    shared.LOG.clear()

    await session.initialize()
    await session.cleanup()

    assert [
        *(f"mount {kind}" for kind in POINTS),
        *(f"cleanup ready-{kind}" for kind in reversed(POINTS)),
        *(f"cleanup {kind}" for kind in reversed(POINTS)),
    ] == shared.LOG


@pytest.mark.parametrize("kind", ["provider", "tool", "hook"])
async def test_failing_module_leaves_no_trace(shared: Any, kind: str) -> None:
    """What a failing provider, tool or hook had registered is rolled back, its cleanup runs; the rest stays."""
    session = AmplifierSession(PLAN)
    furnish(session)
    shared.FAIL.add(kind)

    await session.initialize()

    points, handlers, capabilities, channels, _, _ = state(session)
    others = [name for name in POINTS if name != kind]
    expected = [*others, *(f"ready-{name}" for name in others)]
    assert handlers == {"x:y": ["app", *expected]}
    assert capabilities == ["cap.app", *(f"cap.{name}" for name in expected)]
    assert [contributor["name"] for contributor in channels["channel"]] == ["app", *expected]
    assert f"direct-{kind}" not in points["tools"]
    assert list(points["tools"])[:2] == ["first", "second"]
    assert shared.LOG.count(f"cleanup {kind}") == 1


async def steps_of_a_start(session: AmplifierSession) -> int:
    """Initialise and return how many times the event loop came around meanwhile."""
    task = asyncio.ensure_future(session.initialize())
    steps = 0
    while not task.done():
        await asyncio.sleep(0)
        steps += 1
    await task
    return steps


async def test_cancellation_at_every_await(shared: Any) -> None:
    """Wherever a start is cancelled, it raises CancelledError, leaves nothing behind and may be repeated."""
    steps = await steps_of_a_start(AmplifierSession(PLAN))
    assert steps > 10

    for step in range(1, steps):
        session = AmplifierSession(PLAN)
        furnish(session)
        before = state(session)
        shared.LOG.clear()
        task = asyncio.ensure_future(session.initialize())
        for _ in range(step):
            await asyncio.sleep(0)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task

        assert state(session) == before, step
        assert session.initialized is False
        mounted = sum(line.startswith("mount") for line in shared.LOG)
        assert sum(line.startswith("cleanup") for line in shared.LOG) >= mounted - 1
        await session.initialize()
        assert session.initialized


async def test_concurrent_calls_share_one_run(shared: Any) -> None:
    """However many call initialize() at the same time, every module is mounted once."""
    session = AmplifierSession(PLAN)

    await asyncio.gather(*(session.initialize() for _ in range(10)))

    assert [line for line in shared.LOG if line.startswith("mount")] == [f"mount {kind}" for kind in POINTS]


async def test_concurrent_calls_share_a_failure(shared: Any) -> None:
    """If the one run fails, all who wait for it get that very error."""
    session = AmplifierSession(PLAN)
    shared.FAIL.add("context")

    outcomes = await asyncio.gather(*(session.initialize() for _ in range(5)), return_exceptions=True)

    assert all(isinstance(outcome, RuntimeError) and "context failed" in str(outcome) for outcome in outcomes)
    assert shared.LOG.count("mount context") == 1


async def test_first_caller_is_cancelled(shared: Any) -> None:
    """When the caller whose task does the work is cancelled, a waiting one takes over and all others are served."""
    session = AmplifierSession(PLAN)
    tasks = [asyncio.ensure_future(session.initialize()) for _ in range(4)]
    for _ in range(3):
        await asyncio.sleep(0)

    tasks[0].cancel()
    outcomes = await asyncio.gather(*tasks, return_exceptions=True)

    assert [type(outcome) for outcome in outcomes[:1]] == [asyncio.CancelledError]
    assert outcomes[1:] == [None, None, None]
    assert session.initialized
    assert list(session.coordinator.get("providers")) == ["provider"]
    assert shared.LOG.count("mount hook") == 1


async def test_enter_leaves_nothing_behind(shared: Any) -> None:
    """`async with` that fails to enter cleans up all of it, what the app registered as well, and raises the error."""
    session = AmplifierSession(PLAN)
    ran: list[str] = []
    session.coordinator.register_cleanup(lambda: ran.append("app"))
    shared.FAIL.add("context")

    with pytest.raises(RuntimeError, match="context failed"):
        async with session:
            raise AssertionError("never entered")

    assert ran == ["app"]
    assert shared.LOG.count("cleanup orchestrator") == 1
    assert session.coordinator.get("orchestrator") is None
    assert session.coordinator._cleanup_fns == []


async def test_cancelled_enter_leaves_others_alone(shared: Any) -> None:
    """A cancelled `__aenter__` that only waited for another caller's start does not clean up under its feet."""
    session = AmplifierSession(PLAN)
    first = asyncio.ensure_future(session.initialize())
    await asyncio.sleep(0)
    entering = asyncio.ensure_future(session.__aenter__())
    await asyncio.sleep(0)

    entering.cancel()
    with pytest.raises(asyncio.CancelledError):
        await entering
    await first

    assert session.initialized
    assert [line for line in shared.LOG if line.startswith("cleanup")] == []


async def test_module_cannot_wait_for_the_session_it_is_part_of(make_plan: Any, make_module: Any, listen: Any) -> None:
    """A module that calls initialize() while it mounts fails with the reason instead of waiting for ever."""
    make_module("tool-eager", "async def mount(coordinator, config):\n    await coordinator.session.initialize()")
    session = AmplifierSession(make_plan(tools=[{"module": "tool-eager"}]), session_id="s")
    heard = listen(session)

    await session.initialize()

    [(_, data)] = heard
    assert data["error"].startswith("initialize() of session s would wait for itself")
    assert "on_session_ready" in data["error"]
