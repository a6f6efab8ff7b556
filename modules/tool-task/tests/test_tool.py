"""What the tool asks of an app, and what the model and the log get."""

from __future__ import annotations

import asyncio
import logging
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_core.testing import MockContextManager, MockCoordinator
from amplifier_kit.engine.delegation.session_ids import child_session_id
from amplifier_module_tool_task import mount

CHILD = child_session_id("test-session", "call-1", "explorer")
IDS = {"tool_call_id": "call-1", "parallel_group_id": "group-1"}


class World:
    """Hold a coordinator with the tool, what children were asked for, and every event."""

    def __init__(self) -> None:
        self.coordinator = MockCoordinator()
        self.coordinator.config["agents"] = {"explorer": {"description": "Finds things out."}}
        self.asked: list[Any] = []
        self.events: list[tuple[str, dict[str, Any]]] = []
        self.answer: Any = {"output": "done"}

    async def spawn(self, **given: Any) -> Any:
        self.asked.append(given)
        if isinstance(self.answer, BaseException):
            raise self.answer
        if self.answer is None:
            await asyncio.Event().wait()
        return {"session_id": given["sub_session_id"], **self.answer}

    async def resume(self, sub_session_id: str, instruction: str) -> Any:
        self.asked.append((sub_session_id, instruction))
        return {"session_id": sub_session_id, **self.answer}

    async def open(self, config: dict[str, Any] | None = None) -> World:
        self.coordinator.register_capability("session.spawn", self.spawn)
        self.coordinator.register_capability("session.resume", self.resume)
        await mount(self.coordinator, config)
        [names] = await self.coordinator.collect_contributions("observability.events")
        for name in names:
            self.coordinator.hooks.register(name, lambda event, data: self.events.append((event, data)), name=name)
        return self

    async def call(self, **given: Any) -> ToolResult:
        self.coordinator._tool_dispatch_contexts = {asyncio.current_task(): IDS}
        result: ToolResult = await self.coordinator.get("tools")["task"].execute(given)
        return result


@pytest.fixture
def world() -> World:
    """Return a session that is not opened yet."""
    return World()


async def test_a_child_is_asked_and_its_answer_given_back(world: World) -> None:
    """The app gets the task alone, the model `{response, session_id}`, the log both ends with the ids of the call."""
    await world.open()
    context = MockContextManager([{"role": "user", "content": "earlier"}])
    await world.coordinator.mount("context", context)
    world.answer = {"output": "found", "metadata": {"cost_usd": "0.1"}}
    result = await world.call(agent="explorer", instruction="find", provider_preferences=[{"provider": "mock"}])
    assert result.output == {"response": "found", "session_id": CHILD}
    [asked] = world.asked
    assert (asked["agent_name"], asked["instruction"]) == ("explorer", "find")
    assert asked["provider_preferences"] == [{"provider": "mock"}]
    assert asked["tool_inheritance"] == {"exclude_tools": ["tool-task"]}
    assert [name for name, _ in world.events] == ["task:agent_spawned", "task:agent_completed"]
    assert all(data.items() >= {**IDS, "sub_session_id": CHILD}.items() for _, data in world.events)
    assert world.events[-1][1].items() >= {"success": True, "cost_usd": "0.1"}.items()


async def test_context_on_demand(world: World) -> None:
    """What was said is told only when asked for, as many turns as wanted."""
    await world.open()
    messages = [{"role": "user", "content": text} for text in ("one", "two", "three")]
    await world.coordinator.mount("context", MockContextManager(messages))
    await world.call(agent="explorer", instruction="x", inherit_context="recent", inherit_context_turns=2)
    told = world.asked[0]["instruction"]
    assert ("one" in told, "two" in told, "three" in told) == (False, True, True)


async def test_a_child_goes_on(world: World) -> None:
    """With a session id that child is asked again, and the log says so."""
    await world.open()
    result = await world.call(session_id=CHILD, instruction="more")
    assert world.asked == [(CHILD, "more")]
    assert result.output == {"response": "done", "session_id": CHILD}
    assert [name for name, _ in world.events] == ["task:agent_resumed", "task:agent_completed"]


async def test_a_copy_of_itself_is_one_deeper(world: World) -> None:
    """The depth of copies is counted as the app told it."""
    await world.open()
    world.coordinator.register_capability("self_delegation_depth", 2)
    await world.call(agent="self", instruction="x")
    assert world.asked[0]["self_delegation_depth"] == 3


@pytest.mark.parametrize(
    ("given", "code"),
    [
        ({"agent": "explorer"}, "invalid_input"),
        ({"instruction": "x"}, "invalid_input"),
        ({"instruction": "x", "agent": "explorrer"}, "unknown_agent"),
        ({"instruction": "x", "agent": "explorer", "inherit_context": "much"}, "invalid_input"),
        ({"instruction": "x", "agent": "explorer", "inherit_context_turns": "2"}, "invalid_input"),
    ],
)
async def test_what_is_wrong_with_the_input(world: World, given: dict[str, Any], code: str) -> None:
    """No child is started; the model reads why, and the log has an end without success."""
    await world.open()
    result = await world.call(**given)
    assert (result.success, result.error and result.error["code"], world.asked) == (False, code, [])
    [(name, data)] = world.events
    assert (name, data["success"], data["error"]["type"]) == ("task:agent_completed", False, code)


@pytest.mark.parametrize(
    ("answer", "code"),
    [(RuntimeError("broken"), "child_failed"), (None, "timeout"), ({"status": "cancelled"}, "cancelled")],
)
async def test_a_child_without_an_answer(world: World, answer: Any, code: str) -> None:
    """A child that raises, hangs or is stopped is a result that the model can read, and one end in the log."""
    await world.open({"timeout": 0.01 if code == "timeout" else 60})
    world.answer = answer
    result = await world.call(agent="explorer", instruction="x")
    assert result.error is not None
    assert (result.success, result.error["code"], result.error["session_id"]) == (False, code, CHILD)
    assert [name for name, _ in world.events] == ["task:agent_spawned", "task:agent_completed"]
    assert world.events[-1][1]["success"] is False


async def test_depth_is_limited(world: World) -> None:
    """`max_recursion_depth` is enforced."""
    await world.open({"max_recursion_depth": 0})
    result = await world.call(agent="explorer", instruction="x")
    assert result.error is not None
    assert result.error["code"] == "depth_exceeded"


async def test_missing_capability() -> None:
    """Without an app that runs children the model is told so."""
    coordinator = MockCoordinator()
    coordinator.config["agents"] = {"explorer": {}}
    await mount(coordinator)
    result = await coordinator.get("tools")["task"].execute({"agent": "explorer", "instruction": "x"})
    assert "session.spawn capability not available" in result.output


async def test_mounting(caplog: pytest.LogCaptureFixture) -> None:
    """Three events and the sign of life are contributed, unknown keys told, wrong values refused, agents described."""
    coordinator = MockCoordinator()
    with caplog.at_level(logging.WARNING):
        await mount(coordinator, {"max_recursion": 3})
    assert "did you mean 'max_recursion_depth'?" in caplog.text
    assert await coordinator.collect_contributions("observability.events") == [
        ["task:agent_spawned", "task:agent_resumed", "task:agent_completed", "delegation:heartbeat"]
    ]
    assert coordinator.get_capability("observability.events") is None
    tool = coordinator.get("tools")["task"]
    assert (tool.action, "There are no agents." in tool.description) == ("session.spawn", True)
    coordinator.config["agents"] = {"explorer": {"description": "Finds things out."}}
    assert "- explorer: Finds things out." in tool.description
    with pytest.raises(ValueError, match="'timeout' must be"):
        await mount(MockCoordinator(), {"timeout": "long"})
