"""Real sessions whose model follows a script, whose tools keep their inputs, and whose hooks are real processes."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_testing.loop.fakes import PlainTool

MakeSession = Callable[..., AmplifierSession]


def fail(_: dict[str, Any]) -> None:
    raise OSError("the disk is gone")


def make_tools() -> dict[str, PlainTool]:
    """Return tools that keep their inputs; `boom` fails."""
    tools = [PlainTool("bash"), PlainTool("bashful"), PlainTool("boom", fail), PlainTool("edit_file")]
    return {tool.name: tool for tool in tools}


class Approvals:
    """Answer every question in the same way, and keep the questions."""

    def __init__(self, answer: str) -> None:
        self._answer = answer
        self.questions: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.questions.append(prompt)
        return self._answer


class Display:
    def __init__(self) -> None:
        self.shown: list[tuple[str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.shown.append((level, message))


class Rig:
    """A session with hooks, and everything that can be seen of it."""

    def __init__(self, session: AmplifierSession, project: Path, tools: dict[str, PlainTool]) -> None:
        self.session = session
        self.project = project
        self.tools = tools
        self.provider: Any = None
        self.display = Display()
        self.events: list[dict[str, Any]] = []
        session.coordinator.display_system = self.display
        session.coordinator.hooks.register("*", self._hear, priority=-1000, name="test")

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.events.append({**data, "event_name": event})

    def heard(self, *names: str) -> list[dict[str, Any]]:
        """Return the payloads of some events, in order."""
        return [data for data in self.events if data["event_name"] in names]

    def reports(self) -> list[tuple[str, str, str]]:
        """Return event, status and verdict of every run of a hook."""
        names = ("hook-shell:ran", "hook-shell:failed", "hook-shell:timeout")
        return [(data["event_name"], data["status"], data["verdict"]) for data in self.heard(*names)]

    async def run(self, prompt: str = "go") -> str:
        answer: str = await self.session.execute(prompt)
        return answer

    async def messages(self) -> list[dict[str, Any]]:
        found: list[dict[str, Any]] = await self.session.coordinator.get("context").get_messages()
        return found

    async def texts(self, role: str) -> list[str]:
        return [str(message["content"]) for message in await self.messages() if message["role"] == role]


MakeRig = Callable[..., Any]


def group(*commands: str, matcher: str = "", **facts: Any) -> list[dict[str, Any]]:
    """Return one group of command hooks."""
    return [{"matcher": matcher, "hooks": [{"type": "command", "command": text, **facts} for text in commands]}]


@pytest.fixture(name="group")
def _group() -> Callable[..., list[dict[str, Any]]]:
    """Give `group(*commands, matcher="", **facts)`."""
    return group


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give the folder of a project."""
    folder = tmp_path / "a project"
    folder.mkdir()
    return folder


@pytest.fixture
async def make_rig(scripted_session: MakeSession, project: Path) -> AsyncIterator[MakeRig]:
    """Give `make_rig(hooks, replies, *, config, files, approval, policy, session, plan, **of_session)`.

    `is_trusted` and `is_config_of_user` are what the app says of the project and of the config; None: it does not say.

    It is awaited, and closed after the test. Without replies the model calls `bash` once and says "done".
    """
    made: list[Rig] = []

    async def make(
        hooks: dict[str, Any] | None = None,
        replies: Sequence[Any] = ([("bash", {"command": "ls"})], "done"),
        *,
        config: dict[str, Any] | None = None,
        files: dict[str, Any] | None = None,
        is_trusted: bool | None = True,
        is_config_of_user: bool | None = True,
        approval: Approvals | None = None,
        policy: Any = "allow",
        session: dict[str, Any] | None = None,
        plan: dict[str, Any] | None = None,
        **of_session: Any,
    ) -> Rig:
        for name, content in (files or {}).items():
            path = project / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(content if isinstance(content, str) else json.dumps(content), encoding="utf-8")
        settings = {**({"hooks": hooks} if hooks else {}), **(config or {})}
        entries = {"hooks": [{"module": "hook-shell", "config": settings}], **(plan or {})}
        tools = make_tools()
        mounted = list(tools.values())
        whole = scripted_session(*replies, mounted=mounted, session=session, **entries, **of_session)
        rig = Rig(whole, project, tools)
        made.append(rig)
        coordinator = rig.session.coordinator
        coordinator.register_capability("session.working_dir", str(project))
        if is_trusted is not None:
            coordinator.register_capability("project.is_trusted", lambda: is_trusted)
        if is_config_of_user is not None:
            coordinator.register_capability("plan.is_hook_of_user", lambda module, config: is_config_of_user)
        if approval is not None:
            coordinator.approval_system = approval
        coordinator.register_policy("test", policy if callable(policy) else lambda action, details: policy)
        await rig.session.initialize()
        rig.provider = coordinator.get("providers")["scripted"]
        return rig

    yield make
    for rig in made:
        await rig.session.cleanup()
    # A loop that is asked to stop at once does not wait for a hook that is being ended; this test's does.
    if left := asyncio.all_tasks() - {asyncio.current_task()}:
        await asyncio.wait(left, timeout=60)


@pytest.fixture
def approvals() -> Callable[[str], Approvals]:
    """Give `approvals(answer)`."""
    return Approvals
