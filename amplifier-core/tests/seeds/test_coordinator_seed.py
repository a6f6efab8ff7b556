"""The coordinator specification: every use case and example of it, run in real sessions."""

from __future__ import annotations

import asyncio
import json
import sys
from pathlib import Path
from typing import Any

import pytest

STANDARD_MODULE = """
from amplifier_core import ModuleCoordinator, ToolResult


async def mount(coordinator: ModuleCoordinator, config: dict):
    \"\"\"Mount function - receives coordinator with infrastructure.\"\"\"
    module = MyModule(coordinator, config)
    await coordinator.mount("tools", module, name="my-tool")


class MyModule:
    name = "my-tool"
    description = "Show the infrastructure"
    input_schema = {"type": "object", "properties": {}}

    def __init__(self, coordinator: ModuleCoordinator, config: dict):
        self.coordinator = coordinator  # Infrastructure context
        self.config = config  # Module-specific config

    async def execute(self, input):
        return ToolResult(success=True, output=await self.do_work())

    async def do_work(self):
        # Access infrastructure
        session_id = self.coordinator.session_id  # For persistence
        parent_id = self.coordinator.parent_id    # For lineage
        mount_plan = self.coordinator.config      # For reading agents, etc.
        loader = self.coordinator.loader          # For dynamic loading
        return session_id, parent_id, mount_plan, loader
"""

CONTEXT_MANAGER = """
import json
from pathlib import Path


class SimpleContextManager:
    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def add_message(self, message):
        # Use session_id for persistence location
        session_id = self.coordinator.session_id
        storage_path = Path("~/.amplifier/sessions") / session_id
        storage_path.mkdir(parents=True, exist_ok=True)

        with open(storage_path / "messages.jsonl", "a") as f:
            f.write(json.dumps(message) + "\\n")

    async def get_messages(self):
        storage_path = Path("~/.amplifier/sessions") / self.coordinator.session_id
        lines = (storage_path / "messages.jsonl").read_text().splitlines()
        return [json.loads(line) for line in lines]

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return await self.get_messages()

    async def set_messages(self, messages): ...

    async def clear(self): ...


async def mount(coordinator, config):
    await coordinator.mount("context", SimpleContextManager(coordinator))
"""

LOGGING_HOOK = """
class LoggingHook:
    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def on_event(self, event, data):
        # session_id already in data (from coordinator.hooks.set_default_fields)
        # But can also access directly
        session_id = self.coordinator.session_id

        log_entry = {
            "session_id": session_id,
            "event": event,
            "data": data
        }
        # Write to session-specific log
        self.coordinator.session_state.setdefault("log", []).append(log_entry)


async def mount(coordinator, config):
    hook = LoggingHook(coordinator)
    for event in ("session:start", "prompt:submit", "session:end"):
        coordinator.hooks.register(event, hook.on_event, name="logging")
"""

TASK_TOOL = """
from amplifier_core import AmplifierSession, ToolResult


def merge_configs(parent, overlay):
    return {**parent, **overlay}


class TaskTool:
    name = "task"
    description = "Hand a task to an agent"
    input_schema = {"type": "object", "properties": {"agent": {"type": "string"}}}

    def __init__(self, coordinator, config):
        self.coordinator = coordinator

    async def execute(self, input):
        agent_name = input["agent"]
        # Access parent session for spawning
        parent_session = self.coordinator.session
        agents = self.coordinator.config.get("agents", {})

        # Merge configs
        merged = merge_configs(parent_session.config, agents[agent_name])

        # Spawn child
        child = AmplifierSession(
            config=merged,
            loader=self.coordinator.loader,
            parent_id=parent_session.session_id
        )
        self.coordinator.session_state["child"] = child
        async with child:
            return ToolResult(success=True, output=await child.execute(input["task"]))


async def mount(coordinator, config):
    await coordinator.mount("tools", TaskTool(coordinator, config), name="task")
"""

PROVIDER = """
from amplifier_core import ProviderInfo


class AnthropicProvider:
    name = "anthropic"
    model = "a-model"

    def __init__(self, coordinator, config):
        self.coordinator = coordinator
        self.api_key = config.get("api_key")
        self.client = config["client"]

    def get_info(self):
        return ProviderInfo(id="anthropic", display_name="Anthropic")

    async def list_models(self):
        return []

    def parse_tool_calls(self, response):
        return []

    async def complete(self, messages, **kwargs):
        # Include session_id in API metadata for tracking
        session_id = self.coordinator.session_id

        response = await self.client.create(
            model=self.model,
            messages=messages,
            metadata={"session_id": session_id}  # Correlate API calls to sessions
        )
        return response


async def mount(coordinator, config):
    await coordinator.mount("providers", AnthropicProvider(coordinator, config), name="anthropic")
"""

COST_TRACKER = """
from collections import Counter

costs = Counter()


async def mount(coordinator, config):
    async def track(event, data):
        costs[data["session_id"]] += data["usage"]["cost"]

    coordinator.hooks.register("llm:response", track, name="cost-tracker")
"""

BACKUP_HOOK = """
from pathlib import Path


async def mount(coordinator, config):
    async def back_up(event, data):
        place = Path(coordinator.config["backups"]["path"]) / coordinator.session_id
        place.mkdir(parents=True, exist_ok=True)
        (place / "prompt.txt").write_text(data["prompt"])

    coordinator.hooks.register("prompt:submit", back_up)
"""


async def test_standard_module_pattern(bench: Any) -> None:
    """A module gets the coordinator at mount and reads ids, plan and loader from it while it works."""
    bench.install("tool-standard", STANDARD_MODULE)
    plan = bench.plan(tools=["tool-standard"])
    async with bench.session(plan, session_id="s-1", parent_id="p-1") as session:
        session_id, parent_id, mount_plan, loader = await session.execute("my-tool")
        assert (session_id, parent_id) == ("s-1", "p-1")
        assert mount_plan is plan
        assert loader is session.loader


async def test_context_manager_persists_by_session_id(
    bench: Any, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Each session's messages land in `sessions/{session_id}`, two sessions at once in two folders."""
    monkeypatch.chdir(tmp_path)  # the example does not expand `~`: it is a folder like any other
    bench.install("context-file", CONTEXT_MANAGER)
    plan = bench.plan(session={"context": {"module": "context-file"}})
    async with bench.session(plan, session_id="one") as one, bench.session(plan, session_id="two") as two:
        await asyncio.gather(one.execute("first"), two.execute("second"))
    for session_id, prompt in (("one", "first"), ("two", "second")):
        lines = (tmp_path / "~/.amplifier/sessions" / session_id / "messages.jsonl").read_text().splitlines()
        assert [json.loads(line)["content"] for line in lines] == [prompt, f"echo: {prompt}"]


async def test_logging_hook_sees_the_session_id_twice(bench: Any) -> None:
    """A hook finds the session's id in the data and on the coordinator, and they are the same."""
    bench.install("hooks-plain-log", LOGGING_HOOK)
    session = bench.session(bench.plan(hooks=["hooks-plain-log"]))
    async with session:
        await session.execute("hello")
    log = session.coordinator.session_state["log"]
    assert [entry["event"] for entry in log] == ["session:start", "prompt:submit", "session:end"]
    assert {entry["session_id"] for entry in log} == {session.session_id}
    assert {entry["data"]["session_id"] for entry in log} == {session.session_id}


async def test_task_tool_spawns_a_child(bench: Any, record: Any) -> None:
    """A tool spawns a child with the shared loader and itself as the parent, by the agent of the plan."""
    bench.install("tool-task-seed", TASK_TOOL)
    bench.install("hooks-plain-log", LOGGING_HOOK)
    agents = {"helper": {"tools": [], "hooks": [{"module": "hooks-plain-log"}], "agents": {}}}
    async with bench.session(bench.plan(tools=["tool-task-seed"], agents=agents)) as parent:
        before = json.dumps(parent.config)
        answer = await parent.execute('task {"agent": "helper", "task": "look around"}')
        child = parent.coordinator.session_state["child"]
        assert answer == "echo: look around"
        assert child.loader is parent.loader is child.coordinator.loader
        assert child.parent_id == child.coordinator.parent_id == parent.session_id
        assert child.session_id != parent.session_id
        assert {entry["data"]["parent_id"] for entry in child.coordinator.session_state["log"]} == {parent.session_id}
        assert json.dumps(parent.config) == before
        assert await parent.execute("still here") == "echo: still here"


async def test_child_announces_its_parent(bench: Any, record: Any) -> None:
    """A session with a parent says so once it is up; a root says nothing of the kind."""
    child, root = bench.session(parent_id="the-parent"), bench.session()
    heard, heard_of_root = record(child), record(root)
    async with child, root:
        pass
    (fork,) = heard.data("session:fork")
    assert (fork["parent"], fork["session_id"]) == ("the-parent", child.session_id)
    assert heard_of_root.data("session:fork") == []


async def test_provider_correlates_api_calls(bench: Any) -> None:
    """A provider reads its key from its config and sends the session's id along with every call."""
    calls: list[dict[str, Any]] = []

    class Client:
        async def create(self, **arguments: Any) -> str:
            calls.append(arguments)
            return "hello from the API"

    bench.install("provider-anthropic-seed", PROVIDER)
    entry = {"module": "provider-anthropic-seed", "config": {"api_key": "k", "client": Client()}}
    async with bench.session(bench.plan(providers=[entry])) as session:
        assert await session.execute("hi") == "hello from the API"
        assert calls[0]["metadata"] == {"session_id": session.session_id}
        assert session.coordinator.get("providers", "anthropic").api_key == "k"


async def test_cost_tracker_counts_per_session(bench: Any) -> None:
    """A module that is shared by two sessions keeps their costs apart by the id on every event."""
    package = bench.install("hooks-cost", COST_TRACKER).name
    plan = bench.plan(hooks=["hooks-cost"])
    async with bench.session(plan, session_id="cheap") as cheap, bench.session(plan, session_id="dear") as dear:
        await cheap.coordinator.hooks.emit("llm:response", {"usage": {"cost": 1}})
        for _ in range(3):
            await dear.coordinator.hooks.emit("llm:response", {"usage": {"cost": 5}})
    assert dict(sys.modules[package].costs) == {"cheap": 1, "dear": 15}


async def test_backup_hook_files_by_session_and_plan(bench: Any, tmp_path: Path) -> None:
    """A hook reads its path from the mount plan and files by the session's id."""
    bench.install("hooks-backup-seed", BACKUP_HOOK)
    plan = bench.plan(hooks=["hooks-backup-seed"], backups={"path": str(tmp_path / "backups")})
    async with bench.session(plan, session_id="b-1") as session:
        await session.execute("keep this")
    assert (tmp_path / "backups" / "b-1" / "prompt.txt").read_text() == "keep this"


async def test_every_event_carries_the_ids(bench: Any, record: Any) -> None:
    """Session and parent id are on every event that any module emits."""
    bench.install("tool-standard", STANDARD_MODULE)
    session = bench.session(bench.plan(tools=["tool-standard"]), session_id="child", parent_id="root")
    heard = record(session)
    async with session:
        await session.execute("hi")
        await session.execute("my-tool")
    assert {"session:fork", "session:start", "prompt:submit", "tool:pre", "tool:post", "session:end"} <= set(
        heard.names
    )
    assert {(data["session_id"], data["parent_id"]) for _, data in heard.events} == {("child", "root")}


async def test_future_identity_is_here(bench: Any, record: Any) -> None:
    """turn_id and span_id are None outside a turn, and one turn's events share one turn_id."""
    async with bench.session() as session:
        heard = record(session)
        assert (session.coordinator.turn_id, session.coordinator.span_id) == (None, None)
        await session.execute("one")
        first = {data["turn_id"] for _, data in heard.events}
        heard.events.clear()
        await session.execute("two")
        second = {data["turn_id"] for _, data in heard.events}
        assert len(first) == len(second) == 1
        assert first != second
        assert all(data["span_id"] for _, data in heard.events)


async def test_module_loaded_on_demand(bench: Any) -> None:
    """After initialize, a module is loaded through coordinator.loader and is there for the next turn."""
    bench.install("tool-standard", STANDARD_MODULE)
    async with bench.session() as session:
        assert session.coordinator.get("tools") == {}
        mount = await session.coordinator.loader.load("tool-standard", {"depth": 2}, coordinator=session.coordinator)
        await mount(session.coordinator)
        assert session.coordinator.get("tools", "my-tool").config == {"depth": 2}
        assert (await session.execute("my-tool"))[0] == session.session_id
