"""What a chat server is asked with."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, ToolSpec
from amplifier_core.llm_errors import InvalidRequestError, NotFoundError, ProviderUnavailableError
from amplifier_kit.config import read_config
from amplifier_kit.llm.chat.provider import CHAT, describe_model
from amplifier_kit.llm.chat.request import ChatConfig, chat_payload
from amplifier_kit.llm.errors import ANTHROPIC, GEMINI, OPENAI, Endpoint, WarmingUpError, Wire, to_llm_error
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.structured_output import Shape
from amplifier_testing.llm.rig import ask


def _payload(request: ChatRequest, **config: Any) -> dict[str, Any]:
    facts = {key: config.pop(key) for key in ("shape", "session_id") if key in config}
    json_mode = config.pop("json_mode", False)
    call = LLMCall(request, read_conversation(request.messages), "m", True, **facts)
    return chat_payload(call, read_config(ChatConfig, config, module="provider-chat"), json_mode=json_mode)


def test_defaults() -> None:
    """Little is sent when little is asked for."""
    assert _payload(ask()) == {
        "model": "m",
        "messages": [{"role": "user", "content": "hello"}],
        "max_tokens": 4096,
        "temperature": 0.7,
    }


def test_wishes() -> None:
    """A request's wishes win over the config's; null and 0 leave the choice to the server."""
    config = {"temperature": 0.1, "top_p": 0.2, "max_tokens": 5, "stop": "end", "seed": 0, "reasoning_effort": "low"}
    mine = _payload(ask(), **config)
    assert {key: mine[key] for key in config} == {**config, "stop": ["end"]}
    request = ask(temperature=0.0, top_p=0.5, max_output_tokens=9, stop=["x"], reasoning_effort="high")
    asked = _payload(request, **config)
    assert (asked["temperature"], asked["top_p"], asked["max_tokens"]) == (0.0, 0.5, 9)
    assert (asked["stop"], asked["reasoning_effort"], asked["seed"]) == (["x"], "high", 0)
    bare = _payload(ask(reasoning_effort="none"), temperature=None, max_tokens=0)
    assert set(bare) == {"model", "messages"}


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", "auto"),
        ("none", "none"),
        ("required", "required"),
        ("any", "required"),
        ("x", {"type": "function", "function": {"name": "x"}}),
        ({"type": "function", "function": {"name": "x"}}, {"type": "function", "function": {"name": "x"}}),
        ({"type": "tool", "name": "x"}, {"type": "function", "function": {"name": "x"}}),
        ({"type": "any"}, "required"),
    ],
)
def test_tool_choice(choice: Any, sent: Any) -> None:
    """The choice of tools is understood in every form, and is not sent without tools."""
    assert _payload(ask(tool_choice=choice, tools=("x",))).get("tool_choice") == sent
    assert "tool_choice" not in _payload(ask(tool_choice=choice))


def test_tools() -> None:
    """Functions are described, native tools passed through, and parallel calls can be turned off."""
    request = ask(tools=("x",))
    native = ToolSpec.model_validate({"name": "search", "parameters": {}, "type": "web_search"})
    request.tools = [*(request.tools or []), ToolSpec(name="bare", parameters={}), native]
    payload = _payload(request)
    assert payload["parallel_tool_calls"] is True
    assert payload["tools"][0]["function"]["description"] == "The tool x"
    assert payload["tools"][1]["function"]["parameters"] == {"type": "object", "properties": {}}
    assert payload["tools"][2] == {"type": "web_search", "name": "search"}
    assert _payload(request, parallel_tool_calls=False)["parallel_tool_calls"] is False
    off = ask(tools=("x",), metadata={"parallel_tool_calls": False})
    assert _payload(off)["parallel_tool_calls"] is False
    assert "parallel_tool_calls" not in _payload(ask())


def test_forms() -> None:
    """A schema is sent whole where it is taken, any JSON as such, and neither where words have to do."""
    schema = {"type": "object", "properties": {"n": {"type": "string", "maxLength": 3}}}
    named = {"name": "answer", "schema": schema}
    assert _payload(ask(), shape=Shape(schema, "native"))["response_format"] == {
        "type": "json_schema",
        "json_schema": named,
    }
    strict = _payload(ask(), shape=Shape(schema, "native", strict=True))["response_format"]
    assert strict["json_schema"]["strict"] is True
    assert _payload(ask(), shape=Shape(None, "native"))["response_format"] == {"type": "json_object"}
    assert "response_format" not in _payload(ask(), shape=Shape(schema, "prompt"))
    in_words = _payload(ask(), shape=Shape(schema, "prompt"), json_mode=True)
    assert in_words["response_format"] == {"type": "json_object"}


def test_more() -> None:
    """The session's id goes where the protocol has a user's; what else a server knows is passed on."""
    assert _payload(ask(), session_id="s-1")["user"] == "s-1"
    own = {"chat_template_kwargs": {"enable_thinking": False}}
    assert _payload(ask(), extra_body=own)["extra_body"] == own


def test_wrong_values() -> None:
    """A value that cannot be used is an error that names its key."""
    wrong: dict[str, Any] = {
        "temperature": "hot",
        "top_p": -1,
        "max_tokens": -1,
        "stop": [1],
        "seed": "x",
        "structured_output": "magic",
        "extra_body": "x",
        "extra_headers": 3,
        "free": "perhaps",
        "warmup_retries": -1,
    }
    for key, value in wrong.items():
        with pytest.raises(ValueError, match=key):
            read_config(ChatConfig, {key: value}, module="provider-chat")


class _Refused(Exception):
    def __init__(self, status: int, text: str, kind: str = "application/json") -> None:
        self.status_code = status
        self.body = {"message": text} if kind == "application/json" else None
        self.response = type("Response", (), {"headers": {"content-type": kind, "retry-after": "2"}, "text": text})
        super().__init__(f"Error code: {status}")


@pytest.mark.parametrize(
    ("status", "text", "kind", "expected"),
    [
        (503, "Loading model", "application/json", WarmingUpError),
        (404, "<html><body>The app is starting up</body></html>", "text/html", WarmingUpError),
        (425, "warming up, too early", "application/json", WarmingUpError),
        (404, "no such model", "application/json", NotFoundError),
        (503, "no capacity", "application/json", ProviderUnavailableError),
        (400, "the model is loading a mmproj", "application/json", InvalidRequestError),
        (500, "image input is not supported - hint: mmproj", "application/json", InvalidRequestError),
        (500, "out of memory", "application/json", ProviderUnavailableError),
    ],
)
def test_what_servers_mean(status: int, text: str, kind: str, expected: type) -> None:
    """A server that is starting is worth waiting for, and what it can never do is not worth a second attempt."""
    endpoint = Endpoint("here", CHAT, scrub=lambda text: text.replace("mmproj", "***"))
    error = to_llm_error(_Refused(status, text, kind), endpoint, None)
    assert type(error) is expected
    if isinstance(error, WarmingUpError):
        assert (error.retryable, error.retry_after, error.status_code) == (True, 2.0, status)
        assert str(error).startswith(f"here: {status} the server is still starting")
        assert "<" not in str(error)
    elif isinstance(error, InvalidRequestError):
        assert not error.retryable
        assert "***" in str(error)


@pytest.mark.parametrize("wire", [ANTHROPIC, GEMINI, OPENAI], ids=lambda wire: wire.name)
def test_what_hosted_services_mean(wire: Wire) -> None:
    """The phrases of self-hosted servers mean nothing in the messages of a hosted service: its statuses are right."""
    failed = to_llm_error(_Refused(500, "unsupported param: seed"), Endpoint("there", wire), None)
    missing = to_llm_error(_Refused(404, "no such model: warmup"), Endpoint("there", wire), None)
    assert (type(failed), failed.retryable) == (ProviderUnavailableError, True)
    assert (type(missing), missing.retryable) == (NotFoundError, False)


@pytest.mark.parametrize(
    ("said", "window", "longest"),
    [
        ({}, 1000, 100),
        ({"max_model_len": 50}, 50, 50),
        ({"meta": {"n_ctx": 2048, "n_ctx_train": 8192}}, 2048, 100),
        ({"meta": {"n_ctx_train": 8192}}, 8192, 100),
        ({"context_length": 4000, "top_provider": {"max_completion_tokens": 2000}}, 4000, 2000),
        ({"context_window": "many", "meta": None}, 1000, 100),
    ],
)
def test_limits_that_servers_tell(said: dict[str, Any], window: int, longest: int) -> None:
    """What a server says of a model's limits wins, wherever it says it."""
    model = describe_model("m", context_window=1000, max_output_tokens=100, listed=said)
    assert (model.context_window, model.max_output_tokens) == (window, longest)


def test_models_that_see() -> None:
    """A model that takes images says so."""
    seeing = describe_model(
        "m", context_window=1, max_output_tokens=1, listed={"architecture": {"input_modalities": ["image"]}}
    )
    assert "vision" in seeing.capabilities
