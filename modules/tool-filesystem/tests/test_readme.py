"""The README is true: its plan entry works, and its tables are those of the code."""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_kit.guard.files.workspace import FileConfig
from amplifier_module_tool_filesystem import folder as folder_module
from amplifier_module_tool_filesystem import lines as lines_module

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_works(make_desk: Callable[..., Awaitable[Any]], project: Path) -> None:
    """With the config of the README, the tools write where it says."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [tool] = yaml.safe_load(entry)["tools"]
    assert tool["module"] == "tool-filesystem"
    desk = await make_desk(**tool["config"])
    await desk.done("write_file", file_path="src/a.py", content="")
    assert (await desk.refused("write_file", file_path="src/generated/a.py", content=""))[0] == "denied_path"
    assert (await desk.refused("write_file", file_path="a.py", content=""))[0] == "outside_allowed_paths"


def test_the_tables_are_complete() -> None:
    """Every config key has its row, and the bounds are those of the code."""
    keys = re.findall(r"^\| `(\w+)` \| [^|`]+ \| [^|]+ \|$", README, flags=re.MULTILINE)
    assert set(keys) == FileConfig.model_fields.keys()
    for bound in (lines_module.LONGEST_LINE, folder_module.MOST_LISTED):
        assert f"{bound} " in README
    assert f"{lines_module.MOST_CHARACTERS:,} characters" in README
    assert f"{lines_module.MOST_BYTES // 2**20} MiB" in README


async def test_the_tools_are_those_of_the_table(desk: Any) -> None:
    """Names, actions and inputs in the table are those of the tools."""
    rows = dict(re.findall(r"^\| `(\w+_file)` \| `([\w.]+)` \|", README, flags=re.MULTILINE))
    tools = desk.coordinator.get("tools")
    assert rows == {name: tool.action for name, tool in tools.items()}
    for name, tool in tools.items():
        [row] = [line for line in README.splitlines() if line.startswith(f"| `{name}`")]
        assert all(f"`{key}`" in row for key in tool.input_schema["properties"])
