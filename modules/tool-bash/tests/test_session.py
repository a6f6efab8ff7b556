"""In a real session the policy comes first, the model reads the result, and a cancelled session leaves nothing."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar

import pytest

from amplifier_core import AmplifierSession, ChatResponse, ProviderInfo, TextBlock, ToolCall, ToolCallBlock
from amplifier_core.testing import MockContextManager, wait_for
from amplifier_kit.loop import LoopMemory, LoopSettings, Turn

Naps = Callable[[], list[int]]
MakeSession = Callable[..., AmplifierSession]


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
    """Call `bash` with the inputs one after the other, then say that it is done; keep what was asked."""

    name = "script"

    def __init__(self, inputs: Sequence[dict[str, Any]]) -> None:
        self._inputs: Iterator[dict[str, Any]] = iter(inputs)
        self.requests: list[list[dict[str, Any]]] = []

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        self.requests.append([message.model_dump(exclude_none=True) for message in request.messages])
        given = next(self._inputs, None)
        if given is None:
            return ChatResponse(content=[TextBlock(text="done")])
        call = ToolCall(id=f"call-{len(self.requests)}", name="bash", arguments=given)
        return ChatResponse(content=[ToolCallBlock(id=call.id, name="bash", input=given)], tool_calls=[call])

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


@pytest.fixture
def make_session(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> MakeSession:
    """Give `make_session(*inputs, verdict="allow")`: a session whose model calls bash with these inputs."""

    def module(module_id: str, mount: Callable[..., Any]) -> None:
        made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)

    def make(*inputs: dict[str, Any], verdict: str = "allow") -> AmplifierSession:
        async def mount_loop(coordinator: Any, config: Any) -> None:
            await coordinator.mount("orchestrator", ScriptedLoop())

        async def mount_context(coordinator: Any, config: Any) -> None:
            await coordinator.mount("context", Context())

        async def mount_provider(coordinator: Any, config: Any) -> None:
            await coordinator.mount("providers", ScriptedProvider(inputs), name="script")

        module("loop-script", mount_loop)
        module("context-script", mount_context)
        module("provider-script", mount_provider)
        plan = {
            "session": {"orchestrator": "loop-script", "context": "context-script"},
            "providers": [{"module": "provider-script"}],
            "tools": [{"module": "tool-bash", "config": {"timeout": 60}}],
        }
        made = AmplifierSession(plan)
        made.coordinator.register_capability("session.working_dir", str(tmp_path))
        made.coordinator.register_policy(
            "test", lambda action, details: verdict if action == "process.exec" else "deny"
        )
        return made

    return make


def _last_result(session: AmplifierSession) -> str:
    return str(session.coordinator.get("providers")["script"].requests[-1][-1]["content"])


async def test_the_model_reads_the_result(make_session: MakeSession, tmp_path: Path) -> None:
    """What the command printed is in the next request."""
    async with make_session({"command": "touch made; echo a word"}) as session:
        assert await session.execute("go") == "done"
        assert "a word" in _last_result(session)
    assert (tmp_path / "made").exists()


async def test_what_is_denied_is_not_run(make_session: MakeSession, tmp_path: Path) -> None:
    """The policy is asked for process.exec before anything is started."""
    async with make_session({"command": "touch made"}, verdict="deny") as session:
        await session.execute("go")
        assert "Denied" in _last_result(session)
    assert not (tmp_path / "made").exists()


async def test_jobs_end_with_the_session(make_session: MakeSession, nap: str, naps: Naps) -> None:
    """A job runs on between turns and ends when the session is cleaned up."""
    async with make_session({"command": nap, "run_in_background": True}) as session:
        await session.execute("go")
        assert "Command started in background with PID" in _last_result(session)
        assert await wait_for(lambda: bool(naps()), timeout=60)
    assert naps() == []


@pytest.mark.parametrize("way", ["token", "task"])
async def test_a_cancelled_session_leaves_nothing(make_session: MakeSession, nap: str, naps: Naps, way: str) -> None:
    """Whether it is asked to stop at once or its task is cancelled, what ran is gone when the session is."""
    async with make_session({"command": f"env -i setsid -f {nap}; {nap}; true"}) as session:
        task = asyncio.create_task(session.execute("go"))
        assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
        if way == "token":
            await session.coordinator.request_cancel(immediate=True)
        else:
            task.cancel()
        await asyncio.wait([task])
    assert naps() == []
