"""Children whose modules cannot be had, or do not let go: what their parent gets, and what their log says."""

import asyncio
from typing import Any

import pytest

from amplifier_foundation.spawn import ChildRefusedError
from amplifier_foundation.spawn import child as child_module
from amplifier_kit.loop.testing import PlainTool


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
    monkeypatch.setattr(child_module, "_CLOSE_SECONDS", 0.1)
    hanging, going = asyncio.Event(), asyncio.Event()

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
        async with asyncio.timeout(60):
            result = await spawn_in(runtime)("explorer", "Go.")
        assert hanging.is_set()
        assert await runtime.execute("And now?") == "I go on."
        assert runtime.budget._children == 0
        assert not runtime.children._running
        going.set()
    assert (result["status"], result["output"]) == ("success", "Seen.")
    assert _ends(tree, result["session_id"]) == ["completed"]
