"""Sessions that start others: a tree in a folder of its own, played by provider-mock."""

import asyncio
import json
import sys
import types
import uuid
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any, NamedTuple

import pytest

from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.log.reader import read_log
from amplifier_testing.loop.fakes import PlainTool


class Tree:
    """A place for sessions that start others, and what they are made of."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.home = folder / "home"
        self.project = folder / "a project"
        self.project.mkdir()
        self.home.mkdir()
        (self.home / "policy.yaml").write_text(
            "rules:\n  - {action: tool.look, verdict: allow}\n  - {action: tool.wait, verdict: allow}\n"
            "  - {action: tool.call, verdict: allow}\n",
            encoding="utf-8",
        )
        self.plan: dict[str, Any] = {
            "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
            "providers": [{"module": "provider-mock", "config": {"responses": ["The answer."]}}],
            "hooks": [{"module": "hooks-logging"}],
            "agents": {
                "explorer": {"description": "Explores.", "instruction": "You explore."},
                "builder": {"description": "Builds.", "instruction": "You build."},
            },
        }

    def script(self, turns: list[dict[str, Any]], agents: dict[str, list[dict[str, Any]]] | None = None) -> None:
        """Let the model say this: to the root, and to each agent."""
        path = self.folder / f"{uuid.uuid4().hex}.json"
        content = {"turns": turns or [{"text": "Nothing."}], "agents": agents or {}}
        path.write_text(json.dumps(content), encoding="utf-8")
        self.plan["providers"] = [{"module": "provider-mock", "config": {"scenario": str(path)}}]

    def prepared(self) -> Prepared:
        """Return what a session is made of now."""
        return Prepared.from_plan(self.plan, self.home, self.project, name="b", instruction="You are the root.")

    @asynccontextmanager
    async def run(self, saved: str | None = None, **options: Any) -> AsyncIterator[SessionRuntime]:
        """Run a session, or the one of an id that is on disk."""
        found = load_session(self.place / saved) if saved is not None else None
        async with SessionRuntime(
            self.prepared(), saved=found, environ=options.pop("environ", {}), **options, spawner=Spawner()
        ) as one:
            yield one

    @property
    def place(self) -> Path:
        """Return the folder of the sessions."""
        return self.prepared().home.sessions(self.project)

    def events(self, session_id: str) -> list[tuple[str, dict[str, Any]]]:
        """Return the events in the log of a session, with their payloads and statuses."""
        return [
            (line.event, {**line.data, "status": line.record.get("status")})
            for line in read_log(self.place / session_id)
        ]

    def metadata(self, session_id: str) -> dict[str, Any]:
        """Return the metadata of a session."""
        content: dict[str, Any] = json.loads((self.place / session_id / "metadata.json").read_text(encoding="utf-8"))
        return content

    def said(self, session_id: str) -> list[tuple[str, str]]:
        """Return role and text of the messages in the transcript of a session."""
        from amplifier_foundation.sessions.turns import message_text

        lines = (self.place / session_id / "transcript.jsonl").read_text(encoding="utf-8").splitlines()
        return [(message["role"], message_text(message)) for message in map(json.loads, lines)]


def spawn_of(runtime: SessionRuntime) -> Any:
    """Return the capability of a session."""
    return runtime.session.coordinator.get_capability("session.spawn")


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    """Return a place for a tree of sessions."""
    return Tree(tmp_path)


@pytest.fixture
def spawn_in() -> Callable[[SessionRuntime], Any]:
    """Return what finds the capability of a session."""
    return spawn_of


@pytest.fixture
def add_tools(monkeypatch: pytest.MonkeyPatch) -> Callable[..., str]:
    """Return a function that makes a module of tools known to this process, and returns its id."""

    def add(make: Callable[[Any], list[PlainTool]], on_ready: Callable[[Any], Any] | None = None) -> str:
        name = f"tool-x{uuid.uuid4().hex[:8]}"
        module = types.ModuleType(f"amplifier_module_{name.replace('-', '_')}")

        async def mount(coordinator: Any, config: Any = None) -> dict[str, Any]:
            for tool in make(coordinator):
                await coordinator.mount("tools", tool)
            return {"name": name}

        mount.__module__ = module.__name__
        module.mount = mount  # type: ignore[attr-defined]
        module.__amplifier_module_type__ = "tool"  # type: ignore[attr-defined]
        if on_ready is not None:
            module.on_session_ready = on_ready  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, module.__name__, module)
        return name

    return add


@pytest.fixture
def delegating(add_tools: Callable[..., str]) -> str:
    """Return the id of a module with a tool `call` that starts an agent, as tools that delegate do."""

    def make(coordinator: Any) -> list[PlainTool]:
        async def call(given: dict[str, Any]) -> str:
            result = await coordinator.get_capability("session.spawn")(
                agent_name=given["agent"], instruction=given.get("task", "Go."), parent_session=coordinator.session
            )
            return str(result["output"])

        return [PlainTool("call", call)]

    return add_tools(make)


class Gate(NamedTuple):
    """A tool `wait` in a module: `begun` is set when it was called, and it waits until `going` is."""

    module: str
    begun: asyncio.Event
    going: asyncio.Event


@pytest.fixture
def gate(add_tools: Callable[..., str]) -> Gate:
    """Return a tool that holds a child up for as long as the test wants."""
    begun, going = asyncio.Event(), asyncio.Event()

    def make(coordinator: Any) -> list[PlainTool]:
        async def wait(given: dict[str, Any]) -> str:
            begun.set()
            await going.wait()
            return "open"

        return [PlainTool("wait", wait)]

    return Gate(add_tools(make), begun, going)


async def until(condition: Callable[[], bool]) -> None:
    """Wait for something that must happen soon."""
    for _ in range(12_000):
        if condition():
            return
        await asyncio.sleep(0.005)
    raise AssertionError("it did not happen")


@pytest.fixture
def eventually() -> Callable[[Callable[[], bool]], Any]:
    """Return what waits for a condition."""
    return until
