"""The module in a session."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_anthropic import mount
from amplifier_module_provider_anthropic.config import DEFAULT_MODEL, AnthropicConfig
from amplifier_testing.llm import AnthropicWire, ModelServer, Said

WIRE = AnthropicWire()


async def test_without_a_key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without a key nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv("ANTHROPIC_API_KEY")
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {"api_key": "${ANTHROPIC_API_KEY}"}) is None
    assert "ANTHROPIC_API_KEY" in caplog.text
    assert coordinator.get("providers") == {}


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"effort": "huge", "max_tokens": 0, "timeout": -1, "beta_headers": 3}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


async def test_what_is_contributed() -> None:
    """The provider tells its events, and what it cost once it was asked something."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    [events] = await coordinator.collect_contributions("observability.events")
    assert {
        "llm:stream_block_delta",
        "provider:concurrency",
        "provider:circuit_open",
        "provider:circuit_closed",
        "provider:fallback",
    } <= set(events)
    assert await coordinator.collect_contributions("session.cost") == []
    info = coordinator.get("providers", "anthropic").get_info()
    assert (info.id, info.credential_env_vars) == ("anthropic", ["ANTHROPIC_API_KEY"])
    assert info.defaults["model"] == "claude-sonnet-4-6"
    assert [field.id for field in info.config_fields] == ["api_key", "base_url"]
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("anthropic", "httpx2", "genai_prices", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_anthropic", {"api_key": "sk-ant-x"}, *names) == []


async def test_a_session(server: ModelServer, todo_session: Callable[..., Awaitable[Any]]) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    config = {"default_model": "claude-haiku-4-5"}
    done = await todo_session(WIRE, "provider-anthropic", address="base_url", instance="claude-fast", config=config)
    assert done.messages[1]["content"][0]["signature"] == Said().signature
    assert float(done.cost["cost_usd"]) > 0
    first, second = server.bodies
    assert second["messages"][1]["content"][0] == {
        "type": "thinking",
        "thinking": "Hm.",
        "signature": Said().signature,
    }
    assert [block["tool_use_id"] for block in second["messages"][2]["content"][:2]] == ["t1", "t2"]
    assert first["model"] == "claude-haiku-4-5"


@pytest.mark.parametrize("model", [DEFAULT_MODEL, AnthropicConfig().fallback_sonnet_model])
def test_what_is_chosen_by_default_has_a_future(model: str) -> None:
    """No model that the SDK knows to be retired is used unless somebody names it."""
    from anthropic.resources.messages.messages import DEPRECATED_MODELS

    assert model not in DEPRECATED_MODELS
