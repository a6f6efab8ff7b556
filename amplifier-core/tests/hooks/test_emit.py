"""Emitting an event: what handlers see, and what comes back."""

from __future__ import annotations

import asyncio
import logging
import uuid
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from amplifier_core.hooks import HookRegistry
from amplifier_core.models import HookResult


class Payload(BaseModel):
    """A payload that is a model."""

    number: int = 1
    when: datetime = datetime(2024, 1, 1, 12)


async def seen_by_handler(hooks: HookRegistry, data: Any) -> Any:
    """Emit to one handler and return what it saw, without the timestamp."""
    seen: list[Any] = []
    remove = hooks.register("x:y", lambda event, received: seen.append(received))
    await hooks.emit("x:y", data)
    remove()
    if isinstance(seen[0], dict):
        del seen[0]["timestamp"]
    return seen[0]


async def test_no_handlers(hooks: HookRegistry) -> None:
    """An event nobody hears comes back as it was given: no defaults, no timestamp, nothing shared."""
    hooks.set_default_fields(session_id="s")
    data = {"a": [1]}
    result = await hooks.emit("x:y", data)
    assert result == HookResult(action="continue", data={"a": [1]})
    assert result.data is not None
    result.data["a"].append(2)
    assert data == {"a": [1]}


async def test_handlers_of_other_events_do_not_count(hooks: HookRegistry) -> None:
    """Event names are compared whole: no prefix, no pattern, no case folding."""
    for event in ("x:yy", "x", "x:", "X:Y", "x:*", " x:y"):
        hooks.register(event, lambda event, data: pytest.fail("not my event"))
    assert (await hooks.emit("x:y", {"a": 1})).data == {"a": 1}


async def test_defaults_and_timestamp(hooks: HookRegistry) -> None:
    """Handlers see defaults overlaid by the data, and a timestamp of now that no caller can supply."""
    hooks.set_default_fields(session_id="s", parent_id=None, timestamp="default")
    seen: list[Any] = []
    hooks.register("x:y", lambda event, data: seen.append(data))
    before = datetime.now(UTC) - timedelta(milliseconds=1)
    result = await hooks.emit("x:y", {"a": 1, "parent_id": "p", "timestamp": "mine"})
    assert seen[0] == result.data
    stamp = seen[0].pop("timestamp")
    assert seen[0] == {"session_id": "s", "parent_id": "p", "a": 1}
    assert stamp.endswith("+00:00")
    assert before <= datetime.fromisoformat(stamp) <= datetime.now(UTC)


async def test_timestamp_is_fresh_per_emit(hooks: HookRegistry) -> None:
    """Every emit states its own time, and all its handlers the same one."""
    seen: list[str] = []
    for _ in range(2):
        hooks.register("x:y", lambda event, data: seen.append(data["timestamp"]))
    await hooks.emit("x:y", {})
    await asyncio.sleep(0.001)
    await hooks.emit("x:y", {})
    assert seen[0] == seen[1] < seen[2] == seen[3]


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        ({"a": (1, {"b": (2,)})}, {"a": [1, {"b": [2]}]}),
        ({1: 1, None: 2, 2.5: 3, False: 4}, {"1": 1, "null": 2, "2.5": 3, "false": 4}),
        ({"d": Decimal("1.23"), "t": datetime(2024, 1, 1, 12)}, {"d": "1.23", "t": "2024-01-01 12:00:00"}),
        ({"m": Payload()}, {"m": "number=1 when=datetime.datetime(2024, 1, 1, 12, 0)"}),
        ({"n": float("nan"), "s": "\ud800"}, {"n": "nan", "s": "\ufffd"}),
        ({(1, 2): 3}, {"[1, 2]": 3}),
        (Payload(), {"number": 1, "when": "2024-01-01T12:00:00"}),
    ],
)
async def test_json_hygiene(hooks: HookRegistry, data: Any, seen: Any) -> None:
    """Handlers see JSON: lists, string keys, and text for everything JSON has no word for."""
    assert await seen_by_handler(hooks, data) == seen


async def test_model_without_json_mode(hooks: HookRegistry) -> None:
    """What has no JSON mode is dumped plainly and cleaned."""

    class Old:
        def model_dump(self) -> dict[str, Any]:
            return {"pair": (1, 2)}

    assert await seen_by_handler(hooks, Old()) == {"pair": [1, 2]}


async def test_defaults_are_cleaned(hooks: HookRegistry) -> None:
    """Default fields pass the same hygiene."""
    hooks.set_default_fields(cost=Decimal("1.5"))
    assert await seen_by_handler(hooks, {}) == {"cost": "1.5"}


@pytest.mark.parametrize(
    ("data", "seen"),
    [
        (None, None),
        ("text", "text"),
        (5, 5),
        ([1, (2,)], [1, [2]]),
        ((1, 2), [1, 2]),
        (b"x", "b'x'"),
        ({1}, "{1}"),
    ],
)
async def test_data_that_is_no_dict(hooks: HookRegistry, data: Any, seen: Any) -> None:
    """Other data reaches handlers as JSON of its own, without fields; the data that comes back is empty."""
    hooks.set_default_fields(session_id="s")
    assert (await hooks.emit("x:y", data)).data == {}
    received: list[Any] = []
    for _ in range(2):
        hooks.register("x:y", lambda event, data: received.append(data))
    result = await hooks.emit("x:y", data)
    assert result == HookResult(action="continue", data={})
    assert received == [seen, seen]
    if isinstance(seen, list):
        assert received[0] is not received[1]
        assert received[0] is not data


async def test_event_must_be_text(hooks: HookRegistry) -> None:
    """An event that is no string is refused, whoever listens."""
    hooks.register("*", lambda event, data: None)
    for event in (None, 5, b"x:y"):
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit(event, {})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit_and_collect(event, {})  # type: ignore[arg-type]


async def test_raising_handler_is_reported(hooks: HookRegistry, reports: Any) -> None:
    """A handler that raises is reported with event, name, words and traceback, and the next one runs."""
    ran: list[str] = []

    def broken(event: str, data: Any) -> None:
        raise ValueError("it broke")

    hooks.register("x:y", broken, name="breaker")
    hooks.register("x:y", lambda event, data: ran.append("next"))
    assert (await hooks.emit("x:y", {})).action == "continue"
    assert ran == ["next"]
    assert reports.of(logging.ERROR) == ["Hook handler error for event 'x:y' (handler 'breaker'): it broke"]
    assert reports[0].exc_info[1].args == ("it broke",)


async def test_registering_during_emit(hooks: HookRegistry) -> None:
    """Who registers during an emit, for the event or for all, joins the next one."""
    ran: list[str] = []

    def recruiter(event: str, data: Any) -> None:
        ran.append("recruiter")
        hooks.register("x:y", lambda event, data: ran.append("recruit"), name=str(uuid.uuid4()))
        hooks.register("*", lambda event, data: ran.append("observer"))

    hooks.register("x:y", recruiter)
    await hooks.emit("x:y", {})
    assert ran == ["recruiter"]
    ran.clear()
    await hooks.emit("x:y", {})
    assert ran == ["recruiter", "recruit", "observer"]


async def test_handlers_run_one_after_another(hooks: HookRegistry) -> None:
    """A slow handler holds the next one back."""
    ran: list[str] = []

    async def slow(event: str, data: Any) -> None:
        ran.append("start")
        await asyncio.sleep(0.001)
        ran.append("end")

    hooks.register("x:y", slow)
    hooks.register("x:y", slow)
    await hooks.emit("x:y", {})
    assert ran == ["start", "end"] * 2
