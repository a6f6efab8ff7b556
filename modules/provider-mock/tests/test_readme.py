"""The README is true: its scenario runs with its plan entry, and its tables list what there is."""

from __future__ import annotations

import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core import AmplifierSession
from amplifier_core.llm_errors import RateLimitError
from amplifier_module_provider_mock import CONFIG, scenario

ROOT = Path(__file__).parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")


async def test_the_example_runs(plan: Callable[..., dict[str, Any]], tmp_path: Path) -> None:
    """The plan entry and the scenario of the README make the run that they tell of."""
    entry = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)[0]
    [(name, text)] = re.findall(r"```yaml file=(\S+)\n(.*?)```", README, flags=re.DOTALL)
    (tmp_path / name).write_text(text, encoding="utf-8")
    providers = yaml.safe_load(entry)["providers"]
    async with AmplifierSession(plan(providers)) as session:
        assert await session.execute("hello there") == "Hello! I see a desk."
        with pytest.raises(RateLimitError, match="slow down"):
            await session.execute("hello again")
    async with AmplifierSession(plan(providers, agent_name="foundation:explorer"), parent_id="p-1") as child:
        assert await child.execute("explore") == "I am the child that was asked to explore."


def test_the_config_table_lists_every_key() -> None:
    """Every key of the config is in the table, and no other."""
    listed = set(re.findall(r"^\| `(\w+)` \|", README.partition("## Scenarios")[0], flags=re.M))
    assert set(CONFIG.model_fields) - {"raw_debug"} == listed
    assert "`raw_debug`" in README


def test_the_format_tables_list_every_key() -> None:
    """Every key of the scenario format is explained."""
    explained = set(re.findall(r"`(\w+)`", README.partition("## Scenarios")[2].partition("## Recording")[0]))
    models = (scenario._File, scenario._Turn, scenario._Call, scenario._Error, scenario._Expect)
    assert [key for model in models for key in model.model_fields if key not in explained | {"turns"}] == []
