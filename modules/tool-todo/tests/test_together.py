"""The list and its reminder in one real session: loop, context, scripted model, tool and hook."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core import AmplifierSession

SCENARIO = """
turns:
  - expect: {last_role: user, contains: clean up, tools: [todo]}
    tool_calls:
      - name: todo
        arguments:
          action: create
          todos:
            - {content: Find dead code, activeForm: Finding dead code, status: in_progress}
            - {content: Remove it, activeForm: Removing it, status: pending}
  - expect:
      last_role: tool
      contains: ["Todo list, 0 of 2 done:", "[>] Finding dead code", "[ ] Remove it"]
    tool_calls:
      - {name: todo, arguments: {action: update, todos: [{content: Find dead code, status: done}]}}
  - expect: {contains: ["$.todos[0]: 'activeForm' is a required property", "[>] Finding dead code"]}
    tool_calls:
      - name: todo
        arguments:
          action: update
          todos:
            - {content: Find dead code, activeForm: Finding dead code, status: completed}
            - {content: Remove it, activeForm: Removing it, status: in_progress}
  - expect: {last_role: tool, contains: ["Todo list, 1 of 2 done:", "[x] Find dead code", "[>] Removing it"]}
    tool_calls: [{name: todo, arguments: {action: list}}]
  - expect: {last_role: tool, contains: ['"status": "listed"']}
    text: One step is left.
  - expect: {last_role: user, contains: "[>] Removing it"}
    text: Still one.
"""


def plan(tmp_path: Path, loop: str) -> dict[str, Any]:
    """Return a session of first-party modules whose model follows the scenario."""
    (tmp_path / "scenario.yaml").write_text(SCENARIO, encoding="utf-8")
    return {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "providers": [{"module": "provider-mock", "config": {"scenario": str(tmp_path / "scenario.yaml")}}],
        "tools": [{"module": "tool-todo"}],
        "hooks": [{"module": "hooks-todo-reminder", "config": {"recent_tool_threshold": 100}}],
    }


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
async def test_the_model_is_shown_the_list_it_keeps(tmp_path: Path, loop: str) -> None:
    """What the tool keeps is in the next request, a refused update changes nothing, and nothing is stored twice."""
    async with AmplifierSession(plan(tmp_path, loop)) as session:
        session.coordinator.register_policy("test", lambda action, details: "allow" if action == "tool.todo" else None)
        assert await session.execute("clean up") == "One step is left."
        assert await session.execute("and?") == "Still one."
        stored = str(await session.coordinator.get("context").get_messages())
        assert "system-reminder" not in stored
        todos = session.coordinator.todo_state  # type: ignore[attr-defined]  # the tool sets it
        assert [todo["status"] for todo in todos] == ["completed", "in_progress"]


async def test_without_permission_there_is_no_list(tmp_path: Path) -> None:
    """A call that no policy allows is not run."""
    script = plan(tmp_path, "loop-basic")
    scenario = yaml.safe_load(SCENARIO)
    scenario["turns"] = [scenario["turns"][0], {"expect": {"contains": "Denied"}, "text": "I may not."}]
    (tmp_path / "scenario.yaml").write_text(yaml.safe_dump(scenario), encoding="utf-8")
    async with AmplifierSession(script) as session:
        assert await session.execute("clean up") == "I may not."
        assert not hasattr(session.coordinator, "todo_state")
