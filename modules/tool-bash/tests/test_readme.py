"""The README is true: its plan entry mounts and works, and its table lists every key with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_kit.config import config_keys
from amplifier_module_tool_bash import mount
from amplifier_module_tool_bash.config import PROFILES, BashConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_works(coordinator: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """A tool with the config of the README runs commands as configured there."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [plan] = yaml.safe_load(entry)["tools"]
    monkeypatch.setenv("GITHUB_TOKEN", "for commands")
    monkeypatch.setenv("AWS_SECRET_ACCESS_KEY", "too")
    monkeypatch.setenv("OPENAI_API_KEY", "not for commands")
    cleanup = await mount(coordinator, plan["config"])
    tool = coordinator.get("tools")["bash"]
    result = await tool.execute({"command": "echo $GITHUB_TOKEN $AWS_SECRET_ACCESS_KEY $OPENAI_API_KEY"})
    assert result.output["stdout"] == "for commands too\n"
    await cleanup()


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    assert rows == {key.key: _as_yaml(key.default) for key in config_keys(BashConfig)}


def test_the_table_lists_every_profile() -> None:
    """The profiles of the table are those of the code."""
    assert tuple(re.findall(r"^\| `(\w+)` \| [^`\n]*[a-z]", README.partition("## Safety")[2], re.MULTILINE)) == PROFILES


def test_every_code_is_listed() -> None:
    """Every code that a failure may have is in the README."""
    package = Path(__file__).parent.parent / "amplifier_module_tool_bash"
    source = "".join(path.read_text(encoding="utf-8") for path in package.glob("*.py"))
    codes = set(re.findall(r'failure\("(\w+)"', source)) | {"exit_code", "signal", "timeout", "lost"}
    assert codes <= set(re.findall(r"`(\w+)`", README))


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(list(value) if isinstance(value, tuple) else value).partition("\n")[0]
