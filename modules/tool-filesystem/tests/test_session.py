"""In a whole session: a model works with the tools, permission is asked, and its writes can be taken back."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.testing import MockContextManager
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn

Checkpoints = pytest.importorskip("amplifier_foundation.sessions.checkpoints").Checkpoints


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
    """Call one tool after the other, then say done."""

    name = "script"

    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self._calls: Iterator[tuple[str, dict[str, Any]]] = iter(calls)
        self.count = 0

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        found = next(self._calls, None)
        if found is None:
            return ChatResponse(content=[TextBlock(text="done")])
        self.count += 1
        call = ToolCall(id=f"call-{self.count}", name=found[0], arguments=found[1])
        block = ToolCallBlock(id=call.id, name=call.name, input=call.arguments)
        return ChatResponse(content=[block], tool_calls=[call])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AmplifierSession]:
    """Give `make_session(calls, tools)`: a session whose model makes these calls."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(calls: list[tuple[str, dict[str, Any]]], tools: list[dict[str, Any]]) -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            await coordinator.mount("providers", ScriptedProvider(calls), name="script")

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("provider-script", mount_provider)
        return AmplifierSession(
            {
                "session": {"orchestrator": "loop-script", "context": "context-script"},
                "providers": [{"module": "provider-script"}],
                "tools": tools,
                "hooks": [],
            }
        )

    return make


async def test_a_model_works_and_it_is_taken_back(
    make_session: Callable[..., AmplifierSession], project: Path, tmp_path: Path
) -> None:
    """A model makes a file, changes it through a link, and reads it; undoing the turn puts everything back."""
    kept = tmp_path / "session"
    kept.mkdir()
    (project / "link").symlink_to("src/a.py")
    (project / "old.txt").write_text("old\r\n", encoding="utf-8", newline="")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"file_path": "src/a.py", "content": "x = 1\n"}),
        ("edit_file", {"file_path": "link", "old_string": "1", "new_string": "2"}),
        ("edit_file", {"file_path": "old.txt", "old_string": "old", "new_string": "new"}),
        ("read_file", {"file_path": "src/a.py"}),
    ]
    asked: list[tuple[str, Any, Any]] = []

    def policy(action: str, details: dict[str, Any]) -> str:
        asked.append((action, details["tool_call_id"], details.get("path")))
        return "allow"

    session = make_session(calls, [{"module": "tool-filesystem", "config": {"working_dir": str(project)}}])
    checkpoints = Checkpoints(kept, turn=1)
    session.coordinator.register_capability("session.checkpoint", checkpoints)
    session.coordinator.register_capability("session.working_dir", str(project))
    session.coordinator.register_policy("test", policy)
    async with session:
        assert await session.execute("go") == "done"
        messages = await session.coordinator.get("context").get_messages()
    assert (project / "src" / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    assert (project / "old.txt").read_bytes() == b"new\r\n"
    assert "x = 2" in str(messages[-2])
    assert asked == [
        ("filesystem.write", "call-1", None),
        ("filesystem.write", "call-2", None),
        ("filesystem.write", "call-2", str(project / "src" / "a.py")),
        ("filesystem.write", "call-3", None),
        ("filesystem.read", "call-4", None),
    ]
    assert [(one.tool, one.tool_call_id) for one in checkpoints.list()] == [
        ("write_file", "call-1"),
        ("edit_file", "call-2"),
        ("edit_file", "call-3"),
    ]
    assert checkpoints.undo_last_turn() is not None
    assert (project / "old.txt").read_bytes() == b"old\r\n"
    assert not (project / "src").exists()


async def test_without_a_policy_nothing_is_done(make_session: Callable[..., AmplifierSession], project: Path) -> None:
    """In a session where nobody allows anything, no file is written."""
    calls = [("write_file", {"file_path": "a", "content": "x"})]
    session = make_session(calls, [{"module": "tool-filesystem", "config": {"working_dir": str(project)}}])
    async with session:
        assert await session.execute("go") == "done"
    assert not (project / "a").exists()
