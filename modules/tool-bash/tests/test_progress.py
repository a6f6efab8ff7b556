"""A long command shows that it is alive."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

from amplifier_core.testing import EventRecorder
from amplifier_module_tool_bash import BashTool
from amplifier_module_tool_bash.tool import EVERY

MakeTool = Callable[..., BashTool]


async def test_signs_of_life(make_tool: MakeTool, coordinator: Any, tmp_path: Path) -> None:
    """Events tell which call it is, for how long it has run, and the last line; they end with the command."""
    recorder = EventRecorder()
    coordinator.hooks.register("tool:progress", recorder.record)
    tool = make_tool(progress_every=0.1, timeout=60)

    def go_on(event: str, data: dict[str, Any]) -> None:
        if data["last_line"]:
            (tmp_path / "project" / "go").touch()

    coordinator.hooks.register("tool:progress", go_on)

    async def call() -> Any:
        coordinator._tool_dispatch_contexts = {asyncio.current_task(): {"tool_call_id": "call-7"}}
        return await tool.execute({"command": "echo working on it; while ! test -e go; do sleep 0.05; done"})

    result = await asyncio.create_task(call())
    assert result.success
    told = [data for _, data in recorder.get_events("tool:progress")]
    last = told[-1]
    assert (last["tool_name"], last["tool_call_id"], last["last_line"]) == ("bash", "call-7", "working on it")
    assert last["message"].endswith(" s: working on it")
    assert last["output_bytes"] == 14
    assert sorted(data["elapsed"] for data in told) == [data["elapsed"] for data in told]
    await asyncio.sleep(0.3)
    assert len(recorder.get_events("tool:progress")) == len(told)


async def test_a_short_command_says_nothing(make_tool: MakeTool, coordinator: Any) -> None:
    """What is over at once needs no sign of life; at most two come in a second."""
    recorder = EventRecorder()
    coordinator.hooks.register("tool:progress", recorder.record)
    await make_tool(progress_every=1000).execute({"command": "true"})
    assert recorder.get_events("tool:progress") == []
    assert EVERY >= 0.5


async def test_a_listener_that_hangs(make_tool: MakeTool, coordinator: Any) -> None:
    """Whoever takes long over an event does not hold the command up."""

    async def hang(event: str, data: dict[str, Any]) -> None:
        await asyncio.sleep(1000)

    coordinator.hooks.register("tool:progress", hang)
    result = await make_tool(progress_every=0.1, timeout=60).execute({"command": "sleep 0.5; echo done"})
    assert result.output["stdout"] == "done\n"
