"""The README is true: its config does what it says, its tables list what there is."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core import ApprovalResponse
from amplifier_module_hooks_approval.config import ApprovalConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


def allow(action: str, details: dict[str, Any]) -> str:
    """Be an app's policy that has nothing against anything."""
    return "allow"


async def test_the_example(run: Any, world: str, person: Any, no: Any, caplog: pytest.LogCaptureFixture) -> None:
    """Its rules allow, deny and ask as they read, and nothing in it is a mistake."""
    [text] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    config = yaml.safe_load(text)["hooks"][0]["config"]
    commands = ["git status -s", "pytest -q", "git push origin", "make"]
    somebody = person(no)
    outcome = await run(
        world, config, [("bash", {"command": command}) for command in commands], person=somebody, policies=(allow,)
    )
    assert {given["command"] for _, given in outcome.ran} == {"git status -s", "pytest -q"}
    assert [request.details["tool_input"]["command"] for request in somebody.asked] == ["make"]
    assert somebody.asked[0].timeout == 300
    assert caplog.records == []


async def test_the_line_that_registers_a_provider(run: Any, world: str, person: Any, yes: Any) -> None:
    """The one line of code is all that an app needs."""
    [line] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    provider = person(ApprovalResponse(approved=True))

    def register(coordinator: Any) -> None:
        exec(line, {"coordinator": coordinator, "provider": provider})

    calls = [("bash", {"command": "make"})]
    assert (await run(world, {}, calls, prepare=register)).ran == calls


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| (.*?) \|", README, flags=re.MULTILINE))
    assert set(rows) == ApprovalConfig.model_fields.keys()
    assert rows["default_action"] == f"`{ApprovalConfig().default_action}`"
    assert rows["policy_driven_only"] == "`false`"
    assert ApprovalConfig().default_timeout is None
