"""The README of loop-events is true."""

from pathlib import Path
from typing import Any

from amplifier_core import AmplifierSession
from amplifier_module_loop_events import EVENTS

README = (Path(__file__).resolve().parents[1] / "README.md").read_text(encoding="utf-8")


async def test_the_example_runs(readme_plan: dict[str, Any]) -> None:
    """The plan entry of the README is accepted by a session and answers a prompt."""
    async with AmplifierSession(readme_plan) as session:
        assert await session.execute("hello") == "done"


def test_every_contributed_event_is_documented() -> None:
    """What the loop announces, the README explains."""
    assert [event for event in EVENTS if f"`{event}`" not in README] == []
