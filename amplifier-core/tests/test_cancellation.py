"""The token that carries the wish to stop."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import CancellationToken

STATES = ("none", "graceful", "immediate")


def token(state: str = "none") -> CancellationToken:
    """Return a token in that state."""
    made = CancellationToken()
    if state == "graceful":
        made.request_graceful()
    elif state == "immediate":
        made.request_immediate()
    return made


@pytest.mark.parametrize("name", ["is_graceful", "is_immediate", "running_tools"])
def test_the_state_is_read_only(name: str) -> None:
    """Only requests change a token."""
    with pytest.raises(AttributeError):
        setattr(CancellationToken(), name, True)


def test_reset_forgets_the_request_and_the_tools() -> None:
    """After a reset the token is fresh, apart from its children, which keep their state, and callbacks."""
    parent, child = token(), token()
    parent.register_child(child)
    parent.register_tool_start("1", "bash")
    parent.request_immediate()

    parent.reset()
    assert (parent.state, parent.running_tools) == ("none", set())
    assert child.state == "immediate"

    child.reset()
    parent.request_graceful()
    assert child.state == "graceful"


async def test_reset_keeps_the_callbacks() -> None:
    """A callback registered once is there for the next cancellation too."""
    called: list[int] = []
    made = token()
    made.on_cancel(lambda: called.append(1))
    made.reset()
    await made.trigger_callbacks()

    assert called == [1]


def test_running_tools_are_snapshots() -> None:
    """Ids are a set and names a list; neither changes afterwards nor changes the token."""
    made = token()
    made.register_tool_start("1", "bash")
    made.register_tool_start("2", "bash")
    ids, names = made.running_tools, made.running_tool_names
    made.register_tool_complete("1")
    made.register_tool_complete("unknown")

    assert (ids, names) == ({"1", "2"}, ["bash", "bash"])
    assert (made.running_tools, made.running_tool_names) == ({"2"}, ["bash"])
    ids.clear()
    names.clear()
    assert made.running_tools == {"2"}


def test_the_same_call_started_twice_runs_once() -> None:
    """A call id is one call, under the name it was given last."""
    made = token()
    made.register_tool_start("1", "bash")
    made.register_tool_start("1", "grep")

    assert (made.running_tools, made.running_tool_names) == ({"1"}, ["grep"])


@pytest.mark.parametrize("state", STATES)
def test_a_child_takes_the_current_state(state: str) -> None:
    """A child that comes late hears of what was already requested."""
    child = token()
    token(state).register_child(child)

    assert child.state == state


def test_requests_reach_every_generation() -> None:
    """A request goes down the whole tree, once for each, and a more urgent one follows."""
    root, child, grandchild, other = token(), token(), token(), token()
    root.register_child(child)
    root.register_child(other)
    child.register_child(grandchild)

    root.request_graceful()
    assert {made.state for made in (child, grandchild, other)} == {"graceful"}
    root.request_immediate()
    assert {made.state for made in (child, grandchild, other)} == {"immediate"}


def test_an_unregistered_child_hears_nothing() -> None:
    """Unregistering ends the propagation; an unknown child is ignored."""
    parent, child = token(), token()
    parent.register_child(child)
    parent.register_child(child)
    parent.unregister_child(child)
    parent.unregister_child(token())
    parent.request_immediate()

    assert child.state == "none"


def test_tokens_in_a_circle_stop() -> None:
    """Tokens that are each other's children do not send a request round for ever."""
    one, other = token(), token()
    one.register_child(other)
    other.register_child(one)
    one.register_child(one)
    one.request_immediate()

    assert other.state == "immediate"


@pytest.mark.parametrize("child", [None, object(), "token"])
def test_a_child_must_be_a_token(child: Any) -> None:
    """A child that is not a token is refused when it is registered."""
    with pytest.raises(TypeError, match="register_child: child must be a CancellationToken, got"):
        token().register_child(child)


@pytest.mark.parametrize("error", [ValueError("x"), asyncio.CancelledError(), BaseExceptionGroup("g", [OSError()])])
@pytest.mark.parametrize("later", [False, True])
async def test_a_failing_callback_is_skipped(
    error: BaseException, later: bool, caplog: pytest.LogCaptureFixture
) -> None:
    """Its error is logged and the next one runs, also when it raised CancelledError."""
    called: list[int] = []

    async def fail_later() -> None:
        raise error

    def fail() -> None:
        raise error

    made = token()
    made.on_cancel(fail_later if later else fail)
    made.on_cancel(lambda: called.append(1))
    await made.trigger_callbacks()

    assert called == [1]
    assert "fail" in caplog.text


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
async def test_interrupts_are_raised_after_all_ran(fatal: type[BaseException]) -> None:
    """The first interrupt of a callback is raised when every callback has run."""
    called: list[int] = []

    def interrupt() -> None:
        raise fatal("first")

    def interrupt_again() -> None:
        raise SystemExit("second")

    made = token()
    for callback in (interrupt, interrupt_again, lambda: called.append(1)):
        made.on_cancel(callback)
    with pytest.raises(fatal, match="first"):
        await made.trigger_callbacks()

    assert called == [1]


async def test_cancelling_the_caller_propagates_after_all_ran() -> None:
    """A task cancelled while it waits for a callback runs the others and is cancelled."""
    started, called = asyncio.Event(), []

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            called.append("swallowed")

    made = token()
    made.on_cancel(wait)
    made.on_cancel(lambda: called.append("next"))
    triggering = asyncio.create_task(made.trigger_callbacks())
    await started.wait()
    triggering.cancel()

    with pytest.raises(asyncio.CancelledError):
        await triggering
    assert called == ["swallowed", "next"]


async def test_a_callback_that_registers_another_does_not_extend_the_run() -> None:
    """Callbacks that join while others run wait for the next trigger."""
    called: list[str] = []
    made = token()

    def join() -> None:
        called.append("joining")
        made.on_cancel(lambda: called.append("joined"))

    made.on_cancel(join)
    await made.trigger_callbacks()

    assert called == ["joining"]


async def test_a_callback_that_resets_the_token_is_fine() -> None:
    """Callbacks may do anything to the token they hang on."""
    made = token("immediate")
    made.on_cancel(made.reset)
    await made.trigger_callbacks()

    assert made.state == "none"
