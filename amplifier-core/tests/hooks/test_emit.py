"""Emitting an event: what handlers see, and what comes back."""

from __future__ import annotations

from datetime import datetime
from decimal import Decimal
from typing import Any

import pytest
from pydantic import BaseModel

from amplifier_core.hooks import HookRegistry


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


async def test_event_must_be_text(hooks: HookRegistry) -> None:
    """An event that is no string is refused, whoever listens."""
    hooks.register("*", lambda event, data: None)
    for event in (None, 5, b"x:y"):
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit(event, {})  # type: ignore[arg-type]
        with pytest.raises(TypeError, match="event must be a string, got "):
            await hooks.emit_and_collect(event, {})  # type: ignore[arg-type]
