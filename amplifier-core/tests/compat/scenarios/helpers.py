"""The testing helpers and the schemas of results."""

from __future__ import annotations

from typing import Any

from amplifier_core import (
    EventRecorder,
    MockContextManager,
    MockCoordinator,
    MockTool,
    ModuleCoordinator,
    ScriptedOrchestrator,
    create_test_coordinator,
    wait_for,
)
from amplifier_core.validation.proto_schema import validate_hook_result, validate_tool_result

from .base import Stage, outcome, scenario


@scenario
async def coordinator(stage: Stage) -> Any:
    """The mock coordinator and its histories."""
    hub = MockCoordinator()
    await hub.mount("tools", "tool", name="t")
    await hub.mount("context", "ctx")
    await hub.unmount("tools", "t")
    refused = await outcome(lambda: hub.mount("nowhere", 1))
    return {
        "kind": isinstance(hub, ModuleCoordinator),
        "ids": [hub.session_id, hub.parent_id],
        "config": hub.config,
        "history": hub.mount_history,
        "unmounts": hub.unmount_history,
        "real": [hub.get("tools"), hub.get("context")],
        "refused": refused,
        "systems": [type(hub.approval_system).__name__, type(hub.display_system).__name__],
    }


@scenario
async def tool(stage: Stage) -> Any:
    """The mock tool."""
    made = MockTool()
    named = MockTool("n", output={"a": 1})
    results = [await made.execute({}), await named.execute({"x": 1})]
    return [
        made.name,
        made.description,
        named.description,
        type(made.input_schema).__name__,
        results,
        made.call_count,
        named.execute.call_args,
    ]


@scenario
async def context(stage: Stage) -> Any:
    """The mock context."""
    made = MockContextManager([{"role": "user", "content": "a"}])
    await made.add_message({"role": "user", "content": "b"})
    seen = [list(await made.get_messages()), list(await made.get_messages_for_request()), await made._should_compact()]
    await made.clear()
    return [seen, await made.get_messages(), made.messages, hasattr(made, "set_messages")]


@scenario
async def recorder(stage: Stage) -> Any:
    """The recorder keeps copies."""
    made = EventRecorder()
    data = {"a": 1}
    result = await made.emit("x:y", data)
    await made.record("z:z", {"b": 2})
    data["a"] = 2
    found = [list(made.events), made.get_events("x:y"), made.get_events("none"), made.get_events(), result]
    made.clear()
    return [found, made.events]


@scenario
async def orchestrator(stage: Stage) -> Any:
    """The scripted orchestrator."""
    made = ScriptedOrchestrator(["one"])
    memory, events = MockContextManager(), EventRecorder()
    answers = [await made.execute("p", memory, {}, {}, events), await made.execute("q", memory, {}, {}, events)]
    return [answers, memory.messages, events.events, made.call_count]


@scenario
async def ready_made(stage: Stage) -> Any:
    """The ready-made coordinator."""
    hub = create_test_coordinator()
    tools = hub.get("tools")
    echo = await outcome(lambda: tools["echo"].execute({}))
    return [
        type(hub).__name__,
        {name: made.name for name, made in tools.items()},
        type(hub.get("context")).__name__,
        echo,
    ]


@scenario
async def waiting(stage: Stage) -> Any:
    """Waiting for a condition."""
    turns = iter([False, False, True])
    return [await wait_for(lambda: next(turns)), await wait_for(lambda: False, timeout=0.03)]


@scenario
async def tool_result_schema(stage: Stage) -> Any:
    """Faults in the dict of a tool's result."""
    tries: list[Any] = [
        {"success": True},
        {},
        {"success": "yes"},
        {"success": 1, "output": 2},
        {"success": False, "error": "e"},
    ]
    return [await outcome(lambda given=given: validate_tool_result(given)) for given in tries]


@scenario
async def hook_result_schema(stage: Stage) -> Any:
    """Faults in the dict of a hook's result."""
    tries: list[Any] = [
        {},
        {"action": "deny"},
        {"action": "explode"},
        {"action": None},
        {"context_injection_role": "robot"},
        {"user_message_level": "loud"},
        {"approval_default": "maybe", "action": "x"},
    ]
    return [await outcome(lambda given=given: validate_hook_result(given)) for given in tries]
