"""The coordinator: capabilities, contributions, cleanup, turn and cancellation."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import ModuleCoordinator

from .base import Stage, outcome, risky, scenario


@scenario
async def capabilities(stage: Stage) -> Any:
    """Any value under any name, overwritten, None when absent."""
    hub = ModuleCoordinator()
    hub.register_capability("a", 1)
    hub.register_capability("a", {"live": []})
    hub.get_capability("a")["live"].append(1)
    hub.register_capability("none", None)
    return [
        hub.get_capability("a"),
        hub.get_capability("none"),
        hub.get_capability("absent"),
        hub.to_dict()["capabilities"],
    ]


@scenario
async def odd_capability_names(stage: Stage) -> Any:
    """Names that are not text."""
    hub: Any = ModuleCoordinator()
    return [
        str(await outcome(lambda: hub.register_capability(5, 1))).split(":")[0],
        await outcome(lambda: hub.get_capability("")),
    ]


@scenario
async def contributions(stage: Stage) -> Any:
    """In order of registration; sync and async; None left out, falsy kept."""
    hub = ModuleCoordinator()

    async def later(value: Any) -> Any:
        await asyncio.sleep(0)
        return value

    async def direct() -> Any:
        return {"c": (1, 2)}

    callbacks: list[Any] = [
        lambda: ["a"],
        direct,
        lambda: later("async"),
        lambda: None,
        lambda: 0,
        lambda: "",
        list,
        lambda: False,
    ]
    for index, callback in enumerate(callbacks):
        hub.register_contributor("x.y", f"c{index}", callback)
    return await hub.collect_contributions("x.y")


@scenario
async def failing_contributors(stage: Stage) -> Any:
    """One that raises is logged and left out, and so is one that raises CancelledError."""
    hub = ModuleCoordinator()

    def broken() -> Any:
        raise ValueError("oops")

    async def cancelled() -> Any:
        raise asyncio.CancelledError

    hub.register_contributor("x.y", "broken", broken)
    hub.register_contributor("x.y", "cancelled", cancelled)
    hub.register_contributor("x.y", "fine", lambda: 1)
    return [await outcome(lambda: hub.collect_contributions("x.y")), stage.warnings()[:1]]


@scenario
async def contributor_that_cannot_be_called(stage: Stage) -> Any:
    """It fails when collected."""
    hub: Any = ModuleCoordinator()
    registered = await outcome(lambda: hub.register_contributor("x.y", "text", "text"))
    hub.register_contributor("x.y", "fine", lambda: 1)
    return [registered, await outcome(lambda: hub.collect_contributions("x.y"))]


@scenario
async def channels(stage: Stage) -> Any:
    """The channels as they are, duplicates included; an unknown one is empty."""
    hub: Any = ModuleCoordinator()
    hub.register_contributor("a.b", "n", len)
    hub.register_contributor("a.b", "n", len)
    return [hub.channels, await hub.collect_contributions("no.where")]


@scenario
async def cleanup(stage: Stage) -> Any:
    """In reverse, sync and async; errors logged and passed over."""
    hub = ModuleCoordinator()
    ran: list[str] = []

    async def asynchronous() -> None:
        ran.append("async")

    def broken() -> None:
        raise ValueError("oops")

    for function in (lambda: ran.append("first"), asynchronous, broken, None, "text", lambda: ran.append("last")):
        hub.register_cleanup(function)
    count = len(hub._cleanup_fns)
    return [count, await outcome(hub.cleanup), ran, stage.warnings()]


@scenario
async def cleanup_twice(stage: Stage) -> Any:
    """How often a function runs when cleanup is called twice."""
    hub = ModuleCoordinator()
    ran: list[int] = []
    hub.register_cleanup(lambda: ran.append(1))
    await hub.cleanup()
    await hub.cleanup()
    return [ran, len(hub._cleanup_fns)]


@risky
async def fatal_cleanup(stage: Stage) -> Any:
    """A fatal exception is raised after all have run: the first one to happen."""
    hub = ModuleCoordinator()
    ran: list[str] = []

    def interrupt() -> None:
        raise KeyboardInterrupt("second")

    def leave() -> None:
        raise SystemExit("first")

    hub.register_cleanup(lambda: ran.append("last"))
    hub.register_cleanup(interrupt)
    hub.register_cleanup(leave)
    return [await outcome(hub.cleanup), ran]


@scenario
async def cancelled_cleanup(stage: Stage) -> Any:
    """A cleanup function that raises CancelledError."""
    hub = ModuleCoordinator()
    ran: list[str] = []

    async def cancelled() -> None:
        raise asyncio.CancelledError

    hub.register_cleanup(lambda: ran.append("last"))
    hub.register_cleanup(cancelled)
    return [str(await outcome(hub.cleanup)).split(":")[0], ran]


@scenario
async def cancel_requests(stage: Stage) -> Any:
    """A request turns the token and emits nothing."""
    hub = ModuleCoordinator()
    for event in ("cancel:requested", "cancel:completed"):
        hub.hooks.register(event, lambda event, data: stage.notes.append(event))
    states = [hub.cancellation.state]
    await hub.request_cancel()
    states.append(hub.cancellation.state)
    await hub.request_cancel(immediate=True)
    states.append(hub.cancellation.state)
    await hub.request_cancel(False)
    states.append(hub.cancellation.state)
    hub.reset_turn()
    return [states, hub.cancellation.state, stage.notes, hub.cancellation is hub.cancellation]


@scenario
async def reset_turn(stage: Stage) -> Any:
    """The counter of injected tokens goes to nought."""
    hub = ModuleCoordinator()
    hub._current_turn_injections = 7
    hub.reset_turn()
    return hub._current_turn_injections
