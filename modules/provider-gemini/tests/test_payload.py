"""What is sent to the service."""

from __future__ import annotations

from typing import Any

import pytest

from amplifier_core import ChatRequest, ToolSpec
from amplifier_kit.config import read_config
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_kit.llm.structured_output import Shape
from amplifier_module_provider_gemini.provider import GeminiConfig
from amplifier_module_provider_gemini.request import build_payload
from amplifier_testing.llm.rig import ask

IMAGE = {"type": "image", "source": {"type": "base64", "media_type": "image/png", "data": "QQ=="}}
UNSIGNED = "c2tpcF90aG91Z2h0X3NpZ25hdHVyZV92YWxpZGF0b3I="


def _payload(request: ChatRequest, *, model: str = "gemini-2.5-flash", **config: Any) -> dict[str, Any]:
    options = config.pop("options", {})
    shape = config.pop("shape", None)
    call = LLMCall(request, read_conversation(request.messages), model, True, shape=shape, options=options)
    return build_payload(call, read_config(GeminiConfig, config, module="provider-gemini"))


def _config(request: ChatRequest, **given: Any) -> dict[str, Any]:
    config: dict[str, Any] = _payload(request, **given)["config"]
    return config


def _calling(*blocks: dict[str, Any], results: Any = "r") -> list[Any]:
    """Return a message with one call, and its result."""
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {"a": 1}}
    return [
        "go",
        {"role": "assistant", "content": [*blocks, call]},
        {"role": "tool", "tool_call_id": "c1", "name": "look", "content": results},
    ]


def test_roles() -> None:
    """The system prompt stands apart; late instructions and files are the user's, in their place."""
    payload = _payload(
        ask(("system", "Be kind."), ("developer", "file"), "hi", ("assistant", "hello"), ("system", "Hurry!"), "and?")
    )
    assert payload["config"]["systemInstruction"] == {"parts": [{"text": "Be kind."}]}
    assert [(content["role"], [part["text"] for part in content["parts"]]) for content in payload["contents"]] == [
        ("user", ["<context_file>\nfile\n</context_file>", "hi"]),
        ("model", ["hello"]),
        ("user", ["<system-reminder>\nHurry!\n</system-reminder>", "and?"]),
    ]


def test_the_user_begins() -> None:
    """A conversation that begins with the model gets a first word; blanks are left out."""
    contents = _payload(ask(("assistant", "hello"), "  \n", ("assistant", " "), "hi"))["contents"]
    assert [content["role"] for content in contents] == ["user", "model", "user"]


def test_results_stand_alone() -> None:
    """The results of one message are one content, without what the user says afterwards."""
    contents = _payload(ask(*_calling(), "thanks"))["contents"]
    assert contents[1:] == [
        {"role": "model", "parts": [{"functionCall": {"id": "c1", "name": "look", "args": {"a": 1}}}]},
        {
            "role": "user",
            "parts": [{"functionResponse": {"id": "c1", "name": "look", "response": {"result": "r"}}}],
        },
        {"role": "user", "parts": [{"text": "thanks"}]},
    ]


def test_images_in_results() -> None:
    """Gemini 3 takes images inside of a result; for models before it they follow the result."""
    said = _calling(results=[{"type": "text", "text": "a shot"}, IMAGE])
    inline = {"inlineData": {"mimeType": "image/png", "data": "QQ=="}}
    third = _payload(ask(*said), model="gemini-3-flash")["contents"][2]["parts"]
    assert third[0]["functionResponse"]["parts"] == [inline]
    assert len(third) == 1
    second = _payload(ask(*said))["contents"][2]["parts"]
    assert "parts" not in second[0]["functionResponse"]
    assert second[1] == inline


def test_images_elsewhere() -> None:
    """An image that is given by its address is passed on with the kind that the address tells."""
    image = {"type": "image", "source": {"type": "url", "url": "https://example.com/a.jpg?x=1"}}
    [content] = _payload(ask({"role": "user", "content": [image]}))["contents"]
    assert content["parts"] == [{"fileData": {"mimeType": "image/jpeg", "fileUri": "https://example.com/a.jpg?x=1"}}]


def test_signatures() -> None:
    """Signatures go back where they came: on thoughts, calls and text; unsigned thoughts are left out."""
    thought = {"type": "thinking", "thinking": "hm", "signature": "c2ln", "origin": "gemini"}
    parts = _payload(ask(*_calling(thought)))["contents"][1]["parts"]
    assert parts[0] == {"text": "hm", "thought": True, "thoughtSignature": "c2ln"}
    noted = {
        "type": "thinking",
        "thinking": "hm",
        "content": [{"gemini:text_signature": "dGV4dA=="}],
        "origin": "gemini",
    }
    said = {"role": "assistant", "content": [noted, {"type": "text", "text": "hello"}]}
    assert _payload(ask("x", said, "y"))["contents"][1]["parts"] == [{"text": "hello", "thoughtSignature": "dGV4dA=="}]


def test_calls_of_others() -> None:
    """Gemini 3 insists on a signature of the first call; one that was never signed is sent with its word for that."""
    parts = _payload(ask(*_calling()), model="gemini-3-pro-preview")["contents"][1]["parts"]
    assert parts[0]["thoughtSignature"] == UNSIGNED
    call = {"type": "tool_call", "id": "c1", "name": "look", "input": {}, "gemini:thought_signature": "c2ln"}
    own = ask("x", {"role": "assistant", "content": [call]}, {"role": "tool", "tool_call_id": "c1", "content": "r"})
    assert _payload(own, model="gemini-3-pro-preview")["contents"][1]["parts"][0]["thoughtSignature"] == "c2ln"
    assert "thoughtSignature" not in _payload(ask(*_calling()))["contents"][1]["parts"][0]


@pytest.mark.parametrize(
    ("model", "effort", "thinking"),
    [
        ("gemini-2.5-flash", None, None),
        ("gemini-2.5-flash", "none", {"thinkingBudget": 0}),
        ("gemini-2.5-pro", "none", {"thinkingBudget": 128}),
        ("gemini-2.5-flash", "low", {"includeThoughts": True, "thinkingBudget": 1024}),
        ("gemini-2.5-flash", "xhigh", {"includeThoughts": True, "thinkingBudget": 24_576}),
        ("gemini-2.5-pro", "xhigh", {"includeThoughts": True, "thinkingBudget": 32_768}),
        ("gemini-3-flash", "minimal", {"includeThoughts": True, "thinkingLevel": "MINIMAL"}),
        ("gemini-3-flash", "none", {"thinkingLevel": "MINIMAL"}),
        ("gemini-3-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "HIGH"}),
        ("gemini-3.1-pro-preview", "medium", {"includeThoughts": True, "thinkingLevel": "MEDIUM"}),
        ("gemini-2.0-flash", "high", None),
        ("gemma-3-27b-it", "high", None),
    ],
)
def test_thinking(model: str, effort: str | None, thinking: dict[str, Any] | None) -> None:
    """A model thinks visibly when it is asked to, in the way it can."""
    assert _config(ask(reasoning_effort=effort), model=model).get("thinkingConfig") == thinking


def test_thinking_by_the_loop() -> None:
    """The loop's wish leaves it to the model how much, unless it names a budget."""
    dynamic = {"includeThoughts": True, "thinkingBudget": -1}
    assert _config(ask(), options={"extended_thinking": True})["thinkingConfig"] == dynamic
    budget = {"extended_thinking": True, "thinking_budget_tokens": 99_999}
    assert _config(ask(), options=budget)["thinkingConfig"]["thinkingBudget"] == 24_576
    third = _config(ask(), options={"extended_thinking": True}, model="gemini-3-flash")
    assert third["thinkingConfig"] == {"includeThoughts": True}


def test_limits() -> None:
    """Thoughts count as output, so there is room for them on top of the longest answer; the model's limit holds."""
    assert _config(ask())["maxOutputTokens"] == 8192 + 24_576
    assert _config(ask(), model="gemini-2.0-flash", max_tokens=100)["maxOutputTokens"] == 100
    assert _config(ask(reasoning_effort="none"), max_tokens=100)["maxOutputTokens"] == 100
    assert _config(ask(reasoning_effort="low"), max_tokens=100)["maxOutputTokens"] == 1124
    assert _config(ask(max_output_tokens=50))["maxOutputTokens"] == 50
    assert _config(ask(max_output_tokens=50, reasoning_effort="low"))["maxOutputTokens"] == 1074
    assert _config(ask(max_output_tokens=10**9))["maxOutputTokens"] == 65_536


def test_sampling() -> None:
    """The request wins over the config; Gemini 3 keeps its own temperature unless one is given."""
    assert _config(ask())["temperature"] == 0.7
    assert _config(ask(temperature=0.1, top_p=0.5, stop=["x"])) == {
        **_config(ask()),
        "temperature": 0.1,
        "topP": 0.5,
        "stopSequences": ["x"],
    }
    assert "temperature" not in _config(ask(), temperature=None)
    assert "temperature" not in _config(ask(), model="gemini-3-flash")
    assert _config(ask(), model="gemini-3-flash", temperature=0.7)["temperature"] == 0.7


@pytest.mark.parametrize(
    ("choice", "sent"),
    [
        (None, None),
        ("auto", {"mode": "AUTO"}),
        ("none", {"mode": "NONE"}),
        ("required", {"mode": "ANY"}),
        ("x", {"mode": "ANY", "allowedFunctionNames": ["x"]}),
        ({"type": "function", "function": {"name": "x"}}, {"mode": "ANY", "allowedFunctionNames": ["x"]}),
        ({"type": "tool", "name": "x"}, {"mode": "ANY", "allowedFunctionNames": ["x"]}),
        ({"type": "any"}, {"mode": "ANY"}),
    ],
)
def test_tool_choice(choice: Any, sent: dict[str, Any] | None) -> None:
    """The choice of tools is understood in every form, and left out where there are no tools."""
    config = _config(ask(tool_choice=choice, tools=("x",)))
    assert config.get("toolConfig") == (None if sent is None else {"functionCallingConfig": sent})
    assert "toolConfig" not in _config(ask(tool_choice=choice))


def test_tools() -> None:
    """Functions go with their whole schema, Google's own tools as they are."""
    native = ToolSpec.model_validate({"name": "search", "parameters": {}, "type": "google_search", "foo": 1})
    request = ask(tools=("x",))
    assert request.tools is not None
    request.tools[0].parameters["$schema"] = "s"
    request.tools = [*request.tools, native]
    functions, search = _config(request)["tools"]
    [function] = functions["functionDeclarations"]
    assert function["parametersJsonSchema"] == {"type": "object", "properties": {"where": {"type": "string"}}}
    assert search == {"google_search": {"foo": 1}}


def test_forms() -> None:
    """A schema is given as it is; any JSON needs none."""
    schema = {"type": "object", "properties": {"n": {"type": "integer", "minimum": 1}}}
    config = _config(ask(), shape=Shape(schema, "native"))
    assert (config["responseMimeType"], config["responseJsonSchema"]) == ("application/json", schema)
    anything = _config(ask(), shape=Shape(None, "native"))
    assert anything["responseMimeType"] == "application/json"
    assert "responseJsonSchema" not in anything
    assert "responseMimeType" not in _config(ask(), shape=Shape(schema, "tool"))
