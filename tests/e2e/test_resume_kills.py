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
    resume_kills = load("resume_kills")
    with ThreadPoolExecutor(2) as pool:
        parts = list(pool.map(resume_kills.kill_many, [KILLS // 2] * 2, [21, 22]))
    found = [one for part in parts for one in part]
    assert [one.violations for one in found] == [[]] * len(found)
    assert sum(one.kills for one in found) >= KILLS
    assert any(one.messages for one in found)


def test_what_is_forgotten_is_noticed(load: Callable[[str], ModuleType]) -> None:
    """The check can fail: a lost message, prompt, result or pairing is a violation, and a whole conversation none."""
    resume_kills = load("resume_kills")
    seen = resume_kills.Seen([json.dumps(message).encode() for message in (USER, CALL)], ["go"], ["c"])

    def violations(*messages: dict[str, Any]) -> str:
        found = resume_kills.Found()
        resume_kills.check(list(messages), seen, found, "then")
        return "\n".join(found.violations)

    assert violations(USER, CALL, RESULT) == ""
    assert "does not begin with them" in violations(USER)
    assert "prompts are forgotten" in violations(CALL, RESULT)
    assert "call c was done, and its result is 'lost'" in violations(USER, CALL, LOST)
    assert "missing_result" in violations(USER, CALL)
