"""The session class of the package's top level, where the published kernel has a second, compiled one."""

from __future__ import annotations

from typing import Any

import amplifier_core
from amplifier_core import AmplifierSession

from .base import Stage, outcome, risky, scenario
from .parts import Loop, base_plan, watch, write_raising


async def up(stage: Stage, plan: dict[str, Any] | None = None, **options: Any) -> AmplifierSession:
    """Return an initialised session of the top-level class whose events go to the stage's notes."""
    session = AmplifierSession(plan or base_plan(stage), **options)
    watch(session.coordinator, stage.notes)
    await session.initialize()
    return session


@scenario
async def one_class(stage: Stage) -> Any:
    """Whether both names are one class."""
    return amplifier_core.session.AmplifierSession is AmplifierSession


@scenario
async def attributes(stage: Stage) -> Any:
    """Which of the documented attributes there are."""
    session = AmplifierSession(base_plan(stage))
    names = [
        "session_id",
        "parent_id",
        "coordinator",
        "config",
        "loader",
        "status",
        "is_resumed",
        "initialized",
        "initialize",
        "execute",
        "cleanup",
    ]
    return {name: hasattr(session, name) for name in names}


@scenario
async def refused_plans(stage: Stage) -> Any:
    """Plans that lack what a session needs."""
    plans: list[Any] = [None, {}, {"session": {}}, {"session": {"orchestrator": "o"}}, {"session": {"context": "c"}}]
    return [str(await outcome(lambda plan=plan: bool(AmplifierSession(plan)))) for plan in plans]


@scenario
async def returned_values(stage: Stage) -> Any:
    """What the methods return."""
    session: Any = AmplifierSession(base_plan(stage))
    return [await session.initialize(), await session.execute("hi"), await session.cleanup()]


@scenario
async def fatal_phase(stage: Stage) -> Any:
    """A context that cannot be mounted."""
    plan = base_plan(stage)
    plan["session"]["context"] = write_raising(stage, "context-broken")
    return await outcome(lambda: AmplifierSession(plan).initialize())


@scenario
async def execute_before_initialise(stage: Stage) -> Any:
    """Executing too early."""
    session = AmplifierSession(base_plan(stage))
    return await outcome(lambda: session.execute("hi"))


@scenario
async def orchestrator_raises(stage: Stage) -> Any:
    """An exception of the orchestrator."""
    session = await up(stage)

    async def body(**given: Any) -> str:
        raise ValueError("broken")

    await session.coordinator.mount("orchestrator", Loop(body))
    return await outcome(lambda: session.execute("hi"))


@scenario
async def whole_life(stage: Stage) -> Any:
    """The events of a child's life with metadata."""
    plan = base_plan(stage)
    plan["session"]["metadata"] = {"a": 1}
    session = await up(stage, plan, session_id="me", parent_id="mother", is_resumed=True)
    await session.execute("one")
    await session.execute("two")
    await session.cleanup()
    return stage.notes


@scenario
async def raw_plan_twice(stage: Stage) -> Any:
    """How often the raw plan is emitted over two turns."""
    plan = base_plan(stage)
    plan["session"]["raw"] = True
    session = await up(stage, plan)
    await session.execute("one")
    await session.execute("two")
    return [event for event, _ in stage.notes]


@scenario
async def cancelled_turn(stage: Stage) -> Any:
    """A turn that returns after cancellation was requested."""
    session = await up(stage)

    async def body(**given: Any) -> str:
        await given["coordinator"].request_cancel(immediate=True)
        return "half"

    await session.coordinator.mount("orchestrator", Loop(body))
    answer = await session.execute("hi")
    return [answer, [note for note in stage.notes if note[0].startswith("cancel")]]


@scenario
async def cleanup_twice(stage: Stage) -> Any:
    """How often a cleanup function runs when cleanup is called twice."""
    session = await up(stage)
    ran: list[int] = []
    session.coordinator.register_cleanup(lambda: ran.append(1))
    await session.cleanup()
    await session.cleanup()
    return [ran, session.initialized, await outcome(lambda: session.execute("hi"))]


@scenario
async def own_loader(stage: Stage) -> Any:
    """Whether a loader that is given is used."""
    asked: list[str] = []

    class Recording(amplifier_core.ModuleLoader):
        async def load(self, module_id: str, *arguments: Any, **options: Any) -> Any:
            asked.append(module_id)
            return await super().load(module_id, *arguments, **options)

    session = AmplifierSession(base_plan(stage), loader=Recording())
    await session.initialize()
    return asked


@risky
async def exit_in_orchestrator(stage: Stage) -> Any:
    """SystemExit raised by an orchestrator."""
    session = await up(stage)

    async def body(**given: Any) -> str:
        raise SystemExit(3)

    await session.coordinator.mount("orchestrator", Loop(body))
    return await outcome(lambda: session.execute("hi"))


@risky
async def exit_in_cleanup(stage: Stage) -> Any:
    """SystemExit raised by a cleanup function."""
    session = await up(stage)

    def leave() -> None:
        raise SystemExit(4)

    session.coordinator.register_cleanup(leave)
    return await outcome(lambda: session.cleanup())
