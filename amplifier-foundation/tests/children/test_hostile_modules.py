"""Children whose modules cannot be had, or do not let go: what their parent gets, and what their log says."""

import asyncio
import time
from typing import Any

import pytest

from amplifier_foundation.children import child_session
from amplifier_foundation.children.errors import ChildRefusedError
from amplifier_testing.loop.fakes import PlainTool


def _ends(tree: Any, session_id: str) -> list[str]:
    return [data["status"] for event, data in tree.events(session_id) if event == "session:end"]


async def test_the_log_of_a_child_that_was_refused_ends_as_failed(tree: Any, spawn_in: Any) -> None:
    """A child whose modules are missing is not called completed, by its own log either; its parent's turn goes on."""
    tree.script([{"text": "I go on."}], {})
    tree.plan["agents"]["explorer"]["tools"] = [{"module": "tool-absent"}]
    async with tree.run() as runtime:
        with pytest.raises(ChildRefusedError, match="tool-absent"):
            await spawn_in(runtime)("explorer", "Go.", tool_call_id="c")
        child = spawn_in(runtime).child_id("explorer", "c")
        assert await runtime.execute("And now?") == "I go on."
    assert (_ends(tree, child), _ends(tree, runtime.session_id)) == (["failed"], ["completed"])


@pytest.mark.parametrize("listens", [True, False])
async def test_a_child_that_hangs_while_it_is_taken_down_gives_its_answer(
    tree: Any, spawn_in: Any, add_tools: Any, monkeypatch: pytest.MonkeyPatch, listens: bool
) -> None:
    """Its answer is there: whoever started it has it, and goes on, whether the module heeds its end or not."""
    monkeypatch.setattr(child_session, "_CLOSE_SECONDS", 100.0)
    hanging, going = asyncio.Event(), asyncio.Event()
    # By the loop's clock its time to end is up when its module hangs, and not before.
    monkeypatch.setattr(asyncio.get_running_loop(), "time", lambda: time.monotonic() + 1000 * hanging.is_set())

    def make(coordinator: Any) -> list[PlainTool]:
        async def clean_up() -> None:
            hanging.set()
            while not going.is_set():
                try:
                    await going.wait()
                except asyncio.CancelledError:
                    if listens:
                        raise

        if coordinator.parent_id is not None:
            coordinator.register_cleanup(clean_up)
        return [PlainTool("look")]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script([{"text": "I go on."}], {"explorer": [{"text": "Seen."}]})
    async with tree.run() as runtime:
        async with asyncio.timeout(1060):
            result = await spawn_in(runtime)("explorer", "Go.")
        assert hanging.is_set()
        assert await runtime.execute("And now?") == "I go on."
        assert runtime.budget.running_children == 0
        assert not runtime.children.sessions._running
        going.set()
    assert (result["status"], result["output"]) == ("success", "Seen.")
    assert _ends(tree, result["session_id"]) == ["completed"]
    told = [data["message"] for event, data in tree.events(runtime.session_id) if event == "log:entry"]
    assert [text for text in told if result["session_id"] in text and "was abandoned" in text]


async def test_a_child_whose_module_panics_while_it_is_taken_down_gives_its_answer(
    tree: Any, spawn_in: Any, add_tools: Any
) -> None:
    """What goes wrong after the answer costs no answer, and its log is closed."""

    class Panic(BaseException):
        pass

    def make(coordinator: Any) -> list[PlainTool]:
        async def clean_up() -> None:
            raise Panic("index out of bounds")

        if coordinator.parent_id is not None:
            coordinator.register_cleanup(clean_up)
        return [PlainTool("look")]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script([], {"explorer": [{"text": "Seen."}]})
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
    assert (result["status"], result["output"]) == ("success", "Seen.")
    assert _ends(tree, result["session_id"]) == ["completed"]


@pytest.mark.parametrize("is_stopped", [False, True])
async def test_a_child_of_which_nobody_tells_the_cost_ends(
    tree: Any, spawn_in: Any, add_tools: Any, eventually: Any, monkeypatch: pytest.MonkeyPatch, is_stopped: bool
) -> None:
    """A module that hangs when it is asked what the child costs holds up neither its end nor its parent's.

    What the child has used is counted all the same.
    """
    monkeypatch.setattr(child_session, "_COST_SECONDS", 0.05)
    asked = asyncio.Event()

    def make(coordinator: Any) -> list[PlainTool]:
        async def tell() -> None:
            asked.set()
            await asyncio.Event().wait()

        if coordinator.parent_id is not None:
            coordinator.register_contributor("session.cost", "hangs", tell)
        return [PlainTool("look")]

    used = {"input_tokens": 3, "output_tokens": 2, "cost_usd": "0.5"}
    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script([], {"explorer": [{"text": "Seen.", "usage": used}]})
    async with tree.run() as runtime:
        spawning = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", tool_call_id="c"))
        await eventually(asked.is_set)
        if is_stopped:
            spawning.cancel()
        async with asyncio.timeout(60):
            await asyncio.wait([spawning])
        child = spawn_in(runtime).child_id("explorer", "c")
        assert {"cost_usd": "0.5"} in await runtime.session.coordinator.collect_contributions("session.cost")
        assert is_stopped or spawning.result()["metadata"]["cost_usd"] == "0.5"
        assert not runtime.children.sessions._running
    assert [event for event, _ in tree.events(child)][-1] == "session:end"


async def test_whose_child_it_is_is_known_before_its_modules_are_there(
    tree: Any, spawn_in: Any, add_tools: Any
) -> None:
    """One that is killed while a module takes its time to mount is still its parent's, by its agent and its call."""
    from amplifier_foundation.sessions.metadata import read_summary

    known: dict[str, Any] = {}

    def make(coordinator: Any) -> list[PlainTool]:
        folder = tree.place / coordinator.session_id
        if coordinator.parent_id is not None:
            known.update(tree.metadata(coordinator.session_id), summary=read_summary(folder))
        return [PlainTool("look")]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    tree.script([], {"explorer": [{"text": "Seen."}]})
    async with tree.run() as runtime:
        await spawn_in(runtime)("explorer", "Go.", tool_call_id="c")
    assert (known["parent_id"], known["agent_name"], known["tool_call_id"]) == (runtime.session_id, "explorer", "c")
    assert (known["summary"].is_child, known["summary"].parent_id) == (True, runtime.session_id)
