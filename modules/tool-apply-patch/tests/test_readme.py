"""The README is true: its plan entry and its patches work, and its table is that of the code."""

from __future__ import annotations

import json
import re
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_module_tool_apply_patch import PatchConfig
from amplifier_module_tool_apply_patch.patch import MOST_LINES

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
GREET = 'def greet(name):\n    return f"Hello {name}"\n'


def _block(language: str) -> str:
    [found] = re.findall(rf"```{language}\n(.*?)```", README, flags=re.DOTALL)
    return str(found)


@pytest.fixture(autouse=True)
def _files(project: Path) -> None:
    (project / "greet.py").write_text("def greet(name):\n    return name\n", encoding="utf-8")
    (project / "old_name.py").write_text("x\n", encoding="utf-8")
    (project / "unused.py").touch()


async def test_the_plan_entry_works(make_desk: Callable[..., Awaitable[Any]]) -> None:
    """The entry configures the tool."""
    [tool] = yaml.safe_load(_block("yaml"))["tools"]
    assert tool["module"] == "tool-apply-patch"
    desk = await make_desk(**tool["config"])
    await desk.done(type="create_file", path="src/a", diff="+a")
    assert desk.coordinator.get_capability("apply_patch.engine") == "function"


async def test_the_native_form_works(desk: Any, project: Path) -> None:
    """The example of the native form does what it says."""
    await desk.done(**json.loads(_block("json")))
    assert (project / "greet.py").read_text(encoding="utf-8") == GREET


async def test_the_envelope_works(desk: Any) -> None:
    """The example of the envelope does what it says."""
    output = await desk.done(patch=_block("text"))
    assert output == "M greet.py\nA docs/greet.md\nD old_name.py\nA new_name.py\nD unused.py"
    assert desk.tree() == {"greet.py": GREET.encode(), "docs/greet.md": b"# Greeting\n", "new_name.py": b"x\n"}


def test_the_table_is_complete() -> None:
    """Every config key has its row, and the bound is that of the code."""
    keys = re.findall(r"^\| `(\w+)` \| [^|]+ \| [^|]+ \|$", README, flags=re.MULTILINE)
    assert set(keys) == PatchConfig.model_fields.keys()
    assert f"{MOST_LINES} lines at most" in README
