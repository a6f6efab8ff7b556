"""Tool calls, in the ways in which servers stream them."""

from __future__ import annotations

import json
from typing import Any

import pytest

from amplifier_core.llm_errors import InvalidToolCallError
from amplifier_kit.engine.stream_events import StreamEmitter
from amplifier_kit.llm.chat.response import StreamedCalls
from amplifier_kit.llm.response import Answer

Piece = tuple[Any, str | None, str | None, Any]


async def _made(*pieces: Piece) -> list[tuple[str, str, dict[str, Any]]]:
    answer = Answer(StreamEmitter(None), "chat-completions")
    calls = StreamedCalls(answer)
    for piece in pieces:
        await calls.feed(*piece)
    calls.finish()
    await answer.finish("tool_use")
    return [(call.id, call.name, call.arguments) for call in answer.response().tool_calls or ()]


@pytest.mark.parametrize(
    "pieces",
    [
        pytest.param(
            [
                (0, "a", "look", ""),
                (0, None, None, '{"n"'),
                (0, None, None, ": 1}"),
                (1, "b", "go", ""),
                (1, None, None, '{"n": 2}'),
            ],
            id="as the protocol says",
        ),
        pytest.param(
            [
                (0, "a", "look", '{"n"'),
                (1, "b", "go", '{"n": '),
                (0, None, None, ": 1}"),
                (1, None, None, "2}"),
            ],
            id="both at the same time",
        ),
        pytest.param([(0, "a", "look", '{"n": 1}'), (1, "b", "go", '{"n": 2}')], id="whole calls"),
        pytest.param([(0, "a", "look", '{"n": 1}'), (0, "b", "go", '{"n": 2}')], id="whole calls under one index"),
        pytest.param([(None, "a", "look", '{"n": 1}'), (None, "b", "go", '{"n": 2}')], id="whole calls, no index"),
        pytest.param([(0, "a", "look", {"n": 1}), (1, "b", "go", {"n": 2})], id="arguments as objects"),
        pytest.param(
            [
                (None, "a", "look", '{"n"'),
                (None, "a", None, ": 1}"),
                (None, "b", "go", '{"n": 2'),
                (None, None, None, "}"),
            ],
            id="pieces without an index",
        ),
        pytest.param(
            [
                (0, "a", "look", '{"n"'),
                (0, "a", "look", ": 1}"),
                (0, "a", "look", ""),
                (1, "b", "go", '{"n": 2}'),
            ],
            id="id and name again and again",
        ),
        pytest.param(
            [(0, "a", None, '{"n"'), (0, None, "look", ": 1}"), (1, "b", "go", '{"n": 2}')], id="the name comes late"
        ),
    ],
)
async def test_the_calls_are_the_same(pieces: list[Piece]) -> None:
    """However they are cut and numbered, the calls come out whole, in order, with their ids."""
    assert await _made(*pieces) == [("a", "look", {"n": 1}), ("b", "go", {"n": 2})]


@pytest.mark.parametrize("index", [None, 0])
async def test_calls_without_ids(index: int | None) -> None:
    """Whole calls that differ only in their names are several calls, and get different ids."""
    calls = await _made((index, None, "look", '{"n": 1}'), (index, "", "look", '{"n": 1}'))
    assert [(name, arguments) for _, name, arguments in calls] == [("look", {"n": 1})] * 2
    assert len({call_id for call_id, _, _ in calls}) == 2
    assert all(call_id for call_id, _, _ in calls)


async def test_a_name_in_every_piece() -> None:
    """A server that repeats the name with every piece makes one call."""
    assert [call[1:] for call in await _made((0, None, "look", '{"n'), (0, None, "look", '": 1}'))] == [
        ("look", {"n": 1})
    ]


async def test_no_arguments() -> None:
    """A call without arguments has none."""
    assert await _made((0, "a", "look", None)) == [("a", "look", {})]


async def test_a_call_without_a_name() -> None:
    """A call that names no tool cannot be made."""
    with pytest.raises(InvalidToolCallError, match="without a name") as caught:
        await _made((0, "a", None, '{"n": 1}'))
    assert json.loads(caught.value.raw_arguments or "") == {"n": 1}
