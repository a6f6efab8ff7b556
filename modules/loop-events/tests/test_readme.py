"""The README of loop-events is true."""

import json
import re
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_module_loop_events import EVENTS

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")
STUBS = {
    "context_list": ("ListContext", "context"),
    "provider_scripted_here": ("ScriptedProvider", "providers"),
}
STUB = """
from amplifier_kit.loop.testing import {part}

async def mount(coordinator, config=None):
    await coordinator.mount({point!r}, {part}(), name="here")
"""


@pytest.fixture
def plan(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the plan of the README, completed with a context and a provider."""
    for name, (part, point) in STUBS.items():
        package = tmp_path / f"amplifier_module_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(STUB.format(part=part, point=point), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    [block] = re.findall(r"^```json\n(.*?)^```", README, flags=re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = json.loads(block)
    shown["session"]["context"] = "context-list"
    return {**shown, "providers": [{"module": "provider-scripted-here"}]}


async def test_the_example_runs(plan: dict[str, Any]) -> None:
    """The plan entry of the README is accepted by a session and answers a prompt."""
    async with AmplifierSession(plan) as session:
        assert await session.execute("hello") == "done"


def test_every_contributed_event_is_documented() -> None:
    """What the loop announces, the README explains."""
    assert [event for event in EVENTS if f"`{event}`" not in README] == []
