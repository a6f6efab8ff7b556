"""Look at the calls and results of a request as strictly as the services do, whatever protocol it speaks."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

__all__ = ["broken_pairs", "pairs_in"]

#: The ids of calls that one message makes, or the ids of results that answer.
_Step = tuple[list[str], list[str]]


def broken_pairs(body: dict[str, Any]) -> list[str]:
    """Return what is wrong: calls that the very next messages do not answer, and results that answer nothing."""
    problems: list[str] = []
    open_calls: list[str] = []
    for calls, results in _steps(body):
        for result in results:
            if result in open_calls:
                open_calls.remove(result)
            else:
                problems.append(f"a result for {result}, which is no open call")
        if open_calls and not results:
            problems += [f"no result for {call} right after it" for call in open_calls]
            open_calls = []
        open_calls += calls
    return problems + [f"no result for {call}" for call in open_calls]


def pairs_in(body: dict[str, Any]) -> int:
    """Return how many calls a request holds that have their results."""
    return sum(len(results) for _, results in _steps(body)) if not broken_pairs(body) else 0


def _steps(body: dict[str, Any]) -> Iterator[_Step]:
    """Yield the messages of a request, as the calls that each makes and the results that it holds."""
    if "contents" in body:
        yield from _gemini(body["contents"])
    elif "input" in body:
        yield from _responses(body["input"])
    elif "options" in body:
        yield from _ollama(body["messages"])
    else:
        yield from map(_message, body["messages"])


def _message(message: dict[str, Any]) -> _Step:
    """Read a message of Anthropic's or of chat completions."""
    content = message.get("content")
    blocks = content if isinstance(content, list) else []
    calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
    calls += [call["id"] for call in message.get("tool_calls") or ()]
    results = [block["tool_use_id"] for block in blocks if block["type"] == "tool_result"]
    return calls, [*results, *([message["tool_call_id"]] if message["role"] == "tool" else [])]


def _responses(items: list[dict[str, Any]]) -> Iterator[_Step]:
    """Join the items that form one message: calls are adjacent, and so are their results."""
    calls: list[str] = []
    for item in items:
        if item.get("type") == "function_call":
            calls.append(item["call_id"])
            continue
        if calls:
            yield calls, []
            calls = []
        yield [], [item["call_id"]] if item.get("type") == "function_call_output" else []
    if calls:
        yield calls, []


def _gemini(contents: list[dict[str, Any]]) -> Iterator[_Step]:
    """Read what Gemini gets: it pairs by name and number, and by id where there is one."""
    for content in contents:
        calls = [part["functionCall"] for part in content["parts"] if "functionCall" in part]
        results = [part["functionResponse"] for part in content["parts"] if "functionResponse" in part]
        yield [_named(call) for call in calls], [_named(result) for result in results]


def _named(part: dict[str, Any]) -> str:
    return f"{part['name']} {part.get('id', '')}"


def _ollama(messages: list[dict[str, Any]]) -> Iterator[_Step]:
    """Read what Ollama gets: results name their tools."""
    for message in messages:
        calls = [call["function"]["name"] for call in message.get("tool_calls") or ()]
        yield calls, [message["tool_name"]] if message["role"] == "tool" else []
