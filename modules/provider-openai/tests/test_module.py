"""The module in a session."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_openai import mount
from amplifier_testing.llm import ModelServer, ResponsesWire, Said

WIRE = ResponsesWire()


async def test_without_a_key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without a key nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv("OPENAI_API_KEY")
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {"api_key": "${OPENAI_API_KEY}"}) is None
    assert "OPENAI_API_KEY" in caplog.text
    assert coordinator.get("providers") == {}


@pytest.mark.parametrize(
    ("key", "value"),
    [
        ("reasoning", "huge"),
        ("reasoning", {"effort": "huge"}),
        ("max_tokens", 0),
        ("timeout", -1),
        ("reasoning_summary", "long"),
        ("truncation", "yes"),
        ("enable_response_chaining", "perhaps"),
        ("prompt_cache_retention", "1y"),
        ("background_timeout", 0),
    ],
)
async def test_wrong_values_do_not_mount(key: str, value: Any) -> None:
    """A value that cannot be used is an error that names its key."""
    with pytest.raises(ValueError, match=key):
        await mount(MockCoordinator(), {key: value})


async def test_what_is_contributed() -> None:
    """The provider tells its events, and what it cost once it was asked something."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    [events] = await coordinator.collect_contributions("observability.events")
    assert {
        "llm:stream_block_delta",
        "provider:incomplete_continuation",
        "provider:background_status",
        "provider:response_chain_invalidated",
    } <= set(events)
    assert await coordinator.collect_contributions("session.cost") == []
    info = coordinator.get("providers", "openai").get_info()
    assert (info.id, info.credential_env_vars) == ("openai", ["OPENAI_API_KEY"])
    assert info.defaults["model"] == "gpt-5.5"
    assert [field.id for field in info.config_fields] == ["api_key", "base_url"]
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("openai", "httpx2", "genai_prices", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_openai", {"api_key": "sk-x"}, *names) == []


async def test_a_session(server: ModelServer, todo_session: Callable[..., Awaitable[Any]]) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    config = {"default_model": "gpt-5.4-mini"}
    done = await todo_session(WIRE, "provider-openai", address="base_url", instance="gpt-fast", config=config)
    assert done.messages[1]["content"][0]["content"][0]["encrypted_content"] == Said().signature
    assert float(done.cost["cost_usd"]) > 0
    first, second = server.bodies
    assert (first["model"], first["reasoning"]) == ("gpt-5.4-mini", {"summary": "detailed"})
    results = [item for item in second["input"] if item["type"] == "function_call_output"]
    assert [item["call_id"] for item in results] == ["t1", "t2"]
