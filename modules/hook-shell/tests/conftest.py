"""Real sessions whose model follows a script, whose tools keep their inputs, and whose hooks are real processes."""

from __future__ import annotations

import asyncio
import json
import sys
from collections.abc import AsyncIterator, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock, ToolResult
from amplifier_core.testing import MockContextManager
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn

Calls = list[tuple[str, dict[str, Any]]]
Reply = str | Calls


class ScriptedTurn(Turn):
    name: ClassVar[str] = "loop-script"


class ScriptedLoop:
    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> str:
        session = {"context": context, "providers": providers, "tools": tools, "hooks": hooks}
        return await ScriptedTurn(LoopSettings(), LoopMemory(), coordinator=coordinator, **session).run(prompt)


class Context(MockContextManager):
    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages[:] = messages


class ScriptedProvider:
    """Play the replies one after the other, a text or a list of tool calls each, and keep what was asked."""

    name = "script"

    def __init__(self, replies: Sequence[Reply]) -> None:
        self._replies: Iterator[Reply] = iter(replies)
        self._ids = count(1)
        self.requests: list[Any] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.requests.append(request)
        reply = next(self._replies)
        if isinstance(reply, str):
            return ChatResponse(content=[TextBlock(text=reply)])
        calls = [ToolCall(id=f"call-{next(self._ids)}", name=name, arguments=given) for name, given in reply]
        blocks = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        return ChatResponse(content=blocks, tool_calls=calls)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class RecordingTool:
    """A tool that keeps its inputs; `boom` fails."""

    description = "Keep what it is given."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, name: str) -> None:
        self.name = name
        self.inputs: list[dict[str, Any]] = []

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self.inputs.append(input)
        if self.name == "boom":
            raise OSError("the disk is gone")
        return ToolResult(output=f"{self.name} done")


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

    def __init__(self, session: AmplifierSession, project: Path) -> None:
        self.session = session
        self.project = project
        self.tools = {name: RecordingTool(name) for name in ("bash", "bashful", "boom", "edit_file")}
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


def _module(monkeypatch: pytest.MonkeyPatch, module_id: str, mount: Callable[..., Any]) -> None:
    made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
    made.mount = mount  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, made.__name__, made)


@pytest.fixture
async def make_rig(monkeypatch: pytest.MonkeyPatch, project: Path) -> AsyncIterator[MakeRig]:
    """Give `make_rig(hooks, replies, *, config, files, approval, policy, session, plan, **of_session)`.

    `is_trusted` and `is_config_of_user` are what the app says of the project and of the config; None: it does not say.

    It is awaited, and closed after the test. Without replies the model calls `bash` once and says "done".
    """
    made: list[Rig] = []

    async def make(
        hooks: dict[str, Any] | None = None,
        replies: Sequence[Reply] = ([("bash", {"command": "ls"})], "done"),
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
        whole = {
            "session": {"orchestrator": "loop-script", "context": "context-script", **(session or {})},
            "providers": [{"module": "provider-script"}],
            "tools": [{"module": "tool-script"}],
            "hooks": [{"module": "hook-shell", "config": settings}],
            **(plan or {}),
        }
        rig = Rig(AmplifierSession(whole, **of_session), project)
        made.append(rig)

        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            rig.provider = ScriptedProvider(replies)
            await coordinator.mount("providers", rig.provider, name="script")

        async def mount_tools(coordinator: Any, config: Any) -> None:
            for name, tool in rig.tools.items():
                await coordinator.mount("tools", tool, name=name)

        mounts = {"loop": mount_loop, "context": mount_context, "provider": mount_provider, "tool": mount_tools}
        for kind, mount in mounts.items():
            _module(monkeypatch, f"{kind}-script", mount)
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
