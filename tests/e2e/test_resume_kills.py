"""A session that was killed goes on with everything it had."""

import json
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from types import ModuleType
from typing import Any

import pytest

KILLS = 20

USER: dict[str, Any] = {"role": "user", "content": "go"}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "c", "tool": "pages", "arguments": {}}],
}
RESULT: dict[str, Any] = {"role": "tool", "tool_call_id": "c", "name": "pages", "content": "page 1"}
LOST: dict[str, Any] = {**RESULT, "content": "lost", "metadata": {"synthetic": True}}


@pytest.mark.system
def test_a_killed_session_is_resumed_with_all_it_had(load: Callable[[str], ModuleType]) -> None:
    """Killed at any moment, also while it is resumed: nothing is forgotten, all calls are paired, the turn works."""
    kills, kill_resume = load("kills"), load("kill_resume")
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(kills.play, [kill_resume.ResumedRuns] * 2, [KILLS // 2] * 2, [21, 22]))
    assert [part.faults for part in parts] == [[], []]
    assert sum(part.counts["kills"] for part in parts) >= KILLS
    assert any(part.counts["messages"] for part in parts)


def test_what_is_forgotten_is_noticed(load: Callable[[str], ModuleType]) -> None:
    """The check can fail: a lost message, prompt, result or pairing is a fault, and a whole conversation none."""
    kills, kill_resume = load("kills"), load("kill_resume")
    seen = kill_resume.Seen([json.dumps(message).encode() for message in (USER, CALL)], ["go"], ["c"])

    def faults(*messages: dict[str, Any]) -> str:
        tally = kills.Tally()
        kill_resume.check(list(messages), seen, tally, "then")
        return "\n".join(tally.faults)

    assert faults(USER, CALL, RESULT) == ""
    assert "does not begin with them" in faults(USER)
    assert "prompts are forgotten" in faults(CALL, RESULT)
    assert "call c was done, and its result is 'lost'" in faults(USER, CALL, LOST)
    assert "missing_result" in faults(USER, CALL)
