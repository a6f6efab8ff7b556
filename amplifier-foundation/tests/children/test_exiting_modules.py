"""Children whose modules call sys.exit: it ends at most their own session, and everybody's log is complete."""

import asyncio
import sys
from typing import Any

import pytest

from amplifier_foundation.children.errors import ChildError
from amplifier_kit.log.open_work import TRACKED, OpenWork
from amplifier_testing.loop.fakes import PlainTool

#: Moments at which a module of a child wants to end the program, and how its session ends then.
_MOMENTS = {
    "mount": "failed",
    "session:start": "failed",
    "prompt:submit": "failed",
    "provider:request": "failed",
    "tool:pre": "completed",
    "look": "completed",
    "tool:post": "completed",
    "orchestrator:complete": "failed",
    "cleanup": "completed",
}


def _lacking(events: list[tuple[str, dict[str, Any]]]) -> list[str]:
    """Return the ends that a log lacks of what it has the beginning of."""
    lacking: list[str] = []
    log = OpenWork("x", lambda event, data: lacking.append(event), lambda: "completed")
    for event, data in events:
        if event in TRACKED:
            log.note(event, data)
    log.end()
    return lacking


def _leave(*_: Any) -> None:
    sys.exit(2)


@pytest.mark.parametrize(("moment", "status"), _MOMENTS.items())
async def test_a_module_that_ends_the_program_ends_no_other_session(
    tree: Any, spawn_in: Any, add_tools: Any, moment: str, status: str
) -> None:
    """Brothers and parent go on, the parent can read what happened, and every log has all its ends."""

    def make(coordinator: Any) -> list[PlainTool]:
        is_its = coordinator.parent_id is not None and coordinator.session_id.endswith("explorer")
        if is_its and moment == "mount":
            _leave()
        if is_its and ":" in moment:
            coordinator.hooks.register(moment, _leave, name="leaves")
        if is_its and moment == "cleanup":
            coordinator.register_cleanup(_leave)
        return [PlainTool("look", _leave if is_its and moment == "look" else lambda _: "seen")]

    tree.plan["tools"] = [{"module": add_tools(make)}]
    looking = [{"tool_calls": [{"id": "l", "name": "look", "arguments": {}}]}, {"text": "Looked."}]
    tree.script([{"text": "I go on."}], {"explorer": looking, "builder": looking})
    async with tree.run() as runtime:
        spawn = spawn_in(runtime)
        ids = {agent: spawn.child_id(agent, f"c-{agent}") for agent in ("explorer", "builder")}
        leaves: Any
        stays: Any
        leaves, stays = await asyncio.gather(
            *(spawn(agent, "Go.", tool_call_id=f"c-{agent}") for agent in ("explorer", "builder")),
            return_exceptions=True,
        )
        assert await runtime.execute("And now?") == "I go on."
        assert not runtime.children.sessions._running
    assert (stays["status"], stays["output"]) == ("success", "Looked.")
    if status == "failed":
        assert isinstance(leaves, ChildError)
        assert "SystemExit: 2" in str(leaves)
    else:
        assert leaves["output"] == "Looked."
    ends = {name: [d["status"] for event, d in tree.events(one) if event == "session:end"] for name, one in ids.items()}
    # What ends before all modules are there may have no log of its own: its parent's says it.
    assert ends == {"explorer": [status] if moment != "mount" else [], "builder": ["completed"]}
    for session_id in (*ids.values(), runtime.session_id):
        assert _lacking(tree.events(session_id)) == []
