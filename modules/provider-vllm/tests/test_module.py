"""The module in a session."""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_vllm import mount
from amplifier_testing.llm import ChatWire, ModelServer, ResponsesWire, Said


async def test_without_a_server(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without an address nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv("VLLM_BASE_URL")
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {"base_url": "${VLLM_BASE_URL}"}) is None
    assert "VLLM_BASE_URL" in caplog.text
    assert coordinator.get("providers") == {}


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_wrong_values_do_not_mount(api: str) -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"api": "soap", "max_tokens": -1, "timeout": -1, "warmup_retries": -1, "free": "x"}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {"api": api, key: value})


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_what_is_contributed(api: str) -> None:
    """The provider tells its events, its limits, and what a wizard asks for."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator, {"api": api})
    [events] = await coordinator.collect_contributions("observability.events")
    assert {
        "llm:stream_block_delta",
        "provider:concurrency",
        "provider:circuit_open",
        "provider:circuit_closed",
    } <= set(events)
    provider = coordinator.get("providers", "vllm")
    info = provider.get_info()
    assert (info.id, info.credential_env_vars) == ("vllm", ["VLLM_API_KEY"])
    assert info.defaults == {"model": "openai/gpt-oss-20b", "context_window": 128_000, "max_output_tokens": 32_768}
    assert [field.id for field in info.config_fields] == ["base_url", "api_key", "default_model"]
    assert (provider.settings.timeout, provider.settings.stream_idle_timeout) == (600, 300)
    assert (provider.settings.max_retries, provider.base_url) == (5, "http://127.0.0.1:9/v1")
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("openai", "httpx2", "genai_prices", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_vllm", {"base_url": "http://localhost:1"}, *names) == []


@pytest.mark.parametrize("api", ["responses", "chat"])
async def test_a_session(api: str) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    wire = ChatWire() if api == "chat" else ResponsesWire()
    look = (("t1", "todo", {"action": "list"}), ("t2", "todo", {"action": "list"}))
    heard: list[tuple[str, dict[str, Any]]] = []
    with ModelServer() as server:
        server.answers(
            wire.reply(Said(("Let me see.",), ("Hm.",), calls=look)), wire.reply(Said(("All", " done."))), path="/one"
        )
        plan: dict[str, Any] = {
            "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
            "providers": [
                {"module": "provider-vllm", "config": {"base_url": f"{server.url}/two"}},
                {
                    "module": "provider-vllm",
                    "instance_id": "mine",
                    "config": {"base_url": f"{server.url}/one", "priority": 1, "api": api, "free": True},
                },
            ],
            "tools": [{"module": "tool-todo"}],
        }
        async with AmplifierSession(plan) as session:
            session.coordinator.register_policy("all", lambda action, details: "allow", 1)
            session.coordinator.hooks.register("*", lambda event, data: heard.append((event, data)))
            assert await session.execute("what is to do?") == "All done."
            messages = await session.coordinator.get("context").get_messages()
            [cost] = await session.coordinator.collect_contributions("session.cost")
    assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
    assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text", "tool_call", "tool_call"]
    assert cost == {"cost_usd": "0"}
    said = [data["text"] for event, data in heard if event == "llm:stream_block_delta" and data["block_type"] == "text"]
    assert "".join(said) == "Let me see.All done."
    assert [data for event, data in heard if event in ("provider:error", "tool:error")] == []
