"""cleanup() and the session as a context manager."""

from __future__ import annotations

from typing import Any

from amplifier_core.session import AmplifierSession

from .base import Stage, describe, outcome, risky, scenario
from .parts import base_plan, is_up, started, write_raising


@scenario
async def reverse_order_and_kinds(stage: Stage) -> Any:
    """Cleanup functions run in reverse, sync or async; one that raises does not stop the rest."""
    session = await started(stage)
    ran: list[str] = []

    async def later() -> None:
        ran.append("async")

    def broken() -> None:
        ran.append("broken")
        raise ValueError("dirty")

    hub = session.coordinator
    hub.register_cleanup(lambda: ran.append("first"))
    hub.register_cleanup(later)
    hub.register_cleanup(lambda: later())
    hub.register_cleanup(broken)
    hub.register_cleanup(None)
    hub.register_cleanup("text")
    failed = await outcome(session.cleanup)
    return [failed, ran, stage.warnings(), [event for event, _ in stage.notes]]


@scenario
async def twice(stage: Stage) -> Any:
    """A second cleanup."""
    session = await started(stage)
    ran: list[int] = []
    session.coordinator.register_cleanup(lambda: ran.append(1))
    await session.cleanup()
    await session.cleanup()
    return [ran, [event for event, _ in stage.notes], is_up(session)]


@risky
async def fatal_is_raised_last(stage: Stage) -> Any:
    """SystemExit in a cleanup function is raised after all have run."""
    session = await started(stage)
    ran: list[str] = []

    def leave() -> None:
        raise SystemExit(4)

    session.coordinator.register_cleanup(lambda: ran.append("last"))
    session.coordinator.register_cleanup(leave)
    try:
        await session.cleanup()
    except BaseException as error:
        return [describe(error), ran]
    return ["returned", ran]


@scenario
async def before_initialise(stage: Stage) -> Any:
    """Cleaning up a session that never started emits nothing."""
    session = AmplifierSession(base_plan(stage))
    ran: list[int] = []
    session.coordinator.register_cleanup(lambda: ran.append(1))
    return [await outcome(session.cleanup), ran]


@scenario
async def context_manager(stage: Stage) -> Any:
    """Entering initialises, leaving cleans up."""
    session = AmplifierSession(base_plan(stage))
    async with session as entered:
        stage.notes.extend([entered is session, is_up(session), await session.execute("hi")])
    return stage.notes


@scenario
async def context_manager_with_error(stage: Stage) -> Any:
    """An error inside the block passes through and cleanup still runs."""
    ran: list[int] = []

    async def block() -> None:
        async with AmplifierSession(base_plan(stage)) as session:
            session.coordinator.register_cleanup(lambda: ran.append(1))
            raise KeyError("inside")

    return [await outcome(block), ran]


@scenario
async def exit_without_enter(stage: Stage) -> Any:
    """Leaving without having entered."""
    session = AmplifierSession(base_plan(stage))
    return await outcome(lambda: session.__aexit__(None, None, None))


@scenario
async def failed_enter(stage: Stage) -> Any:
    """Entering a session that cannot be initialised."""
    plan = base_plan(stage)
    plan["session"]["context"] = write_raising(stage, "context-broken")

    async def block() -> None:
        async with AmplifierSession(plan):
            stage.notes.append("inside")

    return [await outcome(block), stage.notes]


@scenario
async def execute_after_cleanup(stage: Stage) -> Any:
    """A turn after cleanup."""
    session = await started(stage)
    await session.cleanup()
    return await outcome(lambda: session.execute("hi"))
