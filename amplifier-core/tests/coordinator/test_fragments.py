"""The context fragments of a session."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from amplifier_core import ModuleCoordinator
from amplifier_core.coordinator import get_context, set_context_fragment
from amplifier_core.trace import open_module


class Listening:
    """A coordinator that is the session at hand, and what it announced."""

    def __init__(self) -> None:
        self.kernel = ModuleCoordinator()
        self.announced: list[tuple[str, int]] = []
        self.kernel.hooks.register(
            "context:include", lambda event, data: self.announced.append((data["key"], data["bytes"]))
        )

    def __enter__(self) -> Listening:
        self._entered = open_module(self.kernel, None)
        self._entered.__enter__()
        return self

    def __exit__(self, *_: object) -> None:
        self._entered.__exit__(None, None, None)


async def set_and_wait(key: str, value: Any) -> None:
    """Set a fragment and wait until every handler has heard of it."""
    announcement = set_context_fragment(key, value)
    assert announcement is not None
    await announcement


async def test_a_fragment_is_there_when_it_is_set() -> None:
    """Setting takes effect at once; the announcement tells key and size in UTF-8 bytes."""
    with Listening() as session:
        announcement = set_context_fragment("style", "kürzer")
        assert get_context().fragments == {"style": "kürzer"}
        assert announcement is not None
        await announcement

    assert session.announced == [("style", 7)]


async def test_none_removes_a_fragment() -> None:
    """None takes a fragment away, known or not, and is announced with no bytes."""
    with Listening() as session:
        await set_and_wait("a", "text")
        await set_and_wait("a", None)
        await set_and_wait("b", None)
        assert get_context().fragments == {}

    assert session.announced == [("a", 4), ("a", 0), ("b", 0)]


async def test_reading_gives_a_view_that_cannot_change_anything() -> None:
    """The fragments cannot be assigned, and what is nested in them is a copy."""
    with Listening():
        value = {"list": [1]}
        await set_and_wait("facts", value)
        value["list"].append(2)
        view = get_context().fragments
        with pytest.raises(TypeError):
            view["facts"] = "other"  # type: ignore[index]
        view["facts"]["list"].append(3)

        assert get_context().fragments["facts"] == {"list": [1]}


async def test_the_context_has_the_log() -> None:
    """`get_context().log` writes to the session's log."""
    records: list[dict[str, Any]] = []
    with Listening() as session:
        session.kernel.add_log_sink(records.append)
        get_context().log("INFO", "hello")

    assert records[0]["data"] == {"message": "hello"}


def test_without_a_loop() -> None:
    """Without a running event loop every handler is called before the function returns, async ones too."""
    with Listening() as session:
        session.kernel.hooks.register("context:include", lambda event, data: asyncio.sleep(0), priority=-1)
        assert set_context_fragment("a", "text") is None
        assert session.announced == [("a", 4)]
        assert get_context().fragments == {"a": "text"}
