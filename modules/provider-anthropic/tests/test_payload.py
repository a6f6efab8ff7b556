"""What is sent to the service."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, ToolSpec
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_kit.config import read_config
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.structured_output import Shape
from amplifier_module_provider_anthropic.config import AnthropicConfig
from amplifier_module_provider_anthropic.request import build_payload
from amplifier_testing.llm.rig import ask

MARK = {"type": "ephemeral"}


def _payload(request: ChatRequest, *, model: str = "claude-sonnet-4-5", **config: Any) -> dict[str, Any]:
    options = config.pop("options", {})
    call = LLMCall(
        request,
        read_conversation(request.messages),
        model,
        True,
        shape=config.pop("shape", None),
        options=options,
        session_id=config.pop("session_id", None),
    )
    return build_payload(call, read_config(AnthropicConfig, config, module="provider-anthropic"))


def _texts(payload: dict[str, Any]) -> list[tuple[str, list[str]]]:
    return [
        (message["role"], [block.get("text", block["type"]) for block in message["content"]])
        for message in payload["messages"]
    ]


def test_roles() -> None:
    """User and assistant take turns; late instructions and files are the user's, in their place."""
    payload = _payload(
        ask(
            ("system", "Be kind."),
            ("developer", "file"),
            "hi",
            ("assistant", "hello"),
            ("system", "Hurry!"),
            "and?",
        )
    )
    assert payload["system"] == [{"type": "text", "text": "Be kind.", "cache_control": MARK}]
    assert _texts(payload) == [
        ("user", ["<context_file>\nfile\n</context_file>", "hi"]),
        ("assistant", ["hello"]),
        ("user", ["<system-reminder>\nHurry!\n</system-reminder>", "and?"]),
    ]


def test_the_user_begins() -> None:
    """A conversation that begins with the assistant gets a first word; blanks and thinking alone are left out."""
    thinking = {"type": "thinking", "thinking": "hm", "signature": "s", "origin": "anthropic"}
    payload = _payload(ask(("assistant", "hello"), "  \n", {"role": "assistant", "content": [thinking]}, "hi"))
    assert _texts(payload) == [("user", ["(empty)"]), ("assistant", ["hello"]), ("user", ["hi"])]


def test_results_come_first() -> None:
    """All results of a message stand in front of what else the user says, and an empty one says so."""
    calls = [{"id": "1", "tool": "a", "arguments": {}}, {"id": "2", "tool": "a", "arguments": {"x": 1}}]
    payload = _payload(
        ask(
            "go",
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "1", "content": ""},
            {"role": "tool", "tool_call_id": "2", "content": "two"},
            ("system", "note"),
            "thanks",
        )
    )
    assert payload["messages"][1]["content"] == [
        {"type": "tool_use", "id": "1", "name": "a", "input": {}},
        {"type": "tool_use", "id": "2", "name": "a", "input": {"x": 1}},
    ]
    results = payload["messages"][2]["content"]
    assert [block["type"] for block in results] == ["tool_result", "tool_result", "text", "text"]
    assert results[0]["content"] == [{"type": "text", "text": "(empty)"}]


def test_cache_marks() -> None:
    """Four marks at most: tools, system prompt, the end of this request and of the one before; none when off."""
    said = [("system", "s"), "a", ("assistant", "b"), "c", ("assistant", "d"), "e"]
    payload = _payload(ask(*said, tools=("x", "y")))
    assert "cache_control" not in payload["tools"][0]
    assert payload["tools"][1]["cache_control"] == MARK
    marked = [index for index, m in enumerate(payload["messages"]) if "cache_control" in m["content"][-1]]
    assert marked == [2, 4]
    off = _payload(ask(*said, tools=("x",)), enable_prompt_caching=False)
    assert "cache_control" not in str(off)


def test_prefix_is_stable_as_the_conversation_grows() -> None:
    """Every request but for the marks begins with the one before it, whatever is added at its end."""
    call = {"role": "assistant", "content": "", "tool_calls": [{"id": "1", "tool": "x", "arguments": {"b": 1, "a": 2}}]}
    said: list[Any] = [("system", "s"), "a", call, {"role": "tool", "tool_call_id": "1", "content": "r"}]
    said += [("assistant", "d"), ("system", "late"), "e", ("assistant", "f"), "g"]
    before: dict[str, Any] | None = None
    for length in (2, 4, 7, 9):
        payload = _payload(ask(*said[:length], tools=("x", "y")), enable_prompt_caching=False)
        if before is not None:
            assert payload["messages"][: len(before["messages"])] == before["messages"]
            assert (payload["tools"], payload["system"]) == (before["tools"], before["system"])
        before = payload


@pytest.mark.parametrize(
    ("model", "effort", "config", "thinking"),
    [
        ("claude-sonnet-4-5", None, {}, None),
        ("claude-sonnet-4-5", "none", {}, None),
        ("claude-sonnet-4-5", "low", {}, {"type": "enabled", "budget_tokens": 4096}),
        ("claude-opus-4-6", "high", {}, {"type": "adaptive", "display": "summarized"}),
        ("claude-opus-4-6", "high", {"thinking_display": "omitted"}, {"type": "adaptive", "display": "omitted"}),
        ("claude-opus-4-6", "high", {"thinking_type": "enabled"}, {"type": "enabled", "budget_tokens": 32_000}),
        ("claude-opus-4-6", "high", {"thinking_type": "disabled"}, None),
        ("claude-3-5-haiku-latest", "high", {}, None),
    ],
)
def test_thinking(model: str, effort: str | None, config: dict[str, Any], thinking: dict[str, Any] | None) -> None:
    """A model thinks when it is asked to, in the way it can; then it takes no temperature."""
    payload = _payload(ask(reasoning_effort=effort), model=model, **config)
    assert payload.get("thinking") == thinking
    assert ("temperature" in payload.get("extra_body", {})) is (thinking is None)


def test_extended_thinking_of_the_loop() -> None:
    """The loop's switch asks for thinking; the budget leaves room for the answer and fits the model."""
    payload = _payload(ask(max_output_tokens=2000), options={"extended_thinking": True}, thinking_budget_tokens=5000)
    assert payload["thinking"] == {"type": "enabled", "budget_tokens": 5000}
    assert payload["max_tokens"] == 5000 + 8192
    assert payload["extra_headers"] == {
        "anthropic-beta": "context-1m-2025-08-07,interleaved-thinking-2025-05-14",
    }
    forced = _payload(ask(tool_choice="required", tools=("x",)), options={"extended_thinking": True})
    assert "thinking" not in forced


def test_sampling() -> None:
    """A request's wishes win; only one of temperature and top_p is sent, and neither to models that refuse them."""
    assert _payload(ask())["extra_body"] == {"temperature": 0.7}
    assert _payload(ask(temperature=1.5, top_p=0.5))["extra_body"] == {"temperature": 1.0}
    assert _payload(ask(top_p=0.5))["extra_body"] == {"top_p": 0.5}
    assert "extra_body" not in _payload(ask(), temperature=None)
    assert "extra_body" not in _payload(ask(temperature=0.5), model="claude-opus-4-7")
    assert _payload(ask(stop=["x"]))["stop_sequences"] == ["x"]
    assert _payload(ask(), speed="fast")["extra_body"]["speed"] == "fast"


def test_limits() -> None:
    """The longest answer is the request's, the config's or the model's, and never more than the model's."""
    assert _payload(ask())["max_tokens"] == 64_000
    assert _payload(ask(), max_tokens=5)["max_tokens"] == 5
    assert _payload(ask(max_output_tokens=7), max_tokens=5)["max_tokens"] == 7
    assert _payload(ask(max_output_tokens=10**9))["max_tokens"] == 64_000


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"type": "auto"}),
        ("none", {"type": "none"}),
        ("required", {"type": "any"}),
        ("x", {"type": "tool", "name": "x"}),
        ({"type": "function", "function": {"name": "x"}}, {"type": "tool", "name": "x"}),
        ({"type": "tool", "name": "x"}, {"type": "tool", "name": "x"}),
        ({"type": "any"}, {"type": "any"}),
    ],
)
def test_tool_choice(choice: Any, sent: dict[str, Any] | None) -> None:
    """The choice of tools is understood in every form."""
    assert _payload(ask(tool_choice=choice, tools=("x",))).get("tool_choice") == sent


def test_one_tool_at_a_time() -> None:
    """Parallel calls can be turned off."""
    payload = _payload(ask(tools=("x",), metadata={"parallel_tool_calls": False}))
    assert payload["tool_choice"] == {"type": "auto", "disable_parallel_tool_use": True}


def test_native_tools() -> None:
    """Anthropic's own tools are passed through, and its search is added once."""
    native = ToolSpec.model_validate({"name": "bash", "parameters": {}, "type": "bash_20250124"})
    request = ask(tools=("x",))
    request.tools = [*(request.tools or []), native]
    location = {"country": "DE"}
    tools = _payload(request, enable_web_search=True, web_search_max_uses=2, web_search_user_location=location)["tools"]
    assert tools[1] == {"type": "bash_20250124", "name": "bash"}
    search = {key: value for key, value in tools[2].items() if key != "cache_control"}
    assert search == {
        "type": "web_search_20250305",
        "name": "web_search",
        "max_uses": 2,
        "user_location": {"type": "approximate", "country": "DE"},
    }
    assert tools[0]["input_schema"]["type"] == "object"


def test_output() -> None:
    """Effort, form and budget go into one config."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    payload = _payload(
        ask(reasoning_effort="minimal", response_format=ResponseFormatJsonSchema(json_schema=schema)),
        model="claude-opus-4-6",
        shape=Shape(schema, "native"),
        task_budget_tokens=9,
        beta_headers="a, b",
    )
    closed = {"type": "object", "properties": {"n": {"type": "integer"}}, "additionalProperties": False}
    assert payload["output_config"] == {
        "effort": "low",
        "format": {"type": "json_schema", "schema": closed},
        "task_budget": {"type": "tokens", "total": 9},
    }
    assert payload["extra_headers"]["anthropic-beta"] == "a,b,task-budgets-2026-03-13"


def test_session_id() -> None:
    """The session's id goes where the service expects a user's."""
    assert _payload(ask(), session_id="s-1")["metadata"] == {"user_id": "s-1"}
    assert "metadata" not in _payload(ask())
