"""What is counted of a turn."""

from __future__ import annotations

from typing import Any

from amplifier_app_cli.running.tally import Tally
from amplifier_core.hooks import HookRegistry


async def test_a_changed_input_is_the_same_call() -> None:
    """A call whose input a person has changed is in the trace once, in its place, with what it ran with."""
    hooks, tally = HookRegistry(), Tally()
    tally.connect(hooks)
    for name, call, more in (("a", "1", {}), ("b", "2", {}), ("a", "1", {"edits": 1})):
        data: dict[str, Any] = {"tool_name": name, "tool_call_id": call, "tool_input": {"x": len(more)}, **more}
        await hooks.emit("tool:pre", data)
    await hooks.emit("tool:post", {"tool_call_id": "1", "result": {"success": True}})
    assert [(call["tool"], call["arguments"], call["sequence"]) for call in tally.trace] == [
        ("a", {"x": 1}, 1),
        ("b", {"x": 0}, 2),
    ]
    assert tally.trace[0]["result"] == {"success": True}


async def test_an_attempt_that_broke_off_makes_the_cost_unknown() -> None:
    """What an attempt cost that brought nothing is known to nobody: the known part is not told as if it were all."""
    hooks, tally = HookRegistry(), Tally()
    tally.connect(hooks)
    paid = {"usage": {"input_tokens": 3, "cost_usd": "0.5"}}
    await hooks.emit("llm:response", {**paid, "unpriced_attempts": 0})
    assert tally.cost == "0.5"
    await hooks.emit("llm:response", {**paid, "unpriced_attempts": 1})
    assert (tally.cost, tally.usage) == (None, {"input_tokens": 6})
