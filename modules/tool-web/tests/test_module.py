"""The module in a real session: mounted, guarded, asked, closed."""

from __future__ import annotations

import asyncio
import os
import sys
from collections.abc import Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockContextManager, MockCoordinator, ScriptedOrchestrator
from amplifier_module_tool_web import mount
from amplifier_module_tool_web.call import Call

MakeSession = Callable[..., AmplifierSession]


class Context(MockContextManager):
    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages[:] = messages


@pytest.fixture(autouse=True)
def _no_proxy(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the module know of no proxy of the machine it runs on."""
    for name in [name for name in os.environ if name.lower().endswith("_proxy")]:
        monkeypatch.delenv(name)


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeSession:
    """Give `make_session(tools, engine=None)`: a session with these tools, and with an engine that a module brings."""

    def module(module_id: str, mount: Any) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(tools: list[dict[str, Any]], engine: Any = None) -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedOrchestrator([]))

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_engine(coordinator: Any, config: Any) -> None:
            if engine is not None:
                coordinator.register_capability("web.search", engine)

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("hooks-engine", mount_engine)
        plan = {
            "session": {"orchestrator": "loop-script", "context": "context-script"},
            "tools": tools,
            "hooks": [{"module": "hooks-engine"}],
        }
        session = AmplifierSession(plan)
        session.coordinator.register_capability("session.working_dir", str(tmp_path))
        return session

    return make


async def test_the_tool_works_in_a_session(make_session: MakeSession, site: Any) -> None:
    """A private host that the bundle names is fetched from, by the real resolver and guard."""
    site.text("/x", "here")
    config = {"private_hosts": [f"localhost:{site.port}"]}
    async with make_session([{"module": "tool-web", "config": config}]) as session:
        tools = session.coordinator.get("tools")
        assert sorted(tools) == ["web_fetch", "web_search"]
        result = await tools["web_fetch"].execute({"url": site.url("/x", "localhost")})
        events = await session.coordinator.collect_contributions("observability.events")
    assert result.output["content"] == "here"
    assert ["tool:progress"] in events


@pytest.mark.parametrize(
    "host", ["127.0.0.1", "localhost", "[::1]", "[::ffff:127.0.0.1]", "0.0.0.0", "127.0.0.2", "LOCALHOST."]
)
async def test_this_machine_is_not_reached_by_default(make_session: MakeSession, site: Any, host: str) -> None:
    """Without an exception no form of this machine's address is connected to."""
    site.text("/x", "secret")
    async with make_session([{"module": "tool-web"}]) as session:
        result = await session.coordinator.get("tools")["web_fetch"].execute({"url": site.url("/x", host)})
    assert result.error["code"] in ("address_refused", "unreachable")  # a machine may have no IPv6 name
    assert site.asked == []


async def test_blocked_addresses_hold_for_private_hosts(make_session: MakeSession, site: Any) -> None:
    """The start of an address that the bundle blocks is not reached by a name that it allows."""
    site.text("/x", "here")
    config = {"private_hosts": [f"localhost:{site.port}"], "blocked_domains": ["127."]}
    async with make_session([{"module": "tool-web", "config": config}]) as session:
        result = await session.coordinator.get("tools")["web_fetch"].execute({"url": site.url("/x", "localhost")})
    assert not result.success
    assert site.asked == []


@pytest.mark.parametrize("variable", ["AMPLIFIER_TEST", "PYTEST_CURRENT_TEST", "NO_PROXY", "no_proxy"])
async def test_no_variable_weakens_the_guard(
    make_session: MakeSession, site: Any, monkeypatch: pytest.MonkeyPatch, variable: str
) -> None:
    """Nothing in the environment opens the way to this machine."""
    monkeypatch.setenv(variable, "127.0.0.1")
    async with make_session([{"module": "tool-web"}]) as session:
        result = await session.coordinator.get("tools")["web_fetch"].execute({"url": site.url("/x", "127.0.0.1")})
    assert result.error["code"] == "address_refused"


async def test_an_engine_of_a_later_module_is_found(make_session: MakeSession) -> None:
    """Tools are mounted before hooks; an engine that a hook brings is found all the same."""

    async def engine(query: str, max_results: int) -> list[dict[str, str]]:
        return [{"title": "T", "url": "https://a.example/", "snippet": query}]

    async with make_session([{"module": "tool-web"}], engine) as session:
        tools = session.coordinator.get("tools")
        assert sorted(tools) == ["web_fetch", "web_search"]
        assert (await tools["web_search"].execute({"query": "mill"})).output["count"] == 1


async def test_a_child_may_lack_the_engine(make_session: MakeSession) -> None:
    """Two sessions in one process do not share what they have."""

    async def engine(query: str, max_results: int) -> list[Any]:
        return []

    plan = [{"module": "tool-web", "config": {"search_engine": "none"}}]
    async with make_session(plan, engine) as one, make_session(plan) as other:
        assert "web_search" in one.coordinator.get("tools")
        assert "web_search" not in other.coordinator.get("tools")


async def test_cleanup_closes_every_connection(site: Any) -> None:
    """Connections are kept for the next fetch and closed with the session."""
    coordinator = MockCoordinator()
    close = await mount(coordinator, {"private_hosts": [f"127.0.0.1:{site.port}"]})
    site.text("/x", "x")
    ports: list[int] = []

    def answer(handler: Any) -> None:
        ports.append(handler.client_address[1])
        site.answers["/x"](handler)

    site.answers["/y"] = answer
    tool = coordinator.get("tools")["web_fetch"]
    for _ in range(2):
        assert (await tool.execute({"url": site.url("/y", "127.0.0.1")})).success
    assert len(set(ports)) == 1
    await close()
    await close()
    # The loop's own tasks apart, nothing is left that could be awaited.
    assert [task for task in asyncio.all_tasks() if task is not asyncio.current_task()] == []


@pytest.mark.parametrize(
    "config", [{"timeout": "soon"}, {"allowed_domains": ["http://x"]}, {"working_dir": "\0"}, {"working_dir": __file__}]
)
async def test_an_invalid_config_fails_the_mount(config: dict[str, Any]) -> None:
    """Nothing is mounted with a config that cannot be meant."""
    coordinator = MockCoordinator()
    with pytest.raises(ValueError, match="tool-web"):
        await mount(coordinator, config)
    assert coordinator.get("tools") == {}


async def test_a_working_directory_that_is_no_path_fails_the_mount() -> None:
    """A session whose working directory is not a path is refused at once, and not when the first file is saved."""
    coordinator = MockCoordinator()
    coordinator.register_capability("session.working_dir", 3)
    with pytest.raises(ValueError, match=r"session\.working_dir must be a path"):
        await mount(coordinator, {})
    assert coordinator.get("tools") == {}


async def test_progress_carries_the_call(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever watches a call knows whose progress it is."""
    coordinator = MockCoordinator()
    seen: list[dict[str, Any]] = []

    async def record(event: str, data: dict[str, Any]) -> None:
        seen.append(data)

    coordinator.hooks.register("tool:progress", record, name="recorder")
    coordinator._tool_dispatch_contexts = {asyncio.current_task(): {"tool_call_id": "call-7"}}
    monkeypatch.setattr("amplifier_module_tool_web.call._PAUSE", 0)
    await Call(coordinator, "web_fetch", {}).report("https://a.example/", 5, None)
    assert seen[0]["tool_call_id"] == "call-7"
    assert seen[0]["message"] == "https://a.example/: 5 bytes"
