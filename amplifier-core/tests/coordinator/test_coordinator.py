"""The coordinator: construction, injections, approvals, cleanup and contributions."""

from __future__ import annotations

import asyncio
import logging
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import HookResult, ModuleCoordinator
from amplifier_core.approval import ApprovalTimeoutError


def test_a_misspelt_argument_is_refused() -> None:
    """An unknown keyword is refused, not ignored."""
    with pytest.raises(TypeError, match="aproval_system"):
        ModuleCoordinator(aproval_system=object())


class Context:
    """Keep what is added, at once or later."""

    def __init__(self) -> None:
        self.messages: list[dict[str, Any]] = []

    async def add_message(self, message: dict[str, Any]) -> None:
        self.messages.append(message)


class Display:
    """Note what is shown."""

    def __init__(self) -> None:
        self.shown: list[tuple[Any, ...]] = []

    def show_message(self, *arguments: Any) -> None:
        self.shown.append(arguments)


class Setup:
    """A coordinator with a context and a display."""

    def __init__(self, context: Any = None, **section: Any) -> None:
        owner = SimpleNamespace(session_id="s", parent_id=None, config={"session": section})
        self.display = Display()
        self.kernel = ModuleCoordinator(owner, None, self.display)
        self.context = context or Context()
        self.kernel.mount_points["context"] = self.context

    async def process(self, **fields: Any) -> HookResult:
        result = HookResult(**fields)
        return await self.kernel.process_hook_result(result, "tool:post", "linter")

    @property
    def stored(self) -> list[tuple[str, str]]:
        return [(message["role"], message["content"]) for message in self.context.messages]


async def test_without_a_display_a_message_is_logged(caplog: pytest.LogCaptureFixture) -> None:
    """Without a display the message goes to the debug log, and so does a request to suppress output."""
    setup = Setup()
    setup.kernel.display_system = None
    with caplog.at_level(logging.DEBUG):
        await setup.process(user_message="look here", suppress_output=True)

    assert "look here" in caplog.text
    assert "suppress" in caplog.text
    assert {record.levelno for record in caplog.records} == {logging.DEBUG}


class Approval:
    """Answer every question the same way, at once or later."""

    def __init__(self, answer: Any, *, later: bool = False) -> None:
        self.answer = answer
        self.later = later
        self.asked: list[tuple[Any, ...]] = []

    def request_approval(self, *arguments: Any) -> Any:
        self.asked.append(arguments)
        return self._later() if self.later else self._now()

    def _now(self) -> Any:
        if isinstance(self.answer, BaseException):
            raise self.answer
        return self.answer

    async def _later(self) -> Any:
        await asyncio.sleep(0)
        return self._now()


async def ask(approval: Any, **fields: Any) -> HookResult:
    """Process a result that asks, with that approval system."""
    kernel = ModuleCoordinator(None, approval)
    return await kernel.process_hook_result(HookResult(action="ask_user", **fields), "tool:pre", "gate")


async def test_timeout_is_not_a_refusal() -> None:
    """A timeout is never reported as a refusal by a person."""
    verdict = await ask(Approval(ApprovalTimeoutError()))

    assert verdict.reason is not None
    assert "User denied" not in verdict.reason


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("error", [OSError("gone"), TimeoutError("not ours"), KeyboardInterrupt()])
async def test_other_faults_propagate(error: BaseException, later: bool) -> None:
    """What the approval system raises reaches the caller as it is."""
    with pytest.raises(type(error)):
        await ask(Approval(error, later=later))


FATAL = {"interrupts": KeyboardInterrupt, "exits": SystemExit, "cancels": asyncio.CancelledError}
BEHAVIOURS = ("returns", "raises", "unprintable", *FATAL)


class Silent(Exception):
    """Be false, and fail to say what is wrong."""

    def __bool__(self) -> bool:
        return False

    def __str__(self) -> str:
        raise ValueError("no text")


@given(st.lists(st.tuples(st.sampled_from(BEHAVIOURS), st.sampled_from(["sync", "async", "coroutine"])), max_size=8))
def test_cleanup_always_runs_all(functions: list[tuple[str, str]]) -> None:
    """Every mix of functions runs whole, newest first, exactly once; the first fatal one is raised at the end."""
    ran: list[int] = []

    def act(number: int, behaviour: str) -> None:
        ran.append(number)
        if behaviour in FATAL:
            raise FATAL[behaviour](number)
        if behaviour != "returns":
            raise Silent if behaviour == "unprintable" else ValueError(number)

    def function(number: int, behaviour: str, kind: str) -> Any:
        async def later() -> None:
            await asyncio.sleep(0)
            act(number, behaviour)

        if kind == "sync":
            return lambda: act(number, behaviour)
        return later if kind == "async" else lambda: later()

    async def clean_up() -> BaseException | None:
        kernel = ModuleCoordinator()
        for number, (behaviour, kind) in enumerate(functions):
            kernel.register_cleanup(function(number, behaviour, kind))
        raised = None
        try:
            await kernel.cleanup()
        except BaseException as error:
            raised = error
        await kernel.cleanup()
        return raised

    raised = asyncio.run(clean_up())

    assert ran == list(reversed(range(len(functions))))
    fatal = [number for number in ran if functions[number][0] in FATAL]
    if not fatal:
        assert raised is None
    else:
        assert type(raised) is FATAL[functions[fatal[0]][0]]
        assert raised.args == (fatal[0],)


class Unprintable(Exception):
    """Fail to say what is wrong."""

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    ("error", "text"),
    [
        (ValueError("boom"), "boom"),
        (asyncio.CancelledError("own"), "CancelledError"),
        (Unprintable(), "Unprintable"),
        (BaseExceptionGroup("group", [ValueError("inner")]), "group"),
    ],
)
async def test_a_failing_contributor_is_skipped(
    kernel: ModuleCoordinator, caplog: pytest.LogCaptureFixture, error: BaseException, text: str
) -> None:
    """Its error, a CancelledError included, is logged with its name, and the others contribute."""

    async def fail() -> None:
        raise error

    kernel.register_contributor("c", "first", lambda: 1)
    kernel.register_contributor("c", "bad", fail)
    kernel.register_contributor("c", "last", lambda: 2)

    with caplog.at_level(logging.WARNING):
        assert await kernel.collect_contributions("c") == [1, 2]
    assert "Contributor 'bad' on channel 'c' failed: " in caplog.text
    assert text in caplog.text


async def test_a_contributor_that_raises_cancelled_error_at_once_is_skipped(kernel: ModuleCoordinator) -> None:
    """A CancelledError that a plain function raises is its failure, not a cancellation of the caller."""

    def cancel() -> None:
        raise asyncio.CancelledError

    kernel.register_contributor("c", "bad", cancel)
    kernel.register_contributor("c", "last", lambda: 2)
    assert await kernel.collect_contributions("c") == [2]


@pytest.mark.parametrize("fatal", [KeyboardInterrupt, SystemExit])
async def test_interrupts_of_a_contributor_propagate(kernel: ModuleCoordinator, fatal: type[BaseException]) -> None:
    """Nothing holds back a KeyboardInterrupt or SystemExit."""

    def interrupt() -> None:
        raise fatal

    kernel.register_contributor("c", "bad", interrupt)

    with pytest.raises(fatal):
        await kernel.collect_contributions("c")


@pytest.mark.parametrize("swallow", [False, True])
async def test_cancelling_the_collector_propagates(kernel: ModuleCoordinator, swallow: bool) -> None:
    """The caller's cancellation ends the collecting, even when a contributor keeps it to itself."""
    started, reached = asyncio.Event(), []

    async def wait() -> None:
        started.set()
        try:
            await asyncio.Event().wait()
        except asyncio.CancelledError:
            if not swallow:
                raise

    kernel.register_contributor("c", "waiting", wait)
    kernel.register_contributor("c", "after", lambda: reached.append(1))
    collecting = asyncio.create_task(kernel.collect_contributions("c"))
    await started.wait()
    collecting.cancel()

    with pytest.raises(asyncio.CancelledError):
        await collecting
    assert reached == []


@given(
    st.lists(
        st.tuples(
            st.sampled_from(["one", "two", "three"]),
            st.sampled_from(["sync", "async", "waits", "none", "raises", "cancels"]),
        ),
        max_size=12,
    )
)
def test_contribution_order_is_registration_order(contributors: list[tuple[str, str]]) -> None:
    """Whatever the contributors do, each channel's answers come in the order of registration."""

    def callback(number: int, behaviour: str) -> Any:
        if behaviour == "sync":
            return lambda: number

        async def contribute() -> int | None:
            if behaviour == "waits":
                await asyncio.sleep(0)
            if behaviour == "raises":
                raise ValueError
            if behaviour == "cancels":
                raise asyncio.CancelledError
            return None if behaviour == "none" else number

        return contribute

    async def collect() -> dict[str, list[Any]]:
        kernel = ModuleCoordinator()
        for number, (channel, behaviour) in enumerate(contributors):
            kernel.register_contributor(channel, f"m{number}", callback(number, behaviour))
        return {channel: await kernel.collect_contributions(channel) for channel in ("one", "two", "three")}

    answering = [
        (number, channel)
        for number, (channel, behaviour) in enumerate(contributors)
        if behaviour in ("sync", "async", "waits")
    ]
    assert asyncio.run(collect()) == {
        channel: [number for number, theirs in answering if theirs == channel] for channel in ("one", "two", "three")
    }


async def test_a_failing_display_is_logged_only(caplog: pytest.LogCaptureFixture) -> None:
    """A display that raises changes nothing about the result."""
    setup = Setup()
    setup.kernel.display_system = SimpleNamespace(show_message=lambda *_: 1 / 0)
    result = HookResult(user_message="look")
    with caplog.at_level(logging.ERROR):
        assert await setup.kernel.process_hook_result(result, "e", "h") is result

    assert "ZeroDivisionError" in caplog.text
