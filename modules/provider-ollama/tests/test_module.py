"""The module in a session."""

from __future__ import annotations

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
from amplifier_kit.llm.testing import ModelServer, OllamaWire, Said
from amplifier_module_provider_ollama import mount

WIRE = OllamaWire()
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Give a running server."""
    with ModelServer() as server:
        yield server


async def test_wrong_values_do_not_mount() -> None:
    """A value that cannot be used is an error that names its key."""
    for key, value in {"host": "ftp://x", "num_ctx": -1, "max_tokens": 0, "auto_pull": "maybe", "debug": 7}.items():
        with pytest.raises(ValueError, match=key):
            await mount(MockCoordinator(), {key: value})


async def test_the_environment_names_the_host(monkeypatch: pytest.MonkeyPatch) -> None:
    """`OLLAMA_HOST` says where the server is, and the config wins over it."""
    monkeypatch.setenv("OLLAMA_HOST", "0.0.0.0:1")
    for config, host in (({}, "http://127.0.0.1:1"), ({"host": "box"}, "http://box:11434")):
        coordinator: MockCoordinator = MockCoordinator()
        await mount(coordinator, config)
        assert coordinator.get("providers", "ollama").base_url == host


async def test_the_example() -> None:
    """The README's example can be mounted."""
    found = re.search(r"```yaml\n(.*?)```", README, flags=re.S)
    assert found is not None
    [entry] = yaml.safe_load(found[1])["providers"]
    coordinator: MockCoordinator = MockCoordinator()
    assert entry["module"] == "provider-ollama"
    await mount(coordinator, entry["config"])
    assert coordinator.get("providers", "ollama").get_model_info().context_window == 32_768


async def test_what_is_contributed() -> None:
    """The provider is mounted without a server, tells its events, and needs no key."""
    coordinator: MockCoordinator = MockCoordinator()
    cleanup = await mount(coordinator)
    [events] = await coordinator.collect_contributions("observability.events")
    assert {"llm:stream_block_delta", "provider:concurrency", "provider:pull"} <= set(events)
    assert await coordinator.collect_contributions("session.cost") == []
    provider = coordinator.get("providers", "ollama")
    info = provider.get_info()
    assert (info.id, info.credential_env_vars, provider.settings.timeout) == ("ollama", [], 300)
    assert info.defaults["model"] == "llama3.2:3b"
    assert [field.id for field in info.config_fields] == ["host"]
    await cleanup()


def test_no_sdk_before_the_first_call() -> None:
    """Mounting imports no SDK and no HTTP library."""
    code = (
        "import asyncio, sys\n"
        "from amplifier_core.testing import MockCoordinator\n"
        "from amplifier_module_provider_ollama import mount\n"
        "asyncio.run(mount(MockCoordinator(), {}))\n"
        "print([n for n in ('ollama', 'httpx', 'httpx2', 'genai_prices', 'jsonschema') if n in sys.modules])"
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
            {"module": "provider-ollama", "config": {"host": f"{server.url}/two"}},
            {
                "module": "provider-ollama",
                "instance_id": "ollama-qwen",
                "config": {
                    "host": f"{server.url}/one",
                    "priority": 1,
                    "default_model": "qwen3:8b",
                    "num_ctx": 32_768,
                },
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
    assert (first["model"], first["think"]) == ("qwen3:8b", True)
    said = [message for message in second["messages"] if message["role"] in ("assistant", "tool")]
    assert said[0]["thinking"] == "Hm."
    assert [message.get("tool_call_id") for message in said] == [None, "t1", "t2"]
    told = [data["text"] for event, data in heard if event == "llm:stream_block_delta" and data["block_type"] == "text"]
    assert "".join(told) == "Let me see.All done."
    assert [data for event, data in heard if event in ("provider:error", "tool:error")] == []
