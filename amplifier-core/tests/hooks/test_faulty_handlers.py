"""Handlers that do their worst: nobody else notices."""

from __future__ import annotations

import asyncio
import json
import logging
import sys
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult


class Odd(BaseException):
    """An error that is no Exception."""


class Speechless(Exception):
    """An error that cannot say what it is."""

    def __str__(self) -> str:
        raise ValueError("no words")

    __repr__ = __str__


class Unreadable(Exception):
    """An error whose text is no text."""

    def __str__(self) -> Any:
        return 5


def group() -> BaseException:
    return BaseExceptionGroup("several", [ValueError("one"), Odd("two")])


ERRORS: list[Callable[[], BaseException]] = [
    *(ValueError, Odd, Speechless, Unreadable, group, RecursionError, MemoryError, StopAsyncIteration),
    *(asyncio.CancelledError, NotImplementedError, AssertionError, asyncio.InvalidStateError),
    lambda: UnicodeDecodeError("utf-8", b"\xff", 0, 1, "bad"),
]


@pytest.mark.parametrize("error", ERRORS)
@pytest.mark.parametrize("manner", ["sync", "async", "after a wait"])
async def test_whatever_is_raised(hooks: HookRegistry, reports: Any, error: Any, manner: str) -> None:
    """Any error of a handler, whatever it derives from, is logged once and counts as continue."""
    ran: list[str] = []

    def sync(event: str, data: Any) -> None:
        raise error()

    async def waiting(event: str, data: Any) -> None:
        await asyncio.sleep(0)
        raise error()

    async def at_once(event: str, data: Any) -> None:
        raise error()

    hooks.register("x:y", {"sync": sync, "async": at_once, "after a wait": waiting}[manner], name="faulty")
    hooks.register("x:y", lambda event, data: ran.append("next"))
    result = await hooks.emit("x:y", {"a": 1})
    assert result.action == "continue"
    assert ran == ["next"]
    [report] = reports.of(logging.ERROR)
    assert report.startswith("Hook handler error for event 'x:y' (handler 'faulty'): ")


async def test_error_that_no_file_could_take(hooks: HookRegistry, monkeypatch: pytest.MonkeyPatch) -> None:
    """An error whose text is not fit for UTF-8 still makes a reason that is."""
    monkeypatch.setattr(logging.getLogger("amplifier_core.hooks"), "disabled", True)  # its traceback is not ours to fix

    def broken(event: str, data: Any) -> None:
        raise ValueError("file \ud800")

    hooks.register("x:y", broken, name="gate", on_error="deny")
    assert (await hooks.emit("x:y", {})).reason == "Gate 'gate' failed: file \ufffd"


async def test_stop_iteration(hooks: HookRegistry, reports: Any) -> None:
    """A handler that raises StopIteration does not end the emit."""
    ran: list[str] = []

    def stops(event: str, data: Any) -> None:
        raise StopIteration("handler")

    hooks.register("x:y", stops)
    hooks.register("x:y", lambda event, data: ran.append("next"))
    assert (await hooks.emit("x:y", {})).action == "continue"
    assert ran == ["next"]
    assert len(reports) == 1


@pytest.mark.parametrize("handler", [None, 5, "name", object(), [], lambda: None, lambda event: None, HookRegistry])
async def test_what_cannot_be_called(hooks: HookRegistry, reports: Any, handler: Any) -> None:
    """Handlers that cannot be called, or not with two arguments, fail when called, alone."""
    ran: list[str] = []
    hooks.register("x:y", handler, name="wrong")
    hooks.register("x:y", lambda event, data: ran.append("next"))
    assert (await hooks.emit("x:y", {})).action == "continue"
    assert ran == ["next"]
    assert "(handler 'wrong')" in reports.texts[0]


async def test_used_up_coroutine(hooks: HookRegistry, reports: Any) -> None:
    """A handler that hands out the same coroutine twice fails the second time."""

    async def answer() -> HookResult:
        return HookResult(action="deny", reason="once")

    coroutine = answer()
    hooks.register("x:y", lambda event, data: coroutine)
    assert (await hooks.emit("x:y", {})).reason == "once"
    assert (await hooks.emit("x:y", {})).action == "continue"
    assert "cannot reuse already awaited coroutine" in reports.texts[0]


async def test_awaiting_what_is_no_future(hooks: HookRegistry, reports: Any) -> None:
    """A handler whose awaitable yields something asyncio does not know fails, alone."""

    class Strange:
        def __await__(self) -> Any:
            yield 42

    hooks.register("x:y", lambda event, data: Strange())
    hooks.register("x:y", lambda event, data: HookResult(action="deny", reason="next"))
    assert (await hooks.emit("x:y", {})).reason == "next"
    assert "42" in reports.texts[0]


async def test_endless_recursion(hooks: HookRegistry, reports: Any) -> None:
    """A handler that emits its own event for ever is stopped by the stack, and the outermost emit still answers."""
    depth = 0

    async def recursive(event: str, data: Any) -> None:
        nonlocal depth
        depth += 1
        await hooks.emit("x:y", {"depth": depth, "nested": {"list": [depth]}})

    hooks.register("x:y", recursive)
    hooks.register("z:z", lambda event, data: HookResult(action="deny", reason="still works"))
    result = await hooks.emit("x:y", {"a": 1})
    assert result.action == "continue"
    assert depth > 10
    assert any("recursion" in text for text in reports.texts)
    assert (await hooks.emit("z:z", {})).reason == "still works"


async def test_recursion_of_its_own(hooks: HookRegistry, reports: Any) -> None:
    """A handler that recurses into itself fails like any other."""

    def deep(event: str, data: Any) -> Any:
        return deep(event, data)

    hooks.register("x:y", deep)
    assert (await hooks.emit("x:y", {"a": 1})).action == "continue"
    assert "recursion" in reports.texts[0]


def _cycle() -> dict[str, Any]:
    loop: dict[str, Any] = {"name": "loop"}
    loop["self"] = loop
    loop["list"] = [loop, [loop]]
    return loop


def _deep() -> dict[str, Any]:
    deep: dict[str, Any] = {}
    for _ in range(sys.getrecursionlimit() * 3):
        deep = {"d": deep}
    return deep


LIES: dict[str, Callable[[], dict[str, Any]]] = {
    "cycle": _cycle,
    "deep": _deep,
    "nan": lambda: {"n": float("nan"), "i": [float("inf"), -float("inf")]},
    "surrogate": lambda: {"\ud800": "\udfff", "l": ["a\ud9ffb"]},
    "objects": lambda: {"o": object(), "s": {1, 2}, "b": b"\xff", "f": print, "t": (1, (2,)), "e": Odd()},
    "keys": lambda: {1: 1, None: 2, 2.5: 3, False: 4, (1, 2): 5, b"k": 6, frozenset(): 7},  # type: ignore[dict-item]
    "huge number": lambda: {"n": 10**6000, "l": [-(10**6000)]},
    "huge": lambda: {
        "text": "x" * 2_000_000,
        "list": list(range(20_000)),
        "dict": {str(n): [n] for n in range(5_000)},
    },
}


@pytest.mark.parametrize("lie", LIES)
async def test_lies_in_the_payload(hooks: HookRegistry, lie: str) -> None:
    """Whatever a module puts into an event, handlers and caller get JSON."""
    seen: list[Any] = []
    for _ in range(2):
        hooks.register("x:y", lambda event, data: seen.append(data))
    result = await hooks.emit("x:y", LIES[lie]())
    for data in (*seen, result.data):
        json.dumps(data, allow_nan=False).encode()
    assert seen[0] == seen[1] == result.data
    json.dumps((await hooks.emit("un:heard", LIES[lie]())).data, allow_nan=False).encode()


@pytest.mark.parametrize("lie", LIES)
@pytest.mark.parametrize("action", ["modify", "deny", "ask_user", "inject_context"])
@pytest.mark.parametrize("as_dict", [True, False])
async def test_lies_in_the_answer(hooks: HookRegistry, lie: str, action: Any, as_dict: bool) -> None:
    """Whatever a handler puts into the data of its answer, the next handler and the caller get JSON, or a denial."""
    fields = {"action": action, "data": LIES[lie](), "context_injection": "text"}
    answer = fields if as_dict else HookResult.model_construct(**fields)
    hooks.register("x:y", lambda event, data: answer)
    hooks.register("x:y", lambda event, data: json.dumps(data, allow_nan=False).encode() and None)
    result = await hooks.emit("x:y", {})
    assert result.action in (("continue" if action == "modify" else action), "deny")
    json.dumps(result.model_dump(), allow_nan=False).encode()
    for answered in await hooks.emit_and_collect("x:y", {}):
        json.dumps(answered, allow_nan=False).encode()


@pytest.mark.parametrize("lie", LIES)
async def test_lies_in_the_defaults(hooks: HookRegistry, lie: str) -> None:
    """Default fields are no way around the hygiene either."""
    hooks.set_default_fields(lie=LIES[lie]())
    hooks.register("x:y", lambda event, data: None)
    data = (await hooks.emit("x:y", {})).data
    assert json.loads(json.dumps(data, allow_nan=False).encode()) == data


async def test_shared_handler_state_is_its_own_business(hooks: HookRegistry) -> None:
    """A handler may register, remove, emit and change the defaults while an emit runs: that emit is not disturbed."""
    ran: list[str] = []

    async def meddler(event: str, data: Any) -> None:
        ran.append("meddler")
        hooks.set_default_fields(meddled=True)
        for name in ("victim", "meddler"):
            hooks.unregister(name)
        hooks.register("x:y", lambda event, data: ran.append("new"), priority=-10)
        await hooks.emit("inner:event", {})
        await asyncio.sleep(0)

    hooks.register("x:y", meddler, name="meddler")
    hooks.register("x:y", lambda event, data: ran.append(f"victim {'meddled' in data}"), name="victim")
    await hooks.emit("x:y", {})
    assert ran == ["meddler", "victim False"]
    ran.clear()
    result = await hooks.emit("x:y", {})
    assert ran == ["new"]
    assert result.data is not None
    assert result.data["meddled"] is True
