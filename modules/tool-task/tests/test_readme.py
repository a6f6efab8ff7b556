"""The README is true: its plan entry mounts, and its tables are the tool's."""

from __future__ import annotations

import re
from pathlib import Path

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.engine.delegation.request import DelegationConfig
from amplifier_module_tool_task import mount

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def keys_of(heading: str) -> list[str]:
    """Return the first column of the table with this heading."""
    table = README.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    return re.findall(r"^\| `([\w:]+)`", table, flags=re.MULTILINE)


async def test_readme() -> None:
    """The entry mounts; settings and events are those that there are, and every input is spoken of."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [module] = yaml.safe_load(entry)["tools"]
    coordinator = MockCoordinator()
    await mount(coordinator, module["config"])
    tool = coordinator.get("tools")["task"]
    assert module["module"] == "tool-task"
    assert all(f"`{key}`" in README for key in tool.input_schema["properties"])
    assert set(keys_of("Key")) == set(DelegationConfig.model_fields) - {"inherit_tools", "inherit_hooks"}
    [events] = await coordinator.collect_contributions("observability.events")
    assert set(keys_of("Event")) == set(events)
