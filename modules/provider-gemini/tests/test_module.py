"""The module in a session."""

from __future__ import annotations

import logging
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_kit.llm.testing import GeminiWire, ModelServer, Said
from amplifier_module_provider_gemini import mount

WIRE = GeminiWire()
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Give a running server."""
    with ModelServer() as server:
        yield server


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


def test_no_sdk_before_the_first_call() -> None:
    """Mounting imports no SDK, no HTTP library and no price list."""
    code = (
        "import asyncio, sys\n"
        "from amplifier_core.testing import MockCoordinator\n"
        "from amplifier_module_provider_gemini import mount\n"
        "asyncio.run(mount(MockCoordinator(), {'api_key': 'x'}))\n"
        "print([n for n in ('google.genai', 'httpx2', 'genai_prices', 'jsonschema') if n in sys.modules])"
    )
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout.strip() == "[]"


async def test_a_session(server: ModelServer) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    look = (("t1", "todo", {"action": "list"}), ("t2", "todo", {"action": "list"}))
    server.answers(
        WIRE.reply(Said(("Let me see.",), ("Hm.",), calls=look)), WIRE.reply(Said(("All", " done."))), path="/one"
    )
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
        "orchestrator": {"config": {"extended_thinking": True}},
        "providers": [
            {"module": "provider-gemini", "config": {"base_url": f"{server.url}/two"}},
            {
                "module": "provider-gemini",
                "instance_id": "gemini-pro",
                "config": {"base_url": f"{server.url}/one", "priority": 1, "default_model": "gemini-2.5-pro"},
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
    assert messages[1]["content"][2]["gemini:thought_signature"] == Said().signature
    assert float(cost["cost_usd"]) > 0
    model, results = server.bodies[1]["contents"][1:3]
    assert [part.get("thoughtSignature") for part in model["parts"]] == [None, Said().signature, None]
    assert [part["functionResponse"]["id"] for part in results["parts"]] == ["t1", "t2"]
    assert "/gemini-2.5-pro:" in server.requests[0].path
    said = [data["text"] for event, data in heard if event == "llm:stream_block_delta" and data["block_type"] == "text"]
    assert "".join(said) == "Let me see.All done."
    assert [data["text"] for event, data in heard if event == "thinking:final"] == ["Hm."]
    assert [data for event, data in heard if event in ("provider:error", "tool:error")] == []
