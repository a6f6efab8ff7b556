"""Every thought and every call of a stored message is read once."""

from typing import Any

import pytest

from amplifier_foundation.sessions.transcript import message_parts

THOUGHT = {"type": "thinking", "thinking": "hm", "signature": "s"}
TEXT = {"type": "text", "text": "Let me see."}
CALL = {"type": "tool_call", "id": "1", "name": "look", "input": {"at": 1}}
LISTED = {"id": "1", "tool": "look", "arguments": {"at": 1}}


@pytest.mark.parametrize(
    "message",
    [
        {"content": [THOUGHT, TEXT, CALL], "thinking_text": "hm", "tool_calls": [LISTED]},
        {"content": [THOUGHT, TEXT, CALL]},
        {"content": [TEXT], "thinking_text": "hm", "tool_calls": [LISTED]},
        {"content": [THOUGHT, TEXT, CALL], "thinking_text": "hm", "tool_calls": None},
        {"content": [{"type": "redacted_thinking", "data": "x"}, THOUGHT, TEXT, {**CALL, "type": "tool_use"}]},
    ],
)
def test_blocks_and_fields_say_the_same(message: dict[str, Any]) -> None:
    """What is in a block and in a field of the message is one part."""
    assert message_parts(message) == (["hm"], [TEXT], [("look", {"at": 1})])


def test_plain_text_stays() -> None:
    """A message of a single text has nothing but that."""
    assert message_parts({"content": "hello"}) == ([], "hello", [])


def test_different_calls_and_thoughts_are_kept() -> None:
    """Two calls of one tool and two thoughts are two."""
    other = {"id": "2", "tool": "look", "arguments": {"at": 2}}
    message = {"content": [THOUGHT, {**THOUGHT, "thinking": "so"}, CALL], "tool_calls": [LISTED, other]}
    parts = message_parts(message)
    assert parts.thoughts == ["hm", "so"]
    assert parts.calls == [("look", {"at": 1}), ("look", {"at": 2})]
