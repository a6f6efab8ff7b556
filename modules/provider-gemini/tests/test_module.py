"""The module in a session."""

from __future__ import annotations

import logging
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_gemini import mount
from amplifier_testing.llm import GeminiWire, ModelServer, Said

WIRE = GeminiWire()
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_without_a_key(monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture) -> None:
    """Without a key nothing is mounted, and a warning says what to set."""
    monkeypatch.delenv("GEMINI_API_KEY")
    coordinator: MockCoordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        assert await mount(coordinator, {"api_key": "${GOOGLE_API_KEY}"}) is None
    assert "GOOGLE_API_KEY" in caplog.text
    assert coordinator.get("providers") == {}


async def test_the_two_names_of_the_key(monkeypatch: pytest.MonkeyPatch) -> None:
    """Either variable will do, Google's first, and the config wins over both."""
    for wanted, config in (("AIza-environment-0123456789", {}), ("google", {}), ("mine", {"api_key": "mine"})):
        if wanted == "google":
            monkeypatch.setenv("GOOGLE_API_KEY", "google")
        coordinator: MockCoordinator = MockCoordinator()
        await mount(coordinator, config)
        assert coordinator.get("providers", "gemini").api_key == wanted


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"max_tokens": 0, "timeout": -1, "temperature": "warm"}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


async def test_the_example() -> None:
    """The README's example can be mounted."""
    found = re.search(r"```yaml\n(.*?)```", README, flags=re.S)
    assert found is not None
    [entry] = yaml.safe_load(found[1])["providers"]
    coordinator: MockCoordinator = MockCoordinator()
    assert entry["module"] == "provider-gemini"
    await mount(coordinator, entry["config"])
    assert coordinator.get("providers", "gemini").model == "gemini-2.5-pro"


async def test_what_is_contributed() -> None:
    """The provider tells its events, and what it cost once it was asked something."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    [events] = await coordinator.collect_contributions("observability.events")
    assert {"llm:stream_block_delta", "provider:concurrency", "thinking:final"} <= set(events)
    assert await coordinator.collect_contributions("session.cost") == []
    info = coordinator.get("providers", "gemini").get_info()
    assert (info.id, info.credential_env_vars) == ("gemini", ["GOOGLE_API_KEY", "GEMINI_API_KEY"])
    assert info.defaults["model"] == "gemini-2.5-flash"
    assert [field.id for field in info.config_fields] == ["api_key", "base_url"]
    await cleanup()


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    names = ("google.genai", "httpx2", "genai_prices", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_gemini", {"api_key": "x"}, *names) == []


async def test_a_session(server: ModelServer, todo_session: Callable[..., Awaitable[Any]]) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    config = {"default_model": "gemini-2.5-pro"}
    done = await todo_session(WIRE, "provider-gemini", address="base_url", instance="gemini-pro", config=config)
    assert done.messages[1]["content"][2]["gemini:thought_signature"] == Said().signature
    assert float(done.cost["cost_usd"]) > 0
    model, results = server.bodies[1]["contents"][1:3]
    assert [part.get("thoughtSignature") for part in model["parts"]] == [None, Said().signature, None]
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["t1", "t2"]
    assert "/gemini-2.5-pro:" in server.requests[0].path
    assert [data["text"] for event, data in done.events if event == "thinking:final"] == ["Hm."]
