"""The README is true: its example runs, and its tables list what there is."""

from __future__ import annotations

import re
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import config_keys
from amplifier_module_tool_skills import EVENTS
from amplifier_module_tool_skills.config import SkillsConfig
from amplifier_module_tool_skills.tool import LoadSkillTool

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


async def test_the_example_runs(start: Any, coordinator: MockCoordinator, project: Path) -> None:
    """The entry mounts, the skill of the README is found, and its text comes back."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [(name, text)] = re.findall(r"```markdown file=(\S+)\n(.*?)```", README, flags=re.DOTALL)
    (project / name).parent.mkdir(parents=True)
    (project / name).write_text(text, encoding="utf-8")
    (project / "shipped").mkdir()
    known = {"@amplifier:skills": project / "shipped"}
    coordinator.register_capability("mention_resolver", SimpleNamespace(resolve=known.get))
    tool = await start(yaml.safe_load(entry)["tools"][0]["config"])
    assert (await tool.execute({"list": True})).output["count"] == 1
    assert "problems" not in (await tool.execute({"list": True})).output
    assert "Group the commits" in (await tool.execute({"skill_name": "release-notes"})).output["content"]


def test_the_config_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \| (.*?) \|", README.partition("## Config")[2].partition("## ")[0], re.M))
    known = {key.key: key.default for key in config_keys(SkillsConfig)}
    shown: dict[Any, str] = {None: "none", (): "none", True: "`true`"}
    expected = {key: shown.get(value, f"`{value}`") for key, value in known.items()} | {"working_dir": "the session's"}
    assert rows == expected


def test_inputs_events_and_codes_are_listed() -> None:
    """Every input, event and error code is in the README."""
    for name in (*LoadSkillTool.input_schema["properties"], *EVENTS):
        assert f"`{name}`" in README or f"`{name}: true`" in README
    source = (ROOT / "amplifier_module_tool_skills/tool.py").read_text(encoding="utf-8")
    for code in set(re.findall(r'_failure\("(\w+)"', source)):
        assert f"`{code}`" in README
