"""The README is true: its plan entry runs, and its table lists every key with its default."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_kit.config import config_keys
from amplifier_module_hooks_todo_reminder.config import ReminderConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(make_session: Callable[..., Any], requests_of: Callable[[Any], Any]) -> None:
    """A session with the entry of the README shows the model its list."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    todos = [{"content": "Read", "status": "pending"}]
    async with make_session([[("todo", {"todos": todos})], "done"], yaml.safe_load(entry)["hooks"]) as session:
        await session.execute("go")
        assert "[ ] Read" in requests_of(session)[1][-1]["content"]


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]*)` \|", README, flags=re.MULTILINE))
    assert rows == {key.key: str(key.default) for key in config_keys(ReminderConfig)}
