"""What a request looks like."""

from __future__ import annotations

import logging
from typing import Any

import pytest

from amplifier_core import ChatRequest, ToolSpec
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_module_provider_openai import OpenAIProvider
from amplifier_testing.llm.rig import ask


def _payload(
    request: ChatRequest,
    *,
    model: str = "gpt-5.5",
    session_id: str | None = None,
    thinking: bool = False,
    **config: Any,
) -> dict[str, Any]:
    call = LLMCall(
        request=request,
        conversation=read_conversation(request.messages),
        model=model,
        streams=True,
        options={"extended_thinking": thinking},
        session_id=session_id,
    )
    return OpenAIProvider(config, api_key="k").payload(call)


def test_a_plain_request() -> None:
    """What nobody asked for is not sent."""
    assert _payload(ask("x"), model="gpt-4o") == {
        "model": "gpt-4o",
        "input": [{"type": "message", "role": "user", "content": [{"type": "input_text", "text": "x"}]}],
        "store": False,
        "max_output_tokens": 4096,
    }


def test_instructions() -> None:
    """The system prompt goes in front; what comes later stays in its place, as a developer's words."""
    payload = _payload(ask(("system", "a"), ("system", "b"), "x", ("developer", "d"), ("system", "c")))
    assert payload["instructions"] == "a\n\nb"
    assert [item["role"] for item in payload["input"]] == ["user", "developer", "developer"]


@pytest.mark.parametrize(
    ("model", "effort", "config", "thinking", "sent"),
    [
        ("gpt-5.5", None, {}, False, None),
        ("gpt-5.5", None, {}, True, {"summary": "detailed"}),
        ("gpt-5.5", "high", {}, False, {"effort": "high", "summary": "detailed"}),
        ("gpt-5.5", "minimal", {}, False, {"effort": "none"}),
        ("gpt-5", "none", {}, False, {"effort": "minimal", "summary": "detailed"}),
        ("o3", "max", {}, False, {"effort": "high", "summary": "detailed"}),
        ("gpt-5.5", "high", {"reasoning": "low"}, False, {"effort": "high", "summary": "detailed"}),
        ("gpt-5.5", None, {"reasoning": "low", "reasoning_summary": None}, False, {"effort": "low"}),
        ("gpt-5.5", None, {"reasoning": {"summary": "auto"}}, False, {"summary": "auto"}),
        ("gpt-4o", "high", {"reasoning": "low"}, True, None),
        ("my-model", "high", {}, True, None),
        ("my-model", "high", {"reasoning": "low"}, False, {"effort": "high", "summary": "detailed"}),
    ],
)
def test_thinking(model: str, effort: str | None, config: dict[str, Any], thinking: bool, sent: Any) -> None:
    """Models that think are told how much when somebody asks, as near as they can; others are told nothing."""
    payload = _payload(ask(reasoning_effort=effort), model=model, thinking=thinking, **config)
    assert payload.get("reasoning") == sent


def test_reasoning_comes_encrypted() -> None:
    """Models that think are asked for what can be sent back; others would refuse to be asked."""
    assert _payload(ask())["include"] == ["reasoning.encrypted_content"]
    assert "include" not in _payload(ask(), model="gpt-4.1")


def test_sampling() -> None:
    """Models that think take neither temperature nor top_p, unless they are told not to think."""
    request = ask(temperature=0.5, top_p=0.9)
    assert not {"temperature", "top_p"} & set(_payload(request))
    assert _payload(request, model="gpt-4o") | {"temperature": 0.5, "top_p": 0.9} == _payload(request, model="gpt-4o")
    assert _payload(ask(), model="gpt-4o", temperature=0.2)["temperature"] == 0.2
    assert _payload(ask(temperature=0, reasoning_effort="none"))["temperature"] == 0


def test_limits() -> None:
    """The longest response is the request's or the config's, and never more than the model's."""
    assert _payload(ask(), max_tokens=5)["max_output_tokens"] == 5
    assert _payload(ask(max_output_tokens=7), max_tokens=5)["max_output_tokens"] == 7
    assert _payload(ask(max_output_tokens=10**9))["max_output_tokens"] == 128_000


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("x", {"type": "function", "name": "x"}),
        ("web_search", {"type": "web_search"}),
        ({"type": "function", "function": {"name": "x"}}, {"type": "function", "name": "x"}),
        ({"type": "tool", "name": "x"}, {"type": "function", "name": "x"}),
        ({"type": "any"}, "required"),
        ({"type": "file_search"}, {"type": "file_search"}),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    """The choice of tools is understood in every form."""
    request = ask(tool_choice=choice, tools=("x",))
    search = ToolSpec.model_validate({"name": "web_search", "parameters": {}, "type": "web_search"})
    request.tools = [*(request.tools or []), search]
    assert _payload(request).get("tool_choice") == sent


def test_tools() -> None:
    """Functions are not held to their schemas strictly, and parallel calls can be turned off."""
    payload = _payload(ask(tools=("x",), metadata={"parallel_tool_calls": False}))
    [tool] = payload["tools"]
    assert (tool["type"], tool["name"], tool["strict"]) == ("function", "x", False)
    assert tool["parameters"]["type"] == "object"
    assert payload["parallel_tool_calls"] is False
    assert "tool_choice" not in _payload(ask(tool_choice="auto"))


def test_research_keeps_its_own_sources() -> None:
    """Models for research take no functions, and keep the sources that they are given."""
    request = ask(tools=("x",))
    files = {"name": "f", "parameters": {}, "type": "file_search", "vector_store_ids": ["v"]}
    request.tools = [*(request.tools or []), ToolSpec.model_validate(files)]
    tools = _payload(request, model="o4-mini-deep-research")["tools"]
    assert tools == [{"type": "file_search", "vector_store_ids": ["v"]}]


def test_caches() -> None:
    """Caches are kept for a day with models that can, and otherwise as the config insists."""
    assert _payload(ask())["prompt_cache_retention"] == "24h"
    assert "prompt_cache_retention" not in _payload(ask(), model="o3")
    assert "prompt_cache_retention" not in _payload(ask(), prompt_cache_retention=None)
    assert _payload(ask(), model="o3", prompt_cache_retention="in_memory")["prompt_cache_retention"] == "in_memory"
    assert _payload(ask(), prompt_cache_key="k")["prompt_cache_key"] == "k"


def test_the_rest() -> None:
    """Other settings and the session's id go where the service expects them."""
    payload = _payload(ask(), truncation="auto", safety_identifier="u", session_id="s-1")
    assert (payload["truncation"], payload["safety_identifier"]) == ("auto", "u")
    assert payload["metadata"] == {"session_id": "s-1"}
    assert "metadata" not in _payload(ask())


def test_stop_is_reported_once(caplog: pytest.LogCaptureFixture, monkeypatch: pytest.MonkeyPatch) -> None:
    """The service has no stop sequences, which is said once per process."""
    monkeypatch.setattr("amplifier_kit.llm.responses.request._warned", set())
    with caplog.at_level(logging.WARNING):
        for _ in range(2):
            assert "stop" not in _payload(ask(stop=["x"]))
    assert caplog.text.count("stop sequences") == 1
