"""The README is true: its plan entry mounts, its tables are the tool's, and what it quotes is said."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_todo import mount

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_readme() -> None:
    """The entry has the module's id, every action is in the table with its keys, and the quoted refusal is real."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    assert yaml.safe_load(entry) == {"tools": [{"module": "tool-todo"}]}
    coordinator = MockCoordinator()
    await mount(coordinator)
    tool = coordinator.get("tools")["todo"]
    todos = [{"content": "a", "activeForm": "b", "status": "pending"}]
    rows = re.findall(r"`action: (\w+)`.*?\| `\{status: (\w+), ([\w, ]+)\}` \|", README)
    assert [row[0] for row in rows] == tool.input_schema["properties"]["action"]["enum"]
    for action, status, keys in rows:
        output = (await tool.execute({"action": action, "todos": todos})).output
        assert (output["status"], list(output)) == (status, ["status", *keys.split(", ")])
    [quoted] = re.findall(r"```text\n(.*?)\n```", README, flags=re.DOTALL)
    refused = await tool.execute({"action": "update", "todos": [*todos, {**todos[0], "status": "done"}]})
    assert refused.output == quoted
