"""One request_id for the events of one model call."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import Iterator
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.correlation import current_request_id, new_request_id, reset_request_id, resolve_request_id
from amplifier_core.hooks import HookRegistry

TERMINAL = ["llm:response", "provider:error"]
INTERIM = ["provider:retry", "provider:throttle"]


@pytest.fixture(autouse=True)
def closed() -> Iterator[None]:
    """Start and end every test without an open call."""
    reset_request_id()
    yield
    reset_request_id()


def test_new_ids_are_fresh_and_open_nothing() -> None:
    """An id by itself is a uuid4 and opens no call."""
    first, second = new_request_id(), new_request_id()
    assert first != second
    assert uuid.UUID(first).version == 4
    assert current_request_id() is None


def test_request_opens_a_call() -> None:
    """A request adopts the id it was given, else a fresh one, and the call is open."""
    assert resolve_request_id("llm:request", "mine") == current_request_id() == "mine"
    fresh = resolve_request_id("llm:request")
    assert fresh == current_request_id()
    assert uuid.UUID(fresh).version == 4


@pytest.mark.parametrize("event", TERMINAL)
def test_terminal_closes_the_call(event: str) -> None:
    """A terminal event carries its own id, else the open one, else none, and afterwards no call is open."""
    resolve_request_id("llm:request", "open")
    assert resolve_request_id(event) == "open"
    assert current_request_id() is None
    assert resolve_request_id(event) is None
    resolve_request_id("llm:request", "open")
    assert resolve_request_id(event, "own") == "own"
    assert current_request_id() is None


@pytest.mark.parametrize("event", INTERIM)
def test_interim_keeps_the_call_open(event: str) -> None:
    """An interim event carries its own id and opens that call, else the open one, else none."""
    assert resolve_request_id(event) is None
    resolve_request_id("llm:request", "open")
    assert resolve_request_id(event) == current_request_id() == "open"
    assert resolve_request_id(event, "own") == current_request_id() == "own"


@pytest.mark.parametrize("event", ["tool:pre", "made:up"])
def test_other_events_are_untouched(event: str) -> None:
    """Events of no call get no id and change nothing."""
    resolve_request_id("llm:request", "open")
    assert resolve_request_id(event) is None
    assert resolve_request_id(event, "own") is None
    assert current_request_id() == "open"


def test_reset_closes_without_an_event() -> None:
    """Resetting closes the call; doing it twice is fine."""
    resolve_request_id("llm:request")
    reset_request_id()
    reset_request_id()
    assert current_request_id() is None


@pytest.mark.parametrize("listening", [True, False])
async def test_emit_stamps_the_id(listening: bool) -> None:
    """Emit puts the id on the events of a call, heard or not, and leaves the caller's data alone."""
    hooks = HookRegistry()
    seen: list[Any] = []
    if listening:
        hooks.register("*", lambda event, data: seen.append(data))
    payload = {"model": "m"}
    ids = []
    for event in ("llm:request", "provider:retry", "provider:throttle", "llm:response"):
        result = await hooks.emit(event, payload)
        assert result.data is not None
        ids.append(result.data["request_id"])
    assert len(set(ids)) == 1
    assert current_request_id() is None
    after = await hooks.emit("llm:response", payload)
    assert after.data is not None
    assert "request_id" not in after.data
    assert payload == {"model": "m"}
    if listening:
        assert [data.get("request_id") for data in seen] == [*ids, None]


async def test_emit_adopts_an_explicit_id() -> None:
    """An id in the data is kept and becomes that of the call, also over a default field."""
    hooks = HookRegistry()
    hooks.set_default_fields(request_id="default")
    heard: list[str] = []
    hooks.register("llm:request", lambda event, data: heard.append(data["request_id"]))
    await hooks.emit("llm:request", {"request_id": "mine"})
    assert heard == ["mine"]
    assert current_request_id() == "mine"
    await hooks.emit("llm:request", {})
    assert heard[1] == current_request_id() != "default"


async def test_collect_does_not_correlate() -> None:
    """Collecting answers stamps nothing and opens nothing."""
    hooks = HookRegistry()
    seen: list[Any] = []
    hooks.register("llm:request", lambda event, data: seen.append(data))
    await hooks.emit_and_collect("llm:request", {"a": 1})
    assert seen == [{"a": 1}]
    assert current_request_id() is None


async def test_payload_without_fields_opens_nothing() -> None:
    """Data that is no dict has no place for an id."""
    await HookRegistry().emit("llm:request", None)
    assert current_request_id() is None


async def test_handlers_see_the_open_call_but_cannot_change_it() -> None:
    """A handler may ask for the id; what it opens or closes stays its own."""
    hooks = HookRegistry()
    seen: list[Any] = []

    async def meddler(event: str, data: Any) -> None:
        seen.append(current_request_id())
        reset_request_id()
        await hooks.emit("llm:request", {"request_id": "other"}) if event == "provider:retry" else None

    hooks.register("provider:retry", meddler)
    hooks.register("llm:request", meddler)
    await hooks.emit("llm:request", {"request_id": "mine"})
    await hooks.emit("provider:retry", {})
    assert seen == ["mine", "mine", "other"]
    assert current_request_id() == "mine"


@settings(suppress_health_check=[HealthCheck.too_slow])
@given(st.lists(st.lists(st.sampled_from(["llm:request", *TERMINAL, *INTERIM]), max_size=6), min_size=2, max_size=5))
def test_ids_never_leak_between_tasks(scripts: list[list[str]]) -> None:
    """Parallel tasks each see their own calls only, however their events interleave."""
    hooks = HookRegistry()

    async def waiting(event: str, data: Any) -> None:
        await asyncio.sleep(0)

    hooks.register("*", waiting)

    async def play(script: list[str]) -> set[str]:
        mine: set[str] = set()
        opened: str | None = None
        for event in script:
            result = await hooks.emit(event, {})
            assert result.data is not None
            stamped: Any = result.data.get("request_id")
            if event == "llm:request":
                opened = stamped
                mine.add(stamped)
            else:
                assert stamped == opened
                opened = None if event in TERMINAL else opened
            assert current_request_id() == opened
        return mine

    async def main() -> list[set[str]]:
        return await asyncio.gather(*(asyncio.create_task(play(script)) for script in scripts))

    ids = asyncio.run(main())
    assert sum(len(mine) for mine in ids) == len(set().union(*ids))
