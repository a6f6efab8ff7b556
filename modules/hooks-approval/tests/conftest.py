"""Three worlds in which tools are called: our loop, a loop of the published kind, and a kernel that has no policies."""

from __future__ import annotations

import asyncio
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from types import ModuleType
from typing import Any, ClassVar
from unittest.mock import patch

import pytest

from amplifier_core import (
    AmplifierSession,
    ApprovalRequest,
    ApprovalResponse,
    ChatResponse,
    HookResult,
    ProviderInfo,
    TextBlock,
    ToolCall,
    ToolCallBlock,
    ToolResult,
)
from amplifier_core.hooks import HookRegistry
from amplifier_core.testing import MockContextManager
from amplifier_module_hooks_approval import mount

WORLDS = ("our loop", "published loop", "older kernel")


class Person:
    """Answer as told, as a provider of the published kind does, and keep what was asked."""

    def __init__(self, answer: Any) -> None:
        self.answer = answer
        self.asked: list[ApprovalRequest] = []

    async def request_approval(self, request: ApprovalRequest) -> Any:
        self.asked.append(request)
        answer = self.answer(request) if callable(self.answer) else self.answer
        if isinstance(answer, BaseException):
            raise answer
        if answer == "hang":
            await asyncio.Event().wait()
        return answer


class System:
    """Answer as told, as the approval system of an app does."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.asked: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.asked.append(prompt)
        return self.answer


class Probe:
    """Be a tool that only notes that it was run."""

    input_schema: ClassVar[dict[str, Any]] = {"type": "object"}
    description = "Note that it was run."

    def __init__(self, name: str, ran: list[Any], action: str | None = None) -> None:
        self.name = name
        self._ran = ran
        if action is not None:
            self.action = action

    async def execute(self, input: dict[str, Any]) -> ToolResult:
        self._ran.append((self.name, input))
        return ToolResult(output="done")


class PublishedLoop:
    """Call tools as the published loops do: hooks are heard, the kernel is not asked."""

    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self.calls = calls
        #: Later versions name the call in their events, earlier ones do not.
        self.has_ids = True

    async def execute(
        self, prompt: str, context: Any, providers: Any, tools: Any, hooks: Any, coordinator: Any = None
    ) -> str:
        said = []
        for number, (name, given) in enumerate(self.calls):
            data = {"tool_name": name, "tool_input": given, "parallel_group_id": "group"}
            data |= {"tool_call_id": f"call-{number}"} if self.has_ids else {}
            result = await hooks.emit("tool:pre", data)
            if coordinator is not None and hasattr(coordinator, "process_hook_result"):
                result = await coordinator.process_hook_result(result, "tool:pre", name)
            if result.action == "deny":
                said.append(f"Denied by hook: {result.reason}")
                continue
            await tools[name].execute((result.data or data).get("tool_input", given))
            said.append("done")
        return "\n".join(said)


class OlderCoordinator:
    """Have what a kernel without policies has."""

    def __init__(self) -> None:
        self.hooks = HookRegistry()
        self.session_state: dict[str, Any] = {}
        self.tools: dict[str, Any] = {}
        self._capabilities: dict[str, Any] = {}
        self.register_capability = self._capabilities.__setitem__
        self.get_capability = self._capabilities.get

    def get(self, point: str) -> Any:
        return self.tools if point == "tools" else None


@dataclass
class Outcome:
    """What came of the calls."""

    ran: list[Any] = field(default_factory=list)
    said: str = ""
    events: list[tuple[str, dict[str, Any]]] = field(default_factory=list)

    def payloads(self, event: str) -> list[dict[str, Any]]:
        """Return what an event carried, each time."""
        return [data for name, data in self.events if name == event]


class Scripted:
    """Be a model that makes the calls and then ends."""

    name = "script"
    priority = 1

    def __init__(self, calls: list[tuple[str, dict[str, Any]]]) -> None:
        self._replies: Iterator[Any] = iter([calls, None] if calls else [None])

    def get_info(self) -> ProviderInfo:
        return ProviderInfo(id="script", display_name="Script")

    async def list_models(self) -> list[Any]:
        return []

    async def complete(self, request: Any, **_: Any) -> ChatResponse:
        made = next(self._replies)
        if made is None:
            last = request.messages[-1].content
            return ChatResponse(content=[TextBlock(text=last if isinstance(last, str) else str(last))])
        calls = [ToolCall(id=f"call-{index}", name=name, arguments=given) for index, (name, given) in enumerate(made)]
        blocks = [ToolCallBlock(id=call.id, name=call.name, input=call.arguments) for call in calls]
        return ChatResponse(content=blocks, tool_calls=calls)

    def parse_tool_calls(self, response: ChatResponse) -> list[ToolCall]:
        return response.tool_calls or []


class Context(MockContextManager):
    async def set_messages(self, messages: list[dict[str, Any]]) -> None:
        self.messages[:] = messages


def module(module_id: str, mount_function: Callable[..., Any]) -> None:
    """Make a module of that id known."""
    made = ModuleType(f"amplifier_module_{module_id.replace('-', '_')}")
    made.mount = mount_function  # type: ignore[attr-defined]
    sys.modules[made.__name__] = made


def tools(ran: list[Any]) -> dict[str, Probe]:
    """Return the tools of every world."""
    made = (
        Probe("bash", ran, "process.exec"),
        Probe("write_file", ran, "filesystem.write"),
        Probe("look", ran),
        Probe("shell", ran, "process.exec"),
    )
    return {tool.name: tool for tool in made}


EVENTS = ("approval:required", "approval:granted", "approval:denied", "policy:violation", "tool:error")


async def run_call(
    world: str,
    config: Any,
    calls: list[tuple[str, dict[str, Any]]],
    *,
    person: Person | None = None,
    system: Any = None,
    policies: tuple[Any, ...] = (),
    state: Any = None,
    session: dict[str, Any] | None = None,
    prepare: Callable[[Any], None] = lambda coordinator: None,
) -> Outcome:
    """Make the calls in a world; `policies` are the app's, `state` is what the session wants confirmed."""
    outcome = Outcome()

    def listen(coordinator: Any) -> None:
        for event in EVENTS:
            coordinator.hooks.register(event, lambda name, data: outcome.events.append((name, data)), priority=500)
        if person is not None:
            coordinator.get_capability("approval.register_provider")(person)
        if state is not None:
            coordinator.session_state["require_approval_tools"] = state
        prepare(coordinator)

    if world == "older kernel":
        older = OlderCoordinator()
        older.tools = tools(outcome.ran)
        with (
            patch("amplifier_module_hooks_approval.kernel_has_policies", lambda: False),
            patch("amplifier_module_hooks_approval.gate.kernel_has_policies", lambda: False),
        ):
            await mount(older, config)
            listen(older)
            outcome.said = await PublishedLoop(calls).execute("go", None, {}, older.tools, older.hooks)
        return outcome

    async def mount_tools(coordinator: Any, _: Any) -> None:
        for tool in tools(outcome.ran).values():
            await coordinator.mount("tools", tool)

    async def mount_context(coordinator: Any, _: Any) -> None:
        await coordinator.mount("context", Context())

    async def mount_model(coordinator: Any, _: Any) -> None:
        await coordinator.mount("providers", Scripted(calls), name="script")

    async def mount_loop(coordinator: Any, _: Any) -> None:
        await coordinator.mount("orchestrator", PublishedLoop(calls))

    module("tool-probes", mount_tools)
    module("context-probe", mount_context)
    module("provider-script", mount_model)
    module("loop-published", mount_loop)
    plan = {
        "session": {
            "orchestrator": "loop-basic" if world == "our loop" else "loop-published",
            "context": "context-probe",
            **(session or {}),
        },
        "providers": [{"module": "provider-script"}],
        "tools": [{"module": "tool-probes"}],
        "hooks": [{"module": "hooks-approval", "config": config}],
    }
    made = AmplifierSession(plan, approval_system=system)
    for number, policy in enumerate(policies):
        made.coordinator.register_policy(f"app-{number}", policy)
    async with made as running:
        listen(running.coordinator)
        outcome.said = await running.execute("go")
    return outcome


@pytest.fixture
def run(monkeypatch: pytest.MonkeyPatch) -> Callable[..., Any]:
    """Give `await run(world, config, calls, person=..., ...)`; what it makes known is forgotten afterwards."""
    for name in ("tool_probes", "context_probe", "provider_script", "loop_published"):
        monkeypatch.setitem(sys.modules, f"amplifier_module_{name}", ModuleType(name))
    return run_call


@pytest.fixture
def person() -> Callable[[Any], Person]:
    """Give `person(answer)`, a provider of the published kind."""
    return Person


@pytest.fixture
def system() -> Callable[[str], System]:
    """Give `system(answer)`, an app's approval system."""
    return System


@pytest.fixture
def yes() -> ApprovalResponse:
    """Return a clear yes."""
    return ApprovalResponse(approved=True, reason="fine")


@pytest.fixture
def no() -> ApprovalResponse:
    """Return a clear no."""
    return ApprovalResponse(approved=False, reason="not now")


@pytest.fixture(params=WORLDS)
def world(request: pytest.FixtureRequest) -> str:
    """Return each of the worlds."""
    name: str = request.param
    return name


@pytest.fixture
def changing() -> Callable[..., Callable[[Any], None]]:
    """Give `changing(new_input, priority)`, which lets a hook put another input in the place of any."""

    def make(new: dict[str, Any], priority: int = 50) -> Callable[[Any], None]:
        def change(event: str, data: dict[str, Any]) -> HookResult:
            return HookResult(action="modify", data={**data, "tool_input": new})

        return lambda coordinator: coordinator.hooks.register("tool:pre", change, priority=priority, name="changer")

    return make
