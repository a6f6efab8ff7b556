"""Real git repositories, and real sessions whose model follows a script."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock, ToolResult
from amplifier_core.testing import MockContextManager
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn

MakeSession = Callable[..., AmplifierSession]


class Repository:
    """A repository on disk, driven by git itself."""

    def __init__(self, path: Path) -> None:
        self.path = path

    def git(self, *arguments: str) -> str:
        """Run git here and return what it printed."""
        command = ["git", "-C", str(self.path), *arguments]
        return subprocess.run(command, check=True, capture_output=True, text=True).stdout

    def write(self, name: str, text: str = "text\n") -> Path:
        """Write a file, with the folders it needs."""
        path = self.path / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text, encoding="utf-8")
        return path

    def commit(self, subject: str, *names: str) -> None:
        """Commit the named files, or nothing at all."""
        for name in names:
            self.write(name)
            self.git("add", name)
        self.git("commit", "--quiet", "--allow-empty", "--message", subject)


@pytest.fixture(autouse=True)
def _plain_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Let git know nothing of the machine it runs on: no settings, and no repository around the test's folder."""
    for name in [name for name in os.environ if name.startswith("GIT_")]:
        monkeypatch.delenv(name)
    for name in ("AUTHOR", "COMMITTER"):
        monkeypatch.setenv(f"GIT_{name}_NAME", "A Tester")
        monkeypatch.setenv(f"GIT_{name}_EMAIL", "tester@example.org")
    monkeypatch.setenv("GIT_CONFIG_GLOBAL", os.devnull)
    monkeypatch.setenv("GIT_CONFIG_NOSYSTEM", "1")
    monkeypatch.setenv("GIT_CEILING_DIRECTORIES", str(tmp_path.resolve()))


@pytest.fixture
def make_repository(tmp_path: Path) -> Callable[..., Repository]:
    """Give `make_repository(name="project")`: an empty repository whose branch is `main`."""

    def make(name: str = "project", *options: str) -> Repository:
        path = tmp_path.resolve() / name
        subprocess.run(["git", "init", "--quiet", "--initial-branch=main", *options, str(path)], check=True)
        return Repository(path)

    return make


@pytest.fixture
def repository(make_repository: Callable[..., Repository]) -> Repository:
    """Return a repository with one commit."""
    made = make_repository()
    made.commit("Begin", "README.md")
    return made


@pytest.fixture
def fake_git(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], Path]:
    """Give `fake_git(script)`: a shell script that stands for git, run in a folder of its own, which is returned."""

    def make(script: str) -> Path:
        # Beside the folder that is asked about: programs inside of that are not run.
        folder = tmp_path.with_name(f"{tmp_path.name}-fake")
        folder.mkdir()
        program = folder / "git"
        # The config of the repository and the user's are read before git is asked anything.
        program.write_text(
            f'#!/bin/sh\ncase "$*" in *" config "*) exit 0;; esac\ncd {folder}\n{script}', encoding="utf-8"
        )
        program.chmod(0o755)
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")
        return folder

    return make


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
    """Answer with the replies one after the other, where None is a call of `touch`, and keep what was asked."""

    name = "script"

    def __init__(self, replies: Sequence[str | None]) -> None:
        self._replies: Iterator[str | None] = iter(replies)
        self.requests: list[list[dict[str, Any]]] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.requests.append([message.model_dump(exclude_none=True) for message in request.messages])
        reply = next(self._replies)
        if reply is not None:
            return ChatResponse(content=[TextBlock(text=reply)])
        call = ToolCall(id=f"call-{len(self.requests)}", name="touch", arguments={})
        return ChatResponse(content=[ToolCallBlock(id=call.id, name="touch", input={})], tool_calls=[call])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class Touch:
    """Make a file in the session's working directory."""

    name = "touch"
    description = "Make a file."
    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}

    def __init__(self, coordinator: Any) -> None:
        self._coordinator = coordinator

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        Path(self._coordinator.get_capability("session.working_dir"), "touched").touch()
        return ToolResult(output="made")


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch) -> MakeSession:
    """Give `make_session(replies, hooks, working_dir, **options)`: a session that works in a folder."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(
        replies: Sequence[str | None], hooks: list[dict[str, Any]], working_dir: Path, **options: Any
    ) -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            await coordinator.mount("providers", ScriptedProvider(replies), name="script")

        async def mount_tool(coordinator: Any, config: Any) -> None:
            await coordinator.mount("tools", Touch(coordinator), name="touch")

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("provider-script", mount_provider)
        module("tool-touch", mount_tool)
        plan = {
            "session": {"orchestrator": "loop-script", "context": "context-script"},
            "providers": [{"module": "provider-script"}],
            "tools": [{"module": "tool-touch"}],
            "hooks": hooks,
        }
        made = AmplifierSession(plan, **options)
        made.coordinator.register_capability("session.working_dir", str(working_dir))
        made.coordinator.register_policy("test", lambda action, details: "allow")
        return made

    return make


@pytest.fixture
def requests_of() -> Callable[[AmplifierSession], list[list[dict[str, Any]]]]:
    """Give `requests_of(session)`: the messages of every request that the session's model got."""
    return lambda session: session.coordinator.get("providers")["script"].requests
