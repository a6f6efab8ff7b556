"""The strict servers of these tests notice a broken pair in every protocol; else their silence would prove nothing."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_testing.llm import Said
from amplifier_testing.llm.pairs import broken_pairs, pairs_in


def _anthropic(calls: list[str], results: list[str]) -> dict[str, Any]:
    used = [{"type": "tool_use", "id": name, "name": "look", "input": {}} for name in calls]
    given = [{"type": "tool_result", "tool_use_id": name, "content": "x"} for name in results]
    end = {"type": "text", "text": "and?"}
    return {"messages": [{"role": "assistant", "content": used}, {"role": "user", "content": [*given, end]}]}


def _chat(calls: list[str], results: list[str]) -> dict[str, Any]:
    calling = {"role": "assistant", "tool_calls": [{"id": name, "function": {"name": "look"}} for name in calls]}
    given = [{"role": "tool", "tool_call_id": name, "content": "x"} for name in results]
    return {"messages": [calling, *given, {"role": "user", "content": "and?"}]}


def _responses(calls: list[str], results: list[str]) -> dict[str, Any]:
    used = [{"type": "function_call", "call_id": name, "name": "look"} for name in calls]
    given = [{"type": "function_call_output", "call_id": name, "output": "x"} for name in results]
    return {"input": [*used, *given, {"role": "user", "content": "and?"}]}


def _gemini(calls: list[str], results: list[str]) -> dict[str, Any]:
    used = [{"functionCall": {"name": "look", "id": name, "args": {}}} for name in calls]
    given = [{"functionResponse": {"name": "look", "id": name, "response": {}}} for name in results]
    return {"contents": [{"role": "model", "parts": used}, {"role": "user", "parts": [*given, {"text": "and?"}]}]}


def _ollama(calls: list[str], results: list[str]) -> dict[str, Any]:
    calling = {"role": "assistant", "tool_calls": [{"function": {"name": name, "arguments": {}}} for name in calls]}
    given = [{"role": "tool", "tool_name": name, "content": "x"} for name in results]
    return {"messages": [calling, *given, {"role": "user", "content": "and?"}], "options": {}}


@pytest.mark.parametrize("protocol", [_anthropic, _chat, _responses, _gemini, _ollama])
def test_broken_pairs_are_noticed(protocol: Any) -> None:
    """Whole pairs pass; a call without a result, and a result without a call, do not."""
    assert broken_pairs(protocol(["a", "b"], ["a", "b"])) == []
    assert pairs_in(protocol(["a", "b"], ["a", "b"])) == 2
    for calls, results in ((["a", "b"], ["a"]), (["a"], []), (["a"], ["a", "b"]), ([], ["a"]), (["a"], ["b"])):
        assert broken_pairs(protocol(calls, results)) != []
        assert pairs_in(protocol(calls, results)) == 0


def test_late_results_are_noticed() -> None:
    """A result that comes after something else was said is too late."""
    body = _chat(["a"], ["a"])
    calling, result, prompt = body["messages"]
    assert broken_pairs({"messages": [calling, prompt, result]}) != []


async def test_foreign_signatures_are_refused(lab: Any, strict: Any, services: tuple[Any, ...]) -> None:
    """A server refuses a request that holds what another service has signed."""
    [foreign] = [one for one in services if one.name == ("gemini" if strict.service.name != "gemini" else "ollama")]
    strict.says(Said())
    async with lab.session(strict) as runtime:
        with pytest.raises(Exception, match=f"signed by {foreign.name}"):
            await runtime.execute(f"My signature is {foreign.signature}")
    assert strict.refused == [f"signed by {foreign.name}"]
