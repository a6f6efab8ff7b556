"""The README is true: its plan entry mounts, its engine answers, and its table lists every key with its default."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import yaml

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import config_keys
from amplifier_module_tool_web import mount, on_session_ready
from amplifier_module_tool_web.config import WebConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_blocks_run() -> None:
    """The plan entry mounts both tools when the engine of the README is there, and the engine answers."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [code] = re.findall(r"```python\n(.*?)```", README, flags=re.DOTALL)
    coordinator = MockCoordinator()
    close = await mount(coordinator, yaml.safe_load(entry)["tools"][0]["config"])
    exec(compile(code, "README.md", "exec"), {"coordinator": coordinator})
    await on_session_ready(coordinator)
    tools = coordinator.get("tools")
    assert sorted(tools) == ["web_fetch", "web_search"]
    assert (await tools["web_search"].execute({"query": "tens"})).output["results"][0]["snippet"] == "About tens"
    await close()


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    assert rows == {key.key: _as_yaml(key.default) for key in config_keys(WebConfig)}


def test_every_code_is_listed() -> None:
    """Every code with which the module itself fails a fetch stands in the README."""
    package = Path(__file__).parent.parent / "amplifier_module_tool_web"
    source = "".join(path.read_text(encoding="utf-8") for path in package.glob("*.py") if path.name != "search.py")
    codes = set(re.findall(r'Failure\(\s*"(\w+)"', source))
    assert len(codes) > 10
    assert [code for code in sorted(codes) if f"`{code}`" not in README] == []


def _as_yaml(value: Any) -> str:
    return yaml.safe_dump(list(value) if isinstance(value, tuple) else value).partition("\n")[0]
