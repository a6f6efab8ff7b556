"""What is sent to the server."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, ToolSpec
from amplifier_kit.config import read_config
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.structured_output import Shape
from amplifier_module_provider_ollama.config import OllamaConfig, host_of
from amplifier_module_provider_ollama.messages import build_payload
from amplifier_testing.llm.rig import ask

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
LINKED = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.png"}}


def _payload(request: ChatRequest, *, model: str = "llama3.2:3b", **config: Any) -> dict[str, Any]:
    options = config.pop("options", {})
    shape = config.pop("shape", None)
    call = LLMCall(request, read_conversation(request.messages), model, True, shape=shape, options=options)
    return build_payload(call, read_config(OllamaConfig, config, module="provider-ollama"))


def test_roles() -> None:
    """Instructions stand in front, or are the user's in their place; files are the user's, and marked."""
    said = _payload(
        ask(("system", "Be kind."), ("developer", "file"), "hi", ("assistant", "hello"), ("system", "Hurry!"), " ")
    )["messages"]
    assert [(message["role"], message["content"]) for message in said] == [
        ("system", "Be kind."),
        ("user", "<context_file>\nfile\n</context_file>"),
        ("user", "hi"),
        ("assistant", "hello"),
        ("user", "<system-reminder>\nHurry!\n</system-reminder>"),
    ]


def test_results() -> None:
    """Results name their tool and call; their images follow behind all of them."""
    calls = [{"id": call_id, "tool": "look", "arguments": {"a": 1}} for call_id in ("c1", "c2")]
    messages = _payload(
        ask(
            "go",
            {"role": "assistant", "content": "", "tool_calls": calls},
            {"role": "tool", "tool_call_id": "c1", "content": [{"type": "text", "text": "shot"}, IMAGE]},
            {"role": "tool", "tool_call_id": "c2", "content": ""},
            "thanks",
        )
    )["messages"]
    assert messages[1]["tool_calls"] == [
        {"id": call_id, "function": {"name": "look", "arguments": {"a": 1}}} for call_id in ("c1", "c2")
    ]
    assert messages[2:4] == [
        {"role": "tool", "content": "shot", "tool_name": "look", "tool_call_id": "c1"},
        {"role": "tool", "content": "(empty)", "tool_name": "look", "tool_call_id": "c2"},
    ]
    assert messages[4]["images"] == ["QQ=="]
    assert messages[5] == {"role": "user", "content": "thanks"}


def test_images() -> None:
    """Images of the user go with the message; those that are elsewhere are named."""
    [message] = _payload(ask({"role": "user", "content": [{"type": "text", "text": "see"}, IMAGE, LINKED]}))["messages"]
    assert message == {"role": "user", "content": "see\n[image: https://example.com/a.png]", "images": ["QQ=="]}


def test_nothing_is_dropped_silently() -> None:
    """The server is told to refuse what does not fit, instead of forgetting the beginning."""
    payload = _payload(ask())
    assert (payload["truncate"], payload["shift"]) == (False, False)


def test_options() -> None:
    """The request wins over the config; a window is asked for only when one is set."""
    assert _payload(ask())["options"] == {"num_predict": 4096, "temperature": 0.7}
    request = ask(max_output_tokens=5, temperature=0.1, top_p=0.5, stop=["x"])
    assert _payload(request, num_ctx=9, temperature=1)["options"] == {
        "num_predict": 5,
        "num_ctx": 9,
        "temperature": 0.1,
        "top_p": 0.5,
        "stop": ["x"],
    }
    assert _payload(ask(), temperature=None, max_tokens=7)["options"] == {"num_predict": 7}


@pytest.mark.parametrize(
    ("model", "effort", "options", "config", "think"),
    [
        ("qwen3:8b", None, {}, {}, None),
        ("qwen3:8b", None, {"extended_thinking": True}, {}, True),
        ("qwen3:8b", "low", {}, {}, True),
        ("qwen3:8b", "none", {"extended_thinking": True}, {}, False),
        ("qwen3:8b", "high", {}, {"enable_thinking": False}, False),
        ("gpt-oss:20b", "minimal", {}, {}, "low"),
        ("gpt-oss:20b", "xhigh", {}, {}, "high"),
    ],
)
def test_thinking(
    model: str, effort: str | None, options: dict[str, Any], config: dict[str, Any], think: bool | str | None
) -> None:
    """A model thinks when it is asked to, and is told not to when that is wanted."""
    assert _payload(ask(reasoning_effort=effort), model=model, options=options, **config).get("think") == think


def test_tools() -> None:
    """Schemas are sent whole; what is no function is sent as it is."""
    schema = {
        "type": "object",
        "properties": {"a": {"anyOf": [{"type": "string"}, {"type": "null"}], "default": None}},
        "$defs": {"x": {"type": "object", "properties": {"y": {"type": "integer"}}}},
    }
    native = ToolSpec.model_validate({"name": "s", "parameters": {}, "type": "web_search", "foo": 1})
    request = ask()
    request.tools = [ToolSpec(name="look", description="d", parameters=schema), native]
    function, search = _payload(request)["tools"]
    assert function == {"type": "function", "function": {"name": "look", "description": "d", "parameters": schema}}
    assert search == {"type": "web_search", "foo": 1, "name": "s"}


@pytest.mark.parametrize(
    ("choice", "left"),
    [
        (None, ["x", "y"]),
        ("auto", ["x", "y"]),
        ("required", ["x", "y"]),
        ("none", []),
        ("y", ["y"]),
        ({"type": "function", "function": {"name": "y"}}, ["y"]),
        ({"type": "tool", "name": "y"}, ["y"]),
        ({"type": "any"}, ["x", "y"]),
    ],
)
def test_tool_choice(choice: Any, left: list[str]) -> None:
    """Tools that may not be called are left out."""
    tools = _payload(ask(tool_choice=choice, tools=("x", "y"))).get("tools", [])
    assert [tool["function"]["name"] for tool in tools] == left


def test_forms() -> None:
    """A schema is given as it is; any JSON has a word of its own."""
    schema = {"type": "object"}
    assert _payload(ask(), shape=Shape(schema, "native"))["format"] == schema
    assert _payload(ask(), shape=Shape(None, "native"))["format"] == "json"
    assert "format" not in _payload(ask(), shape=Shape(schema, "prompt"))


@pytest.mark.parametrize(
    ("given", "host"),
    [
        (None, "http://localhost:11434"),
        ("${OLLAMA_HOST}", "http://localhost:11434"),
        ("box", "http://box:11434"),
        ("box:1", "http://box:1"),
        (":1", "http://127.0.0.1:1"),
        ("0.0.0.0", "http://127.0.0.1:11434"),
        ("http://0.0.0.0:1/", "http://127.0.0.1:1"),
        ("[::]:1", "http://[::1]:1"),
        ("http://[fe80::1]:1", "http://[fe80::1]:1"),
        ("https://ollama.com/x/", "https://ollama.com/x"),
    ],
)
def test_hosts(given: str | None, host: str) -> None:
    """An address may leave out what is usual, or be the one that a server listens on."""
    assert host_of({"host": given}) == host


@pytest.mark.parametrize("given", ["ftp://box", "box:many", "http://"])
def test_wrong_hosts(given: str) -> None:
    """What is no address is an error that names the key."""
    with pytest.raises(ValueError, match="host"):
        host_of({"host": given})
