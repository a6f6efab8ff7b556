"""What a service put on a call goes back to that service only."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import Message
from amplifier_kit.llm.errors import read_failure
from amplifier_kit.llm.request import read_conversation


@pytest.mark.parametrize(
    ("origin", "kept"),
    [({}, {"gemini:x": 1}), ({"origin": "gemini"}, {"gemini:x": 1}), ({"origin": "elsewhere"}, {})],
)
def test_extras_of_calls(origin: dict[str, str], kept: dict[str, Any]) -> None:
    """Keys with a prefix are kept, unless their block says that it is of another origin; other keys never are."""
    block = {"type": "tool_call", "id": "c", "name": "look", "input": {}, "gemini:x": 1, "plain": 2, **origin}
    result = {"role": "tool", "tool_call_id": "c", "content": "r"}
    turn = read_conversation([Message(role="assistant", content=[block]), Message(**result)]).turns[0]
    assert turn.parts[0].extra == kept  # type: ignore[union-attr]


def test_a_page_inside_of_a_body() -> None:
    """A page that an SDK wrapped into a body is not shown."""

    class Refused(Exception):
        code = 403
        details = {"message": "<!DOCTYPE html><html>secret</html>", "status": "Forbidden"}  # noqa: RUF012

    assert read_failure(Refused()).message == "an HTML page instead of an answer"
