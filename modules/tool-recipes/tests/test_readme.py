"""The README is true: its plan entry mounts, its recipe runs, and its tables are those of the module."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_module_tool_recipes import CONFIG, mount
from amplifier_module_tool_recipes.recipe import Step

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def keys_of(heading: str) -> set[str]:
    """Return the names in the first column of the table with this heading."""
    table = README.split(f"| {heading} |", 1)[1].split("\n\n", 1)[0]
    cells = re.findall(r"^\| (`.*?) \|", table, flags=re.MULTILINE)
    return {name for cell in cells for name in re.findall(r"`([\w:]+)`", cell)}


async def test_the_tables(open_world: Any) -> None:
    """Config keys, inputs, keys of a step and events are those that there are."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [module] = yaml.safe_load(entry)["tools"]
    coordinator = MockCoordinator()
    await mount(coordinator, module["config"])
    [events] = await coordinator.collect_contributions("observability.events")
    assert keys_of("Event") == set(events)
    assert keys_of("Key") == set(CONFIG.model_fields)
    assert keys_of("Input") == set(coordinator.get("tools")["recipes"].input_schema["properties"])
    assert keys_of("Key of a step") == {field.alias or name for name, field in Step.model_fields.items()}


async def test_the_recipe(world: Any) -> None:
    """The recipe of the README asks after its first stage and completes after approval."""
    [recipe] = re.findall(r"```yaml recipe\n(.*?)```", README, flags=re.DOTALL)
    (world.project / "check.yaml").write_text(recipe)
    (world.project / "good.py").write_text("x = 1\n")
    (world.project / "wrong.py").write_text("x =\n")
    assert (await world.call("validate", recipe_path="check.yaml"))["warnings"] == []
    paused = await world.call("execute", recipe_path="check.yaml")
    assert paused["approval_prompt"] == 'Compile ["good.py", "wrong.py"]?'
    await world.call("approve", session_id=paused["session_id"])
    done = await world.call("resume", session_id=paused["session_id"])
    assert done["status"] == "completed", done
    good, wrong = world.state(done["session_id"])["context"]["results"]
    assert good == "ok"
    assert "exit code 1" in wrong["error"]
