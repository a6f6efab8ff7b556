"""The module in a session: what it mounts, what it tells, and that its README is true."""

from __future__ import annotations

import asyncio
import json
import re
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_kit.config import config_keys
from amplifier_kit.engine.current_call import dispatched
from amplifier_module_tool_search import mount, search
from amplifier_module_tool_search.config import EXCLUSIONS, SearchConfig

Write = Callable[[Mapping[str, str | bytes]], None]
MakeTools = Callable[..., Awaitable[dict[str, Any]]]

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_both_tools_are_mounted(make_tools: MakeTools, coordinator: MockCoordinator) -> None:
    """grep and glob have the published schemas, ask to read, and their events can be discovered."""
    tools = await make_tools()
    grep, glob = tools["grep"].input_schema, tools["glob"].input_schema
    assert list(grep["properties"]) == [
        *("pattern", "path", "output_mode", "-i", "-n", "-A", "-B", "-C", "glob", "type", "multiline", "head_limit"),
        *("offset", "include_ignored"),
    ]
    assert list(glob["properties"]) == ["pattern", "path", "type", "exclude", "include_ignored"]
    assert grep["required"] == glob["required"] == ["pattern"]
    assert "larger than 10,485,760 bytes" in tools["grep"].description
    assert {tool.action for tool in tools.values()} == {"filesystem.read"}
    assert await coordinator.collect_contributions("observability.events") == [["tool:progress"]]


async def test_a_wrong_config_does_not_mount(coordinator: MockCoordinator) -> None:
    """A config that makes no sense is an error when the session starts."""
    with pytest.raises(ValueError, match="engine"):
        await mount(coordinator, {"engine": "find"})
    assert not coordinator.get("tools")


async def test_long_searches_tell(
    make_tools: MakeTools, coordinator: MockCoordinator, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A search that goes on says so again and again, with the call it belongs to; a short one says nothing."""
    write({"a": "a" * 60 + "!\n"})
    told: list[dict[str, Any]] = []

    async def hear(event: str, data: dict[str, Any]) -> None:
        told.append(data)

    coordinator.hooks.register("tool:progress", hear)
    tools = await make_tools({"engine": "python", "grep": {"timeout": 60}})
    monkeypatch.setattr(search, "PROGRESS_PERIOD", 60)
    await tools["grep"].execute({"pattern": "none"})
    assert told == []
    monkeypatch.setattr(search, "PROGRESS_PERIOD", 0.1)

    async def call() -> None:
        with dispatched(coordinator, {"tool_call_id": "call-7"}):
            await tools["grep"].execute({"pattern": "(a+)+$"})

    searching = asyncio.create_task(call())
    assert await wait_for(lambda: len(told) > 1, timeout=60)
    searching.cancel()
    await asyncio.wait([searching])
    assert told[0]["tool_name"] == "grep"
    assert told[0]["tool_call_id"] == "call-7"
    assert told[0]["message"].startswith("searching ")
    assert told[0]["elapsed_seconds"] >= 0


async def test_the_plan_entry_of_the_readme(coordinator: MockCoordinator, write: Write) -> None:
    """The entry in the README mounts, and does what it says."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    [tool] = yaml.safe_load(entry)["tools"]
    await mount(coordinator, tool["config"])
    write({"build/a": "", "node_modules/b": ""})
    result = await coordinator.get("tools", "glob").execute({"pattern": "**"})
    assert [match["path"] for match in result.output["matches"]] == ["build/a"]
    refused = await coordinator.get("tools", "glob").execute({"pattern": "*", "path": ".."})
    assert refused.error["code"] == "not_allowed"


async def test_the_examples_of_the_readme(make_tools: MakeTools, write: Write, project: Path) -> None:
    """Calls and answers in the README are real."""
    write({"src/app.py": "def main():\n    return 0\n"})
    tools = await make_tools()
    blocks = [json.loads(block) for block in re.findall(r"```json\n(.*?)```", README, flags=re.DOTALL)]
    for call, answer in zip(blocks[::2], blocks[1::2], strict=True):
        result = await tools["grep" if "output_mode" in call else "glob"].execute(call)
        if "base_path" in answer:
            answer["base_path"] = str(project)
        assert result.output == answer


def test_the_table_of_the_readme() -> None:
    """Keys and defaults of the table are those of the code, and the folders that are left out are named."""
    rows = dict(re.findall(r"^\| `([\w.]+)` \| `?([^`|]*?)`? \|", README, flags=re.MULTILINE))
    assert rows == _defaults()
    named = re.search(r"Left out by default: (.*?)\.\n\n", README, flags=re.DOTALL)
    assert named is not None
    assert tuple(re.findall(r"`([^`]+)`", named[1])) == EXCLUSIONS


def _defaults() -> dict[str, str]:
    return {
        key.key: "see below" if key.key.endswith(".exclusions") else "null" if key.default is None else str(key.default)
        for key in config_keys(SearchConfig)
    }
