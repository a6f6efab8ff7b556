"""emit(): what becomes of values that are not JSON."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal
from enum import Enum
from pathlib import PurePosixPath
from typing import Any

from amplifier_core import HookRegistry, HookResult, ToolResult, Usage

from .base import Stage, outcome, risky, scenario


class Colour(Enum):
    """An enumeration."""

    RED = "red"


class Opaque:
    """An object with its own text."""

    def __str__(self) -> str:
        return "opaque!"


async def seen(data: Any, **defaults: Any) -> Any:
    """Emit `data` and return what the handler saw and what came back."""
    registry = HookRegistry()
    registry.set_default_fields(**defaults)
    views: list[Any] = []

    async def handler(event: str, data: Any) -> None:
        views.append(data)

    registry.register("x:y", handler)
    result = await outcome(lambda: registry.emit("x:y", data))
    return [views, getattr(result, "data", result)]


@scenario
async def values(stage: Stage) -> Any:
    """Decimals, dates, tuples, sets, bytes, enums, paths and objects."""
    return await seen(
        {
            "decimal": Decimal("1.23"),
            "datetime": datetime(2024, 1, 1, 12),
            "date": date(2024, 1, 1),
            "tuple": (1, (2, 3)),
            "set": {1},
            "bytes": b"ab",
            "enum": Colour.RED,
            "path": PurePosixPath("/a/b"),
            "object": Opaque(),
            "class": Colour,
            "huge": 2**70,
            "float": 1e300,
            "text": "é\u0000\n",
        }
    )


@scenario
async def keys(stage: Stage) -> Any:
    """Keys that are no text."""
    return await seen({"d": {7: "int", None: "none", True: "bool", 2.5: "float"}})


@scenario
async def tuple_keys(stage: Stage) -> Any:
    """Keys that are tuples."""
    return await seen({"d": {(1, 2): "tuple"}})


@scenario
async def models_inside(stage: Stage) -> Any:
    """Models inside the data become text."""
    return await seen(
        {"result": ToolResult(output="x"), "list": [Usage(input_tokens=1, output_tokens=2, total_tokens=3)]}
    )


@scenario
async def model_as_data(stage: Stage) -> Any:
    """A model given as the data itself."""
    return await seen(ToolResult(output="x"))


@scenario
async def not_a_number(stage: Stage) -> Any:
    """NaN and infinity."""
    return [await seen({"n": float("nan")}), await seen({"n": float("inf")})]


@scenario
async def lone_surrogate(stage: Stage) -> Any:
    """A text with half a surrogate pair."""
    return await seen({"t": "a\ud800b"})


@scenario
async def data_that_is_no_dict(stage: Stage) -> Any:
    """None, a text, a list, a number."""
    return [await seen(None), await seen("text"), await seen([1, (2,)]), await seen(7)]


@scenario
async def list_data_is_isolated(stage: Stage) -> Any:
    """A handler's edits of data that is a list reach neither the next handler nor the caller."""
    registry = HookRegistry()
    registry.register("x:y", lambda event, data: data.append("edited"), name="vandal")
    registry.register("x:y", lambda event, data: stage.notes.append(data), priority=5)
    given = [1, [2]]
    await registry.emit("x:y", given)
    return [given, stage.notes]


@scenario
async def odd_defaults(stage: Stage) -> Any:
    """Default fields are cleaned too."""
    return await seen({}, when=date(2024, 1, 1), pair=(1, 2))


@scenario
async def odd_results(stage: Stage) -> Any:
    """The data of a handler's result is cleaned too."""
    registry = HookRegistry()
    answer = HookResult(action="modify", data={"pair": (1, 2), "decimal": Decimal("1.5")})
    registry.register("x:y", lambda event, data: answer)
    registry.register("x:y", lambda event, data: stage.notes.append(data), priority=5)
    return [(await registry.emit("x:y", {})).data, stage.notes]


@risky
async def recursive(stage: Stage) -> Any:
    """Data that contains itself."""
    data: dict[str, Any] = {"a": 1}
    data["self"] = data
    got = await seen(data)
    return "refused" if isinstance(got[1], str) else "delivered"


@risky
async def deep(stage: Stage) -> Any:
    """Data nested 100,000 deep."""
    data: dict[str, Any] = {}
    inner = data
    for _ in range(100_000):
        inner["d"] = {}
        inner = inner["d"]
    got = await seen(data)
    verdict = "refused" if isinstance(got[1], str) else "delivered"
    while data:
        data = data.popitem()[1]
    return verdict


@risky
async def object_whose_text_fails(stage: Stage) -> Any:
    """An object that cannot be turned into text."""

    class Mute:
        def __str__(self) -> str:
            raise ValueError("mute")

        __repr__ = __str__

    return str(await seen({"o": Mute()}))[:20]
