"""The cancellation token."""

from __future__ import annotations

import asyncio
from typing import Any

from amplifier_core import CancellationState, CancellationToken

from .base import Stage, outcome, risky, scenario


def facts(token: CancellationToken) -> list[Any]:
    """Describe a token."""
    return [token.state, token.is_cancelled, token.is_graceful, token.is_immediate]


@scenario
async def states(stage: Stage) -> Any:
    """None, graceful, immediate, and back."""
    token: Any = CancellationToken()
    steps: list[Any] = [facts(token)]
    graceful, immediate = token.request_graceful, token.request_immediate
    steps += [[step(), facts(token)] for step in (graceful, graceful, immediate, immediate, graceful)]
    token.reset()
    steps.append(facts(token))
    return [steps, token.request_cancellation(), facts(token)]


@scenario
async def enumeration(stage: Stage) -> Any:
    """The states by name."""
    return [CancellationState.NONE.value, CancellationState.GRACEFUL.value, CancellationState.IMMEDIATE.value]


@scenario
async def running_tools(stage: Stage) -> Any:
    """Tools that run, as snapshots."""
    token = CancellationToken()
    token.register_tool_start("1", "bash")
    token.register_tool_start("2", "read")
    snapshot = token.running_tools
    token.register_tool_complete("1")
    token.register_tool_complete("unknown")
    found = [type(snapshot).__name__, sorted(snapshot), sorted(token.running_tools), token.running_tool_names]
    token.reset()
    return [found, token.running_tools]


@scenario
async def children(stage: Stage) -> Any:
    """A child takes the parent's state and follows it until it is taken off."""
    parent, early, late = CancellationToken(), CancellationToken(), CancellationToken()
    parent.register_child(early)
    parent.request_graceful()
    parent.register_child(late)
    first = [early.state, late.state]
    parent.unregister_child(late)
    parent.request_immediate()
    second = [early.state, late.state]
    parent.reset()
    return [first, second, parent.state, early.state]


@scenario
async def child_does_not_cancel_the_parent(stage: Stage) -> Any:
    """Cancelling goes down only; a more cancelled child stays so."""
    parent, child = CancellationToken(), CancellationToken()
    child.request_immediate()
    parent.register_child(child)
    parent.request_graceful()
    return [parent.state, child.state]


@scenario
async def callbacks(stage: Stage) -> Any:
    """Not called by a request; in order at each trigger; errors passed over."""
    token = CancellationToken()

    async def later() -> None:
        stage.notes.append("async")

    def broken() -> None:
        raise ValueError("oops")

    async def cancelled() -> None:
        raise asyncio.CancelledError

    for callback in (lambda: stage.notes.append("sync"), broken, cancelled, later, lambda: later()):
        token.on_cancel(callback)
    token.request_graceful()
    before = list(stage.notes)
    said = [str(await outcome(token.trigger_callbacks)), str(await outcome(token.trigger_callbacks))]
    return [before, said, stage.notes]


@risky
async def fatal_callbacks(stage: Stage) -> Any:
    """SystemExit is raised after all ran."""
    token = CancellationToken()

    def leave() -> None:
        raise SystemExit(2)

    token.on_cancel(leave)
    token.on_cancel(lambda: stage.notes.append("ran"))
    return [await outcome(token.trigger_callbacks), stage.notes]


@scenario
async def assignments(stage: Stage) -> Any:
    """The state cannot be assigned."""
    token = CancellationToken()
    return [
        str(await outcome(lambda n=name: setattr(token, n, "graceful"))).split(":")[0]
        for name in ("state", "is_cancelled")
    ]
