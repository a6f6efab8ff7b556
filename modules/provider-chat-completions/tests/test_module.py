"""The module in a session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_chat_completions import mount
from amplifier_testing.llm import ChatWire, ModelServer, Said
from amplifier_testing.llm.rig import ask

WIRE = ChatWire()
ENV = "CHAT_COMPLETIONS_BASE_URL"


async def test_without_a_server(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without an address nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv(ENV)
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {"base_url": "${CHAT_COMPLETIONS_BASE_URL}"}) is None
    assert ENV in caplog.text
    assert coordinator.get("providers") == {}


@pytest.mark.parametrize(
    ("config", "env", "url"),
    [
        ({"base_url": "http://own:1/v1"}, "http://env:2", "http://env:2/v1"),
        ({"base_url": "http://own:1"}, None, "http://own:1/v1"),
        ({"name": "other", "base_url": "http://own:1"}, "http://env:2", "http://own:1/v1"),
        ({"name": "other"}, "http://env:2", "http://env:2/v1"),
    ],
)
async def test_where_the_server_is(
    monkeypatch: pytest.MonkeyPatch, config: dict[str, Any], env: str | None, url: str
) -> None:
    """The environment wins, but not over an instance with a name and an address of its own."""
    monkeypatch.delenv(ENV)
    if env is not None:
        monkeypatch.setenv(ENV, env)
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, config)
    [provider] = coordinator.get("providers").values()
    assert (provider.base_url, provider.name) == (url, config.get("name", "chat-completions"))


async def test_keys_stay_with_their_server(monkeypatch: pytest.MonkeyPatch) -> None:
    """The environment's key belongs to the environment's server; another instance does not send it."""
    monkeypatch.setenv("CHAT_COMPLETIONS_API_KEY", "sk-environment")
    coordinator: MockCoordinator = MockCoordinator()
    await mount(coordinator, {})
    await mount(coordinator, {"name": "other", "base_url": "http://other:1"})
    await mount(coordinator, {"name": "third", "base_url": "http://third:1", "api_key": "sk-own"})
    await mount(coordinator, {"name": "plain", "base_url": "http://plain:1", "api_key": "not-needed"})
    keys = {name: provider.api_key for name, provider in coordinator.get("providers").items()}
    assert keys == {"chat-completions": "sk-environment", "other": None, "third": "sk-own", "plain": None}


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"temperature": "hot", "max_tokens": -1, "timeout": -1, "structured_output": "magic"}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


async def test_what_is_contributed() -> None:
    """The provider tells its events, and what it cost once it was asked something."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator, {"context_window": 9000})
    [events] = await coordinator.collect_contributions("observability.events")
    assert {
        "llm:stream_block_delta",
        "provider:concurrency",
        "provider:circuit_open",
        "provider:circuit_closed",
    } <= set(events)
    assert await coordinator.collect_contributions("session.cost") == []
    info = coordinator.get("providers", "chat-completions").get_info()
    assert (info.id, info.credential_env_vars) == ("chat-completions", ["CHAT_COMPLETIONS_API_KEY"])
    assert info.defaults == {"model": "default", "context_window": 9000, "max_output_tokens": 4096}
    assert [field.id for field in info.config_fields] == ["base_url", "api_key", "default_model"]
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("openai", "httpx2", "genai_prices", "jsonschema")
    assert (
        imported_by_mounting("amplifier_module_provider_chat_completions", {"base_url": "http://localhost:1"}, *names)
        == []
    )


async def test_two_servers(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances of different names ask their own servers and count their own costs."""
    monkeypatch.delenv(ENV)
    server.answers(WIRE.reply(Said(("one",))), path="/one")
    server.answers(WIRE.reply(Said(("two",))), path="/two")
    coordinator: MockCoordinator = MockCoordinator()
    cleanups = [
        await mount(coordinator, {"name": name, "base_url": f"{server.url}/{name}", "free": name == "one"})
        for name in ("one", "two")
    ]
    providers = coordinator.get("providers")
    assert [(await providers[name].complete(ask())).text for name in ("one", "two")] == ["one", "two"]
    costs = await coordinator.collect_contributions("session.cost")
    assert [cost["cost_usd"] for cost in costs] == ["0", None]
    for cleanup in cleanups:
        await cleanup()


async def test_a_session(server: ModelServer, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    monkeypatch.delenv(ENV)
    look = (("t1", "todo", {"action": "list"}), ("t2", "todo", {"action": "list"}))
    server.answers(
        WIRE.reply(Said(("Let me see.",), ("Hm.",), calls=look)), WIRE.reply(Said(("All", " done."))), path="/one"
    )
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "providers": [
            {"module": "provider-chat-completions", "config": {"base_url": f"{server.url}/two"}},
            {
                "module": "provider-chat-completions",
                "instance_id": "mine",
                "config": {"base_url": f"{server.url}/one", "priority": 1, "default_model": "m-1", "free": True},
            },
        ],
        "tools": [{"module": "tool-todo"}],
    }
    heard: list[tuple[str, dict[str, Any]]] = []
    async with AmplifierSession(plan) as session:
        session.coordinator.register_policy("all", lambda action, details: "allow", 1)
        session.coordinator.hooks.register("*", lambda event, data: heard.append((event, data)))
        assert await session.execute("what is to do?") == "All done."
        messages = await session.coordinator.get("context").get_messages()
        [cost] = await session.coordinator.collect_contributions("session.cost")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text", "tool_call", "tool_call"]
    assert cost == {"cost_usd": "0"}
    first, second = server.bodies
    assert first["model"] == "m-1"
    assert second["messages"][: len(first["messages"])] == first["messages"]
    assert second["messages"][len(first["messages"])]["reasoning_details"][0]["text"] == "Hm."
    assert [message.get("tool_call_id") for message in second["messages"][-2:]] == ["t1", "t2"]
    said = [data["text"] for event, data in heard if event == "llm:stream_block_delta" and data["block_type"] == "text"]
    assert "".join(said) == "Let me see.All done."
    assert [data for event, data in heard if event in ("provider:error", "tool:error")] == []
