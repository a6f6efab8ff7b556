"""Children that one tool starts side by side belong to its call, and no other work does."""

import asyncio
from collections.abc import Callable
from typing import Any

from amplifier_foundation.children.results import child_id
from amplifier_testing.loop.fakes import PlainTool

#: The root calls the tool; agents only answer.
_SCRIPT: tuple[Any, Any] = (
    [{"tool_calls": [{"name": "call", "arguments": {}, "id": "call-1"}]}, {"text": "Done."}],
    {name: [{"text": "Seen."}] for name in ("explorer", "builder")},
)


def _run_tool(tree: Any, add_tools: Callable[..., str], work: Callable[[Any, Any], Any]) -> None:
    """Let the model call a tool `call` once in the root, which works with the coordinator and `session.spawn`."""

    def make(coordinator: Any) -> list[PlainTool]:
        async def call(given: dict[str, Any]) -> str:
            return str(await work(coordinator, coordinator.get_capability("session.spawn")))

        return [PlainTool("call", call)]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script(*_SCRIPT)


def _children(tree: Any) -> dict[str, dict[str, Any]]:
    return {path.name: tree.metadata(path.name) for path in tree.place.iterdir() if "_" in path.name}


async def test_children_that_are_started_side_by_side_have_the_call_of_their_tool(
    tree: Any, add_tools: Callable[..., str]
) -> None:
    """The id of each follows from the call and its notes name it, so that it is found again after a crash."""

    async def work(coordinator: Any, spawn: Any) -> None:
        await asyncio.gather(*(spawn(agent_name=name, instruction="Go.") for name in ("explorer", "builder")))

    _run_tool(tree, add_tools, work)
    async with tree.run() as runtime:
        await runtime.execute("Go.")
    found = _children(tree)
    assert found.keys() == {child_id(runtime.session_id, "call-1", name) for name in ("explorer", "builder")}
    assert {facts["tool_call_id"] for facts in found.values()} == {"call-1"}
    [group] = {facts["parallel_group_id"] for facts in found.values()}
    assert group in {data.get("parallel_group_id") for name, data in tree.events(runtime.session_id)}


async def test_a_tool_that_asks_the_same_of_one_agent_several_times_at_once_has_as_many_answers(
    tree: Any, add_tools: Callable[..., str]
) -> None:
    """Three opinions are three children of one call; none is the copy of another."""

    async def work(coordinator: Any, spawn: Any) -> None:
        await asyncio.gather(*(spawn(agent_name="explorer", instruction="Go.") for _ in range(3)))

    _run_tool(tree, add_tools, work)
    async with tree.run() as runtime:
        await runtime.execute("Go.")
    found = _children(tree)
    assert len(found) == 3
    assert child_id(runtime.session_id, "call-1", "explorer") in found
    assert {facts["tool_call_id"] for facts in found.values()} == {"call-1"}


async def test_what_a_tool_leaves_running_belongs_to_no_call(tree: Any, add_tools: Callable[..., str]) -> None:
    """A child that is started when the call is over is not taken for one of it."""
    is_over = asyncio.Event()
    left: list[asyncio.Task[Any]] = []

    async def work(coordinator: Any, spawn: Any) -> None:
        async def later() -> Any:
            await is_over.wait()
            return await spawn(agent_name="explorer", instruction="Go.")

        left.append(asyncio.create_task(later()))

    _run_tool(tree, add_tools, work)
    async with tree.run() as runtime:
        await runtime.execute("Go.")
        is_over.set()
        result = await left[0]
    assert result["session_id"] != child_id(runtime.session_id, "call-1", "explorer")
    assert "tool_call_id" not in tree.metadata(result["session_id"])


async def test_what_a_child_starts_outside_of_its_own_calls_has_not_the_call_of_its_parent(
    tree: Any, add_tools: Callable[..., str]
) -> None:
    """A hook of the child works in what its parent's call has begun, and is no part of that call."""
    started: list[str] = []

    def make(coordinator: Any) -> list[PlainTool]:
        async def on_prompt(event: str, data: dict[str, Any]) -> None:
            if coordinator.parent_id is not None and not started:
                started.append("")
                spawn = coordinator.get_capability("session.spawn")
                started[0] = (await spawn(agent_name="builder", instruction="Go."))["session_id"]

        async def call(given: dict[str, Any]) -> str:
            spawn = coordinator.get_capability("session.spawn")
            return str((await spawn(agent_name="explorer", instruction="Go."))["output"])

        coordinator.hooks.register("prompt:submit", on_prompt)
        return [PlainTool("call", call)]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script(*_SCRIPT)
    async with tree.run() as runtime:
        await runtime.execute("Go.")
    child = child_id(runtime.session_id, "call-1", "explorer")
    assert tree.metadata(child)["tool_call_id"] == "call-1"
    assert tree.metadata(started[0])["parent_id"] == child
    assert "tool_call_id" not in tree.metadata(started[0])


async def test_a_call_of_a_child_wins_over_that_of_its_parent(tree: Any, delegating: str) -> None:
    """What a child's tool starts has the child's call, though all of it runs within the parent's."""
    tree.plan["tools"] = [{"module": delegating}]
    inner = {"name": "call", "arguments": {"agent": "builder"}, "id": "inner"}
    outer = {"name": "call", "arguments": {"agent": "explorer"}, "id": "outer"}
    turns = [{"tool_calls": [outer]}, {"text": "Done."}]
    tree.script(turns, {"explorer": [{"tool_calls": [inner]}, {"text": "Seen."}], "builder": [{"text": "Built."}]})
    async with tree.run() as runtime:
        await runtime.execute("Go.")
    above = child_id(runtime.session_id, "outer", "explorer")
    assert tree.metadata(child_id(above, "inner", "builder"))["tool_call_id"] == "inner"
