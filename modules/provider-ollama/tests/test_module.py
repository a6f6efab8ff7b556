"""The module in a session."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_module_provider_ollama import mount
from amplifier_testing.llm import ModelServer, OllamaWire

WIRE = OllamaWire()
README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


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


def test_no_sdk_before_the_first_call(imported_by_mounting: Callable[..., list[str]]) -> None:
    """Mounting imports no SDK and no HTTP library."""
    names = ("ollama", "httpx", "httpx2", "genai_prices", "jsonschema")
    assert imported_by_mounting("amplifier_module_provider_ollama", {}, *names) == []


async def test_a_session(server: ModelServer, todo_session: Callable[..., Awaitable[Any]]) -> None:
    """Two instances in a real session: thinking, two parallel tools, the answer, the events and the transcript."""
    config = {"default_model": "qwen3:8b", "num_ctx": 32_768}
    done = await todo_session(WIRE, "provider-ollama", address="host", instance="ollama-qwen", config=config)
    assert done.cost == {"cost_usd": "0"}
    first, second = server.bodies
    assert (first["model"], first["think"]) == ("qwen3:8b", True)
    said = [message for message in second["messages"] if message["role"] in ("assistant", "tool")]
    assert said[0]["thinking"] == "Hm."
    assert [message.get("tool_call_id") for message in said] == [None, "t1", "t2"]
