"""What servers send is read as far as it can be, and nobody waits for an answer that cannot."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_module_tool_mcp.messages import read_message

Session = Any
Odd = Callable[..., dict[str, Any]]

texts = st.text(st.characters(exclude_categories=[]) | st.characters(categories=["Cs"]), max_size=10)
values = st.recursive(
    st.none() | st.booleans() | st.integers(-9, 9) | texts,
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(texts, inner, max_size=3),
    max_leaves=8,
)


def _nested(depth: int) -> str:
    return '{"a":' * depth + "1" + "}" * depth


@given(st.dictionaries(texts, values, max_size=4))
def test_any_answer_is_read(result: dict[str, Any]) -> None:
    """Whatever an answer holds, it reaches who asked, as text that can be stored and sent."""
    line = json.dumps({"jsonrpc": "2.0", "id": 7, "result": result}).encode()
    message = read_message(line).message
    assert message.id == 7
    read = json.dumps(message.result, ensure_ascii=False)
    assert read.encode("utf-8")
    sound = json.dumps(result, ensure_ascii=False).encode("utf-8", "replace") == json.dumps(
        result, ensure_ascii=False
    ).encode("utf-8", "surrogatepass")
    assert not sound or message.result == result


@pytest.mark.parametrize(
    "line", ['{"jsonrpc": "2.0", "id": 3, "result": "no object"}', '{"id": "x"}', '{"jsonrpc": "1.0", "id": 3}']
)
def test_an_answer_of_another_form(line: str) -> None:
    """Who asked is told that the answer cannot be used, instead of waiting for it."""
    message = read_message(line.encode()).message
    assert message.id == json.loads(line)["id"]
    assert "not of the form" in message.error.message


def test_deep_answers() -> None:
    """One that is nested deeper than the protocol's own reader goes is read."""
    line = f'{{"jsonrpc": "2.0", "id": 1, "result": {_nested(400)}}}'
    assert json.dumps(read_message(line.encode()).message.result, separators=(",", ":")) == _nested(400)


@pytest.mark.parametrize(
    "line",
    [
        "{}",
        "{oops",
        "[1]",
        '{"jsonrpc": "2.0", "method": 7}',
        '{"jsonrpc": "2.0", "id": true, "result": 1}',
        f'{{"jsonrpc": "2.0", "id": 1, "result": {_nested(100_000)}}}',
    ],
)
def test_what_is_no_message(line: str) -> None:
    """Everything else is a ValueError, also what no reader can read."""
    with pytest.raises(ValueError, match=r"."):
        read_message(line.encode())


async def test_careless_servers(session: Session, odd: Odd) -> None:
    """Half a character does not cost the call, and an answer of another form costs that call, at once."""
    await session.open({"odd": odd(call_timeout=600)})
    assert (await session.call("odd_half")).output["content"] == "half \ufffd"
    result = await session.call("odd_shapeless")
    assert (result.error["code"], result.error["mcp_fault"]) == ("mcp_protocol_error", "protocol_error")
    assert "its answer is not of the form that the protocol wants" in result.error["message"]
    assert (await session.call("odd_echo")).success


async def test_a_schema_without_an_end(session: Session, odd: Odd) -> None:
    """A tool whose schema is nested absurdly is there, with one that takes anything, and so are the others."""
    await session.open({"odd": odd("deep")})
    await session.told("connected")
    assert session.tools["mcp_odd_deep"].input_schema == {"type": "object"}
    assert (await session.call("odd_echo")).success
