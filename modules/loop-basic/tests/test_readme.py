"""The README of loop-basic is true."""

import json
import re
from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_kit.config import config_keys
from amplifier_kit.engine.loop.config import LoopConfig
from amplifier_module_loop_basic import EVENTS

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


async def test_the_example_runs(readme_plan: dict[str, Any]) -> None:
    """The plan entry of the README is accepted by a session and answers a prompt."""
    async with AmplifierSession(readme_plan) as session:
        assert await session.execute("hello") == "done"


def test_the_config_table_is_complete() -> None:
    """Every setting stands in the table, with its default."""
    rows = dict(re.findall(r"^\| `(\w+)` \| `([^`]+)` \|", README, flags=re.MULTILINE))
    defaults = {key.key: key.default for key in config_keys(LoopConfig)}
    assert {key: json.loads(value) for key, value in rows.items()} == defaults


def test_every_contributed_event_is_documented() -> None:
    """What the loop announces, the README explains."""
    assert [event for event in EVENTS if f"`{event}`" not in README] == []
