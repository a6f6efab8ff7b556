"""What a provider is asked: the right provider, messages it can take, tools as it knows them."""

from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core.message_models import Message
from amplifier_kit.engine.loop.request import build_messages, build_tools, choose_provider, request_view
from amplifier_testing.loop.fakes import PlainTool, ScriptedProvider


def providers(**priorities: Any) -> dict[str, Any]:
    return {name: ScriptedProvider(priority=priority) for name, priority in priorities.items()}


def test_the_lowest_priority_answers() -> None:
    """The provider with the lowest number answers; equal ones keep the order of the mount."""
    assert choose_provider(providers(a=50, b=10, c=10)).name == "b"


def test_priority_may_stand_in_the_config() -> None:
    """A provider without a priority gets the one in its config, else 100."""
    known = {"plain": SimpleNamespace(), "configured": SimpleNamespace(config={"priority": 20})}
    assert choose_provider(known).name == "configured"
    assert (
        choose_provider({"late": SimpleNamespace(priority=101), **known, "odd": SimpleNamespace(priority="1")}).name
        == "configured"
    )


def test_a_wanted_provider_is_found_by_name_or_module() -> None:
    """A wanted provider wins over priorities, by its mount name or its module id."""
    known = providers(a=1, b=2)
    assert choose_provider(known, "b") == ("b", known["b"], True)
    assert choose_provider(known, "provider-b").name == "b"


def test_a_substitute_says_that_it_is_one() -> None:
    """When the wanted provider is not mounted, another answers, and the choice says so."""
    assert choose_provider(providers(a=1), "gone")[::2] == ("a", False)


def test_the_first_one_without_priorities() -> None:
    """A loop may leave priorities aside."""
    assert choose_provider(providers(a=50, b=10), by_priority=False).name == "a"


def test_no_provider_is_an_error() -> None:
    """Without a provider the choice raises an error."""
    with pytest.raises(RuntimeError, match="No provider available"):
        choose_provider({})


async def test_contexts_old_and_new_are_understood() -> None:
    """A view is asked for where there is one; else the history, else the list."""

    class New:
        async def get_messages_for_request(self, provider: Any = None) -> list[Any]:
            return [Message(role="user", content=provider)]

    class Old:
        async def get_messages(self) -> list[Any]:
            return [{"role": "user", "content": "old"}]

    assert (await request_view(New(), "p"))[0]["content"] == "p"
    assert await request_view(Old(), "p") == [{"role": "user", "content": "old"}]
    assert await request_view(SimpleNamespace(messages=[]), "p") == []


def test_extra_keys_reach_the_provider() -> None:
    """Tool calls and other keys of a message are kept."""
    message = {"role": "assistant", "content": None, "tool_calls": [{"id": "a", "tool": "t", "arguments": {}}]}
    [built] = build_messages([message])
    assert built.content == ""
    assert built.model_dump()["tool_calls"] == message["tool_calls"]


def test_an_odd_block_is_sent_as_text(caplog: pytest.LogCaptureFixture) -> None:
    """One unknown block does not end the session; it is sent as text, with a warning."""
    [built] = build_messages([{"role": "user", "content": [{"type": "hologram", "x": 1}]}])
    assert built.content == '[{"type": "hologram", "x": 1}]'
    assert "fits no known block" in caplog.text


def test_a_message_that_cannot_be_sent_is_named() -> None:
    """The error names the message, the key and what to do."""
    with pytest.raises(ValueError, match=r"message 1 of the context \(role 'robot'\).*role"):
        build_messages([{"role": "user", "content": "hi"}, {"role": "robot", "content": "beep"}])


def test_tools_are_described() -> None:
    """A tool is described by name, description and schema; without tools there are no specs."""
    assert build_tools({}) is None
    tools = build_tools({"grep": PlainTool("grep"), "odd": SimpleNamespace(name="odd", input_schema="no")})
    assert tools is not None
    assert [(tool.name, tool.description, tool.parameters) for tool in tools] == [
        ("grep", "Does grep.", {"type": "object", "properties": {}}),
        ("odd", None, {}),
    ]


def test_a_native_tool_is_passed_through() -> None:
    """What a provider has built in is handed on with all its fields."""
    [spec] = build_tools({"web": PlainTool("web", native_tool_spec={"type": "web_search_1", "max_uses": 3})}) or []
    assert spec.model_dump()["type"] == "web_search_1"
    assert (spec.name, spec.model_dump()["max_uses"]) == ("web", 3)
