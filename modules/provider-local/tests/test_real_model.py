"""The real model answers: real llama.cpp, real weights, a real child process."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.llm_errors import ConfigurationError, ContextLengthError
from amplifier_core.message_models import ResponseFormatJsonSchema
from amplifier_core.testing import wait_for
from amplifier_kit.llm.request import LLMCall, read_conversation
from amplifier_module_provider_local import LocalProvider
from amplifier_module_provider_local.models import LEAN_TOOLS
from amplifier_testing.llm.rig import ask

Make = Callable[..., LocalProvider]
Pid = Callable[[LocalProvider], Awaitable[int | None]]

SCHEMA = {
    "type": "object",
    "properties": {"city": {"type": "string", "maxLength": 12}, "people": {"type": "integer"}},
    "required": ["city", "people"],
    "additionalProperties": False,
}


def heard(provider: LocalProvider) -> list[tuple[str, dict[str, Any]]]:
    """Return the list that the provider's events go to from now on."""
    events: list[tuple[str, dict[str, Any]]] = []
    provider.coordinator.hooks.register("*", lambda event, data: events.append((event, data)))
    return events


async def test_text_streams(make: Make) -> None:
    """A turn tells that the model is loaded, streams its text, and counts tokens that cost nothing."""
    provider = make()
    events = heard(provider)
    response = await provider.complete(ask("Say hello."))
    pieces = [data["text"] for event, data in events if event == "llm:stream_block_delta"]
    assert len(pieces) > 1
    assert "".join(pieces) == response.text
    phases = [data["phase"] for event, data in events if event == "provider:progress"]
    assert phases[:2] == ["loading", "loaded"]
    shown = provider.coordinator.display_system.show_message.call_args_list
    assert [call.args[0].split(" (")[0] for call in shown] == ["loading smollm2-135m"]
    assert response.usage is not None
    assert response.usage.input_tokens > 5
    assert response.usage.output_tokens > 1
    assert str(response.usage.cost_usd) == "0"
    await provider.complete(ask("Say hello."))
    assert sum(event == "provider:progress" and data["phase"] == "loading" for event, data in events) == 1


async def test_a_call_that_must_be_made(make: Make) -> None:
    """A tool that is required is called in the form of its schema; one that is named is the one that is called."""
    provider = make(max_tokens=200)
    for choice in ("required", {"type": "tool", "name": "look"}):
        request = ask("Where are my keys?", tools=("go", "look"), tool_choice=choice)
        response = await provider.complete(request)
        [call] = response.tool_calls or []
        assert call.name in (("go", "look") if choice == "required" else ("look",))
        assert set(call.arguments) <= {"where"}
        assert response.finish_reason == "tool_use"
        assert response.text is None


AWKWARD: list[dict[str, Any]] = [
    {},
    {"type": "object"},
    {"properties": {"a": {}}, "required": ["a", "gone"]},
    {"properties": {"a": {"type": "string", "pattern": "(?=x)y", "format": "weird"}}, "required": ["a"]},
    {"properties": {"a": {"type": ["string", "null"]}, "b": {"oneOf": [{"type": "integer"}, {"const": "x"}]}}},
    {"properties": {"a": {"$ref": "#/$defs/n"}}, "$defs": {"n": {"properties": {"n": {"$ref": "#/$defs/n"}}}}},
    {"properties": {"a": {"$ref": "http://example.com/x"}, "b": {"$ref": "#/nowhere"}}, "required": ["a", "b"]},
    {"properties": {"a": {"type": "nonsense", "enum": []}, "b": {"minLength": 9, "maxLength": 1}}, "required": ["a"]},
    {"properties": {"a": {"type": "array", "items": {"enum": ["ä", "\u2028"]}, "minItems": 1}}, "required": ["a"]},
    {"properties": {"a": False, "b": True}, "required": ["a", "b"], "additionalProperties": {"type": "number"}},
    {"allOf": [{"properties": {"a": {}}}], "not": {"required": ["b"]}, "if": {}, "dependentRequired": {"a": ["b"]}},
]


async def test_awkward_schemas_hold_all_the_same(make: Make) -> None:
    """The engine does without a grammar it cannot read, and says nothing: so there must be none that it cannot."""
    provider = make()
    client = await provider.client()
    brief = {"messages": [{"role": "user", "content": "Hello."}], "stream": False, "max_tokens": 8}
    for schema in AWKWARD:
        request = ask("Hello.", tools=("look",), tool_choice="required")
        assert request.tools is not None
        request.tools[0].parameters = schema
        body = provider.payload(LLMCall(request, read_conversation(request.messages), provider.model, streams=False))
        async with provider.asking(client, provider.model) as http:
            answer = await http.post("/v1/chat/completions", json={**body, **brief})
        said = answer.json()["choices"][0]["message"]["content"]
        assert '<tool_call>\n{"name": "look", "arguments": '.startswith(said[:20]), schema


async def test_an_answer_in_a_form(make: Make) -> None:
    """An output schema holds the model to it, also when it has tools that it could call instead."""
    wanted = ResponseFormatJsonSchema(json_schema=SCHEMA)
    provider = make(max_tokens=100, lean=False)
    answer = await provider.complete(ask("Describe Rome.", response_format=wanted))
    assert set(json.loads(answer.text or "")) == {"city", "people"}
    either = await provider.complete(ask("Describe Rome.", response_format=wanted, tools=("look",)))
    assert either.tool_calls or set(json.loads(either.text or "")) == {"city", "people"}


async def test_a_conversation_that_is_too_long(make: Make) -> None:
    """What does not fit is the error that makes loops compact, says what to raise, and is not tried again."""
    provider = make(context_window=256)
    events = heard(provider)
    with pytest.raises(ContextLengthError, match=r"256 tokens.*`context_window`, at most 8192"):
        await provider.complete(ask("word " * 500))
    assert [data["attempts"] for event, data in events if event == "llm:response"] == [1]
    assert (await provider.complete(ask("Say hello."))).text


async def test_an_answer_that_is_cut(make: Make) -> None:
    """An answer that reaches its limit says so."""
    response = await make(max_tokens=3).complete(ask("Tell me a story."))
    assert response.finish_reason == "length"


async def test_any_file_by_its_path(make: Make, weights: Path, tmp_path: Path) -> None:
    """Any GGUF file answers under its own name, whatever its path looks like, with the whole prompt."""
    folder = tmp_path / "my mödels"
    folder.mkdir()
    (folder / "tiny model.gguf").symlink_to(weights)
    provider = make(model_path=str(folder / "tiny model.gguf"))
    assert provider.model == "tiny model"
    assert not provider._is_lean(provider.model)
    assert (await provider.complete(ask("Say hello."))).text
    by_name = make(default_model=str(folder / "tiny model.gguf"))
    assert (await by_name.complete(ask("Say hello."))).text
    assert [model.id for model in await by_name.list_models()] == ["tiny model", "smollm2-135m"]


async def test_a_file_that_is_cut_short(make: Make, weights: Path, tmp_path: Path) -> None:
    """A model that cannot be loaded is a typed error with the engine's reason, tried once."""
    with weights.open("rb") as whole:
        (tmp_path / "cut.gguf").write_bytes(whole.read(3_000_000))
    provider = make(model_path=str(tmp_path / "cut.gguf"))
    events = heard(provider)
    with pytest.raises(ConfigurationError, match=r"cut\.gguf cannot be loaded: .*corrupted or incomplete"):
        await provider.complete(ask())
    assert [data["attempts"] for event, data in events if event == "llm:response"] == [1]


async def test_cancelling_stops_the_engine(make: Make, pid_of: Pid) -> None:
    """A cancelled call makes the engine stop computing, and the next call is answered by the same process."""
    provider = make(max_tokens=3500, context_window=4096)
    events = heard(provider)
    request = ask("Look.", tools=("look",), tool_choice="required")
    assert request.tools is not None
    endless = {
        "type": "object",
        "properties": {"where": {"type": "string", "minLength": 20_000}},
        "required": ["where"],
    }
    request.tools[0].parameters = endless
    task = asyncio.create_task(provider.complete(request))
    assert await wait_for(lambda: any(event == "llm:stream_block_delta" for event, _ in events), timeout=60)
    pid = await pid_of(provider)
    assert pid is not None
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert [data["error"]["type"] for event, data in events if event == "llm:stream_aborted"] == ["CancelledError"]
    for _ in range(40):
        before = _cpu_ticks(pid)
        await asyncio.sleep(0.5)
        if _cpu_ticks(pid) == before:
            break
    else:
        pytest.fail("the engine went on computing")
    provider.settings = provider.settings.model_copy(update={"max_tokens": 24})
    assert (await provider.complete(ask("Say hello."))).text
    assert await pid_of(provider) == pid


def _cpu_ticks(pid: int) -> int:
    fields = Path(f"/proc/{pid}/stat").read_text(encoding="utf-8").rpartition(")")[2].split()
    return int(fields[11]) + int(fields[12])


async def test_a_turn_of_a_session(weights: Path) -> None:
    """In a real session the real model's tokens stream to listeners, and nothing is left when it is over."""
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [{"module": "provider-local", "config": {"max_tokens": 12, "threads": 1, "context_window": 512}}],
    }
    events: list[tuple[str, dict[str, Any]]] = []
    async with AmplifierSession(plan) as session:
        session.coordinator.hooks.register("*", lambda event, data: events.append((event, data)))
        answer = await session.execute("Say hello.")
        provider = session.coordinator.get("providers", "local")
        [host] = (await provider.client()).hosts
        pid = host.pid
        [cost] = await session.coordinator.collect_contributions("session.cost")
    assert pid is not None
    assert answer.strip()
    said = "".join(data["text"] for event, data in events if event == "llm:stream_block_delta")
    assert said == answer
    assert cost == {"cost_usd": "0"}
    with pytest.raises(ProcessLookupError):
        os.kill(pid, 0)


@pytest.mark.usefixtures("coder")
async def test_the_model_for_code_calls_a_tool(make: Make) -> None:
    """Asked to repair a test, the larger model reads a lean prompt and calls one of its four tools, in a fence."""
    provider = make(max_tokens=200)
    assert provider.model == "qwen2.5-coder-1.5b"
    system = ("system", "Instructions of a whole session. " * 200)
    request = ask(system, "The test in test_pages.py fails. Repair pages.py.").model_copy(
        update={"tools": [*LEAN_TOOLS]}
    )
    response = await provider.complete(request)
    assert [call.name in {tool.name for tool in LEAN_TOOLS} for call in response.tool_calls or ()] == [True]
    assert response.usage is not None
    assert response.usage.input_tokens < 900


@pytest.mark.usefixtures("coder")
async def test_the_model_for_code_answers_in_text(make: Make) -> None:
    """A question that needs no tool may be answered without one, also with a block of code."""
    provider = make()
    response = await provider.complete(ask("Write a Python function that adds two numbers.", max_output_tokens=80))
    assert "def " in (response.text or "")
