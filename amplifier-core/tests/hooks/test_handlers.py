"""What may be a handler, and what it may return."""

from __future__ import annotations

import asyncio
import contextvars
import functools
import logging
from collections.abc import Generator
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult

DENY = HookResult(action="deny", reason="said so")


async def async_function(event: str, data: Any) -> HookResult:
    await asyncio.sleep(0)
    return DENY


def sync_function(event: str, data: Any) -> HookResult:
    return DENY


class Object:
    """Offer every way an object can be called."""

    def __call__(self, event: str, data: Any) -> HookResult:
        return DENY

    def method(self, event: str, data: Any) -> HookResult:
        return DENY

    async def async_method(self, event: str, data: Any) -> HookResult:
        return DENY

    @staticmethod
    def static(event: str, data: Any) -> HookResult:
        return DENY

    @classmethod
    async def of_class(cls, event: str, data: Any) -> HookResult:
        return DENY


class AsyncObject:
    async def __call__(self, event: str, data: Any) -> HookResult:
        await asyncio.sleep(0)
        return DENY


class Awaitable:
    def __await__(self) -> Generator[Any, None, HookResult]:
        yield from asyncio.sleep(0).__await__()
        return DENY


async def with_more(extra: str, event: str, data: Any, *, flag: bool = False) -> HookResult:
    return DENY


@pytest.mark.parametrize(
    "handler",
    [
        async_function,
        sync_function,
        Object(),
        Object().method,
        Object().async_method,
        Object.static,
        Object.of_class,
        AsyncObject(),
        AsyncObject().__call__,
        functools.partial(with_more, "extra", flag=True),
        functools.partial(sync_function),
        lambda event, data: DENY,
        lambda event, data: async_function(event, data),
        lambda event, data: asyncio.ensure_future(async_function(event, data)),
        lambda event, data: Awaitable(),
        lambda *arguments: DENY,
    ],
)
async def test_kinds_of_handlers(hooks: HookRegistry, handler: Any) -> None:
    """Functions, methods, partials and objects, sync or not, are called with event and data; their answer counts."""
    hooks.register("x:y", handler)
    assert (await hooks.emit("x:y", {})).reason == "said so"


async def test_arguments(hooks: HookRegistry) -> None:
    """A handler is called with the event's name and the data, by position."""
    calls: list[tuple[Any, ...]] = []
    hooks.register("x:y", lambda *arguments: calls.append(arguments))
    await hooks.emit("x:y", {"a": 1})
    [(event, data)] = calls
    assert event == "x:y"
    assert data["a"] == 1


@pytest.mark.parametrize("nothing", [None, HookResult(), {}, {"action": "continue"}, {"unknown": "key"}])
async def test_answers_that_mean_continue(hooks: HookRegistry, nothing: Any) -> None:
    """Nothing, an empty dict and a plain result mean: go on."""
    hooks.register("x:y", lambda event, data: nothing)
    result = await hooks.emit("x:y", {"a": 1})
    assert result.action == "continue"
    assert result.data is not None
    assert result.data["a"] == 1


@pytest.mark.parametrize(
    "nonsense",
    [
        *("deny", "", 5, 0, False, True, [], [HookResult()], (), object(), b"x", HookResult),
        *({"action": "allow"}, {"action": 1}, {"action": None}, {"action": "deny", "reason": 5}, {"data": [1]}),
        *({"approval_timeout": "soon"}, {"context_injection": 5}, {"context_injections": {"content": "x"}}),
        # Built without validation, with a value of the wrong type each.
        HookResult.model_construct(action="yes"),  # type: ignore[arg-type]
        HookResult.model_construct(action="modify", data="text"),  # type: ignore[arg-type]
        HookResult.model_construct(action=["deny"]),  # type: ignore[arg-type]
        HookResult.__new__(HookResult),
    ],
)
@pytest.mark.parametrize("later", [False, True])
async def test_nonsense_denies(hooks: HookRegistry, reports: Any, nonsense: Any, later: bool) -> None:
    """An answer that cannot be read denies, with the fixed reason and an error in the log that names the handler."""

    async def async_handler(event: str, data: Any) -> Any:
        await asyncio.sleep(0)
        return nonsense

    hooks.register("x:y", async_handler if later else lambda event, data: nonsense, name="talker")
    hooks.register("x:y", lambda event, data: pytest.fail("a deny stops at once"))
    result = await hooks.emit("x:y", {})
    assert result == HookResult(action="deny", reason="Hook handler returned invalid response")
    [report] = reports.of(logging.ERROR)
    assert report.startswith("Hook handler error for event 'x:y' (handler 'talker'): Hook handler returned invalid ")


class Broken:
    """Fail, with an error of one's choice, at everything the kernel might ask of an answer."""

    def __init__(self, error: BaseException) -> None:
        self.error = error

    def fail(self, *_: Any, **__: Any) -> Any:
        raise self.error

    __str__ = __repr__ = __eq__ = __bool__ = __len__ = __iter__ = model_dump = fail
    __hash__ = object.__hash__


@pytest.mark.parametrize(
    "error",
    [ValueError("x"), RecursionError(), StopIteration()],
)
@pytest.mark.parametrize("place", ["answer", "data", "reason", "key"])
async def test_broken_answers_are_contained(hooks: HookRegistry, error: BaseException, place: str) -> None:
    """Answers whose objects raise at every touch neither get out of emit nor pass as consent."""
    broken = Broken(error)
    answer: Any = {
        "answer": broken,
        "data": {"action": "modify", "data": {"x": broken}},
        "reason": {"action": "deny", "reason": broken},
        "key": {"action": "modify", "data": {broken: 1}},
    }[place]
    hooks.register("x:y", lambda event, data: answer)
    result = await hooks.emit("x:y", {"a": 1})
    if place in ("answer", "reason"):
        assert result.reason == "Hook handler returned invalid response"
    else:
        assert "<unprintable Broken>" in str(result.data)


async def test_strange_models_mean_continue(hooks: HookRegistry) -> None:
    """Anything with model_dump counts as what it dumps; one without an action says continue."""

    class Duck:
        def model_dump(self) -> dict[str, Any]:
            return {"action": "modify", "data": {"from": ("duck",)}}

    hooks.register("x:y", lambda event, data: Duck())
    assert (await hooks.emit("x:y", {})).data == {"from": ["duck"]}


colour: contextvars.ContextVar[str] = contextvars.ContextVar("colour", default="none")


@pytest.mark.parametrize("later", [False, True])
@pytest.mark.parametrize("deadline", [None, 60.0])
@pytest.mark.parametrize("collecting", [False, True])
async def test_contextvars(hooks: HookRegistry, later: bool, deadline: float | None, collecting: bool) -> None:
    """Handlers see the caller's contextvars, in every step; what they set reaches neither the caller nor each other."""
    hooks._timeout = deadline
    seen: list[str] = []

    async def async_handler(event: str, data: Any) -> None:
        seen.append(colour.get())
        colour.set("mine")
        await asyncio.sleep(0)
        seen.append(colour.get())
        await asyncio.get_running_loop().run_in_executor(None, lambda: None)
        seen.append(colour.get())

    def sync_handler(event: str, data: Any) -> None:
        seen.append(colour.get())
        colour.set("mine")

    handler = async_handler if later else sync_handler
    hooks.register("x:y", handler)
    hooks.register("x:y", handler)
    token = colour.set("caller")
    try:
        await (hooks.emit_and_collect("x:y", {}) if collecting else hooks.emit("x:y", {}))
        assert colour.get() == "caller"
    finally:
        colour.reset(token)
    assert seen == (["caller", "mine", "mine"] * 2 if later else ["caller"] * 2)


async def test_tasks_started_by_a_handler_inherit_its_context(hooks: HookRegistry) -> None:
    """A task that a handler starts sees the handler's contextvars, and runs on the caller's loop."""
    seen: list[Any] = []

    async def child() -> None:
        seen.append((colour.get(), asyncio.get_running_loop()))

    async def handler(event: str, data: Any) -> None:
        colour.set("handler")
        await asyncio.create_task(child())

    hooks.register("x:y", handler)
    await hooks.emit("x:y", {})
    assert seen == [("handler", asyncio.get_running_loop())]


async def test_handlers_run_in_the_callers_task(hooks: HookRegistry) -> None:
    """No task is made per handler: the handler's current task is the emitter's."""
    seen: list[Any] = []

    async def handler(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        seen.append(asyncio.current_task())

    hooks.register("x:y", handler)
    await hooks.emit("x:y", {})
    assert seen == [asyncio.current_task()]
