"""The README is true: its plan entry runs, and its table lists every key with its default."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_core import AmplifierSession
from amplifier_kit.config import config_keys
from amplifier_kit.guard.redaction.prefilter import MASK
from amplifier_module_hooks_redaction.config import RedactionConfig

README = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")


async def test_the_plan_entry_runs(plan: Callable[..., dict[str, Any]], monkeypatch: pytest.MonkeyPatch) -> None:
    """A session with the entry of the README masks what it says, and spares what it allows."""
    monkeypatch.setenv("DEPLOY_SECRET", "deploy-secret-value")
    [entry] = re.findall(r"```yaml\n(.*?)```", README, flags=re.DOTALL)
    hooks = yaml.safe_load(os.path.expandvars(entry))["hooks"]
    assert [hook["module"] for hook in hooks] == ["hooks-redaction", "hooks-logging"]
    lines: list[dict[str, Any]] = []
    session = AmplifierSession(plan(hooks=hooks[:1]))
    session.coordinator.add_log_sink(lines.append)
    async with session:
        session.coordinator.log("INFO", "", page_token="deploy-secret-value?page=2", token="x")
    assert lines[0]["data"] == {"page_token": f"{MASK}?page=2", "token": MASK}


def test_the_table_lists_every_key() -> None:
    """Keys and defaults of the table are those of the code."""
    rows = {key: json.loads(value) for key, value in re.findall(r"^\| `(\w+)` \| `([^|]*)` \|", README, flags=re.M)}
    defaults = {key.key: key.default for key in config_keys(RedactionConfig)}
    assert rows == {key: list(value) if isinstance(value, tuple) else value for key, value in defaults.items()}


@pytest.mark.parametrize("name", ["redaction.scrub", "redaction.add_live_values"])
async def test_the_capabilities_are_there(plan: Callable[..., dict[str, Any]], name: str) -> None:
    """What the README offers to other writers is offered."""
    assert f"`{name}`" in README
    async with AmplifierSession(plan()) as session:
        assert callable(session.coordinator.get_capability(name))
