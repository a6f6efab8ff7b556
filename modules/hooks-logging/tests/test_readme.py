"""The README is true: its plan entry runs, and its table lists every key with its default."""

from __future__ import annotations

import json
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import yaml

from amplifier_core import AmplifierSession
from amplifier_kit.config import config_keys
from amplifier_kit.log.reader import read_log
from amplifier_module_hooks_logging.config import LogConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(home: Path, plan: Callable[..., dict[str, Any]]) -> None:
    """A session with the entry of the README logs what it says."""
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    session = AmplifierSession(plan(hooks=yaml.safe_load(entry)["hooks"]), session_id="readme")
    async with session:
        session.coordinator.session_state["events"] = [
            ("content_block:start", {}),
            ("llm:request", {"raw": 1, "model": "m"}),
        ]
        await session.execute("go")
    [path] = home.rglob("readme/events.jsonl")
    lines = list(read_log(path))
    assert [line.event for line in lines if line.event.startswith(("content", "llm"))] == ["llm:request"]
    assert next(line for line in lines if line.event == "llm:request").data == {"model": "m"}


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = {key: json.loads(value) for key, value in re.findall(r"^\| `(\w+)` \| `([^|]*)` \|", README, flags=re.M)}
    defaults = {key.key: key.default for key in config_keys(LogConfig)}
    assert rows == {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}
