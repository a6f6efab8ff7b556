"""Phase 6: every module is told, once, when all are there."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from amplifier_core import AmplifierSession, ModuleLoader

NOTING = """
async def mount(coordinator, config): ...
async def on_session_ready(coordinator):
    seen = coordinator.get_capability("seen") or []
    coordinator.register_capability("seen", [*seen, "ID"])
"""


@pytest.fixture
def hooks(make_module: Any) -> Any:
    """Give `hooks(a="body", ...)`: it writes hook modules whose on_session_ready has that body; returns the section."""

    def write(**bodies: str) -> list[dict[str, str]]:
        for name, body in bodies.items():
            make_module(
                f"hooks-{name}",
                "import asyncio\nasync def mount(coordinator, config): ...\n"
                f"async def on_session_ready(coordinator):\n    {body}\n",
            )
        return [{"module": f"hooks-{name}"} for name in bodies]

    return write


def note(name: str) -> str:
    """Return code that notes that a callback ran."""
    return f"coordinator.register_capability('seen', [*(coordinator.get_capability('seen') or []), '{name}'])"


async def test_a_failure_is_observable_and_isolated(
    make_plan: Any, hooks: Any, listen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A callback that raises is a warning and an event; the next one still runs and the session starts."""
    session = AmplifierSession(make_plan(hooks=hooks(a=note("a"), b="raise ValueError('not now')", c=note("c"))))
    heard = listen(session)

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["a", "c"]
    [(event, data)] = heard
    assert event == "module:on_session_ready_failed"
    assert (data["module_id"], data["error"]) == ("hooks-b", "not now")
    [record] = [record for record in caplog.records if "on_session_ready" in record.message]
    assert record.message == "on_session_ready for 'hooks-b' raised: not now"
    assert record.levelno == logging.WARNING
    assert session.initialized


@pytest.mark.parametrize(
    "body",
    ["raise asyncio.CancelledError", "await asyncio.sleep(0); raise BaseException"],
)
async def test_hostile_callbacks(make_plan: Any, hooks: Any, body: str) -> None:
    """A callback that cancels its caller or raises a BaseException cannot stop the start."""
    session = AmplifierSession(make_plan(hooks=hooks(a=body, b=note("b"))))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["b"]
    await asyncio.sleep(0)


@pytest.mark.parametrize("error", [KeyboardInterrupt, SystemExit])
async def test_interrupts_go_through(make_plan: Any, hooks: Any, error: type[BaseException]) -> None:
    """KeyboardInterrupt and SystemExit of a callback end the start, which leaves nothing behind."""
    session = AmplifierSession(make_plan(hooks=hooks(a=f"raise {error.__name__}")))

    with pytest.raises(error):
        await session.initialize()

    assert session.initialized is False
    assert session.coordinator.get("orchestrator") is None


async def test_error_while_reporting_is_swallowed(make_plan: Any, hooks: Any) -> None:
    """A registry that raises while a failure is told does not stop the next callback."""
    session = AmplifierSession(make_plan(hooks=hooks(a="raise ValueError", b=note("b"))))

    async def broken_emit(event: str, data: Any) -> None:
        raise RuntimeError("no bus")

    session.coordinator.hooks.emit = broken_emit  # type: ignore[method-assign, assignment]
    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["b"]


async def test_failed_mounts_are_not_told(make_plan: Any, make_module: Any) -> None:
    """A module whose mount failed gets no callback."""
    make_module(
        "hooks-broken",
        """
        async def mount(coordinator, config):
            raise RuntimeError
        async def on_session_ready(coordinator):
            coordinator.register_capability("seen", True)
        """,
    )
    session = AmplifierSession(make_plan(hooks=[{"module": "hooks-broken"}]))

    await session.initialize()

    assert session.coordinator.get_capability("seen") is None


async def test_everyone_is_there(make_plan: Any, make_module: Any, make_tool: Any) -> None:
    """The first callback already sees what the last module mounted; its return value is ignored."""
    make_tool("late")
    make_module(
        "loop-early",
        """
        from amplifier_module_loop_plain import Loop
        async def mount(coordinator, config):
            await coordinator.mount("orchestrator", Loop())
        async def on_session_ready(coordinator):
            contributions = await coordinator.collect_contributions("observability.events")
            coordinator.register_capability("seen", (contributions, list(coordinator.get("tools"))))
            return "ignored"
        """,
    )
    make_module(
        "hooks-last",
        """
        async def mount(coordinator, config):
            coordinator.register_contributor("observability.events", "last", lambda: ["last:event"])
        """,
    )
    session = AmplifierSession(
        make_plan(
            session={"orchestrator": "loop-early"}, tools=[{"module": "tool-late"}], hooks=[{"module": "hooks-last"}]
        )
    )

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ([["last:event"]], ["late"])


async def test_deadline(make_plan: Any, hooks: Any, listen: Any) -> None:
    """A callback past session.ready_timeout is cancelled and reported with the word timeout; the next one runs."""
    plan = make_plan(session={"ready_timeout": 0.01}, hooks=hooks(a="await asyncio.Event().wait()", b=note("b")))
    session = AmplifierSession(plan)
    heard = listen(session)

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["b"]
    [(event, data)] = heard
    assert (event, data["module_id"]) == ("module:on_session_ready_failed", "hooks-a")
    assert "timeout" in data["error"]


async def test_no_deadline_by_default(make_plan: Any, hooks: Any) -> None:
    """Without ready_timeout a callback may take its time."""
    session = AmplifierSession(make_plan(hooks=hooks(a="for _ in range(50): await asyncio.sleep(0)\n    " + note("a"))))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["a"]


async def test_sync_callback_is_skipped_and_reported(
    make_plan: Any, make_module: Any, listen: Any, caplog: pytest.LogCaptureFixture
) -> None:
    """A sync on_session_ready is not called: the loader warns, and the failure event makes it visible."""
    make_module(
        "hooks-sync",
        """
        async def mount(coordinator, config): ...
        def on_session_ready(coordinator):
            coordinator.register_capability("seen", True)
        """,
    )
    session = AmplifierSession(make_plan(hooks=[{"module": "hooks-sync"}]))
    heard = listen(session)

    await session.initialize()

    assert session.coordinator.get_capability("seen") is None
    assert "Module 'hooks-sync' defines on_session_ready() as sync — must be async. Skipping." in caplog.messages
    [(event, data)] = heard
    assert (event, data["module_id"]) == ("module:on_session_ready_failed", "hooks-sync")
    assert "sync" in data["error"]


async def test_queue_is_read_once_and_drained(make_plan: Any, hooks: Any) -> None:
    """The loader's queue is asked for once, and emptied afterwards."""
    calls: list[str] = []

    class Spy(ModuleLoader):
        def get_on_session_ready_queue(self) -> Any:
            calls.append("get")
            return super().get_on_session_ready_queue()

        def clear_on_session_ready_queue(self) -> None:
            calls.append("clear")
            super().clear_on_session_ready_queue()

    session = AmplifierSession(make_plan(hooks=hooks(a=note("a"))), Spy())

    await session.initialize()

    assert calls == ["get", "clear"]
    assert session.loader.get_on_session_ready_queue() == []


async def test_module_listed_twice_is_told_twice(make_plan: Any, hooks: Any) -> None:
    """Every successful mount earns one callback."""
    section = hooks(a=note("a"))
    session = AmplifierSession(make_plan(hooks=[*section, *section]))

    await session.initialize()

    assert session.coordinator.get_capability("seen") == ["a", "a"]


async def test_sessions_with_one_loader_have_separate_queues(make_plan: Any, hooks: Any) -> None:
    """Sessions that start at the same time with one loader each run their own callbacks, on their own coordinator."""
    loader = ModuleLoader()
    section = hooks(a="await asyncio.sleep(0)\n    " + note("a"), b="await asyncio.sleep(0)\n    " + note("b"))
    sessions = [AmplifierSession(make_plan(hooks=section), loader) for _ in range(20)]

    await asyncio.gather(*(session.initialize() for session in sessions))

    assert [session.coordinator.get_capability("seen") for session in sessions] == [["a", "b"]] * 20
    assert loader.get_on_session_ready_queue() == []


async def test_queue_methods_speak_of_the_session_at_hand(make_plan: Any, make_module: Any) -> None:
    """While a session starts, the shared loader's queue is that session's; outside it is the loader's own."""
    make_module(
        "hooks-look",
        """
        async def mount(coordinator, config):
            loader = coordinator.loader
            waiting = [module for module, _ in loader.get_on_session_ready_queue()]
            coordinator.register_capability("waiting", waiting)
        """,
    )
    make_module("tool-noting", NOTING.replace("...", "return lambda: None").replace("ID", "tool-noting"))
    loader = ModuleLoader()

    async def stranger(coordinator: Any) -> None:
        raise AssertionError("another session's callback")

    loader.enqueue_on_session_ready("stranger", stranger)
    plan = make_plan(tools=[{"module": "tool-noting"}], hooks=[{"module": "hooks-look"}])
    session = AmplifierSession(plan, loader)

    await session.initialize()

    assert session.coordinator.get_capability("waiting") == ["tool-noting"]
    assert session.coordinator.get_capability("seen") == ["tool-noting"]
    assert loader.get_on_session_ready_queue() == [("stranger", stranger)]
    loader.clear_on_session_ready_queue()
    assert loader.get_on_session_ready_queue() == []


async def test_queue_is_a_copy() -> None:
    """Changing the list that the loader gives changes nothing."""
    loader = ModuleLoader()

    async def ready(coordinator: Any) -> None: ...

    loader.enqueue_on_session_ready("m", ready)
    loader.get_on_session_ready_queue().clear()

    assert loader.get_on_session_ready_queue() == [("m", ready)]
