"""No config keeps out of the log what the audit and the tree of a run are made of."""

from __future__ import annotations

import logging
import re
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.testing import MockCoordinator
from amplifier_kit.log.open_work import TRACKED
from amplifier_kit.log.reader import read_log
from amplifier_module_hooks_logging import mount, on_session_ready
from amplifier_module_hooks_logging.config import ALWAYS_RECORDED, is_always_recorded

Plan = Callable[..., dict[str, Any]]

AUDIT = [
    *("approval:required", "approval:granted", "approval:denied", "approval:waiting", "approval:escalated"),
    *("approval:answered", "policy:violation", "policy:remembered", "tool:pre", "tool:post", "tool:error"),
    *("session:start", "session:end", "session:fork", "session:resume", "delegate:agent_spawned", "delegate:error"),
    *("task:agent_spawned", "task:agent_completed", "prompt:submit", "prompt:complete", "execution:start"),
    *("execution:end", "orchestrator:complete", "module:load_failed", "module:on_session_ready_failed"),
    *("sandbox:status", "sandbox:blocked", "hook-shell:ran", "hook-shell:refused", "mcp:connected", "mcp:ignored"),
    *("artifact:write", "cancel:requested", "budget:exhausted"),
]
NOISE = ["llm:request", "llm:stream_block_delta", "content_block:delta", "thinking:final", "tool:progress", "mine:one"]


async def recording(config: dict[str, Any]) -> tuple[MockCoordinator, list[dict[str, Any]]]:
    """Return a coordinator with the module ready, and the records that it writes."""
    coordinator: MockCoordinator = MockCoordinator()
    records: list[dict[str, Any]] = []
    coordinator.add_log_sink(records.append)
    await mount(coordinator, config)
    await on_session_ready(coordinator)
    return coordinator, records


def _told(records: list[dict[str, Any]]) -> list[str]:
    return [record["data"]["message"] for record in records if record["event"] == "log:entry"]


@pytest.mark.parametrize(
    ("config", "noise"),
    [
        ({"exclude_events": ["*"]}, []),
        ({"exclude_events": ["*:*", "?*", "[a-z]*"]}, []),
        ({"exclude_events": ["approval:*", "tool:*", "policy:v*"]}, [event for event in NOISE if event[:5] != "tool:"]),
        ({"exclude_events": AUDIT}, NOISE),
        ({"auto_discover": False, "exclude_events": []}, ["llm:request", "content_block:delta", "thinking:final"]),
    ],
)
async def test_the_audit_is_recorded_whatever_is_configured(config: dict[str, Any], noise: list[str]) -> None:
    """Patterns, and names that nobody listed, take out what is noise and nothing else."""
    coordinator, records = await recording(config)
    for event in (*AUDIT, *NOISE):
        await coordinator.hooks.emit(event, {"tool_call_id": "c"})
    written = {record["event"] for record in records if "written_by" not in record["data"]} - {"log:entry"}
    assert written == {*AUDIT, *noise}


async def test_a_pattern_that_covers_the_audit_is_reported_once(caplog: pytest.LogCaptureFixture) -> None:
    """One warning, in the log and to the program, names the pattern and the event that is recorded all the same."""
    with caplog.at_level(logging.WARNING):
        coordinator, records = await recording({"exclude_events": ["llm:*", "tool:*"]})
        for event in ("llm:request", "tool:pre", "tool:post", "tool:pre"):
            await coordinator.hooks.emit(event, {})
    assert [record["lvl"] for record in records if record["event"] == "log:entry"] == ["WARNING"]
    [message] = _told(records)
    assert message.startswith("exclude_events ['tool:*'] covers 'tool:pre', which is always recorded")
    assert [entry.getMessage() for entry in caplog.records] == [f"hooks-logging: {message}"]


async def test_a_child_tells_its_log_alone(home: Path, plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    """The config of a child is its parent's, who has been told."""
    async with AmplifierSession(plan({"exclude_events": ["*"]}), session_id="below", parent_id="above") as session:
        await session.execute("hello")
    [path] = home.rglob("below/events.jsonl")
    assert len([line for line in read_log(path) if line.event == "log:entry"]) == 1
    assert not [entry for entry in caplog.records if "exclude_events" in entry.getMessage()]


@pytest.mark.parametrize("config", [{}, {"exclude_events": ["llm:*", "content_block:*", "tool:progress"]}])
async def test_noise_is_left_out_in_silence(config: dict[str, Any], caplog: pytest.LogCaptureFixture) -> None:
    """A pattern that does what it says is no reason to warn."""
    coordinator, records = await recording(config)
    for event in ("llm:stream_block_delta", "tool:pre"):
        await coordinator.hooks.emit(event, {})
    assert [record["event"] for record in records] == ["tool:pre"]
    assert caplog.records == []


def test_events_that_missing_ends_are_written_from_are_always_recorded() -> None:
    """Whatever the ends of sessions, turns, calls and children are known by is recorded."""
    assert all(is_always_recorded(event) for event in TRACKED)


def test_the_readme_lists_what_is_always_recorded() -> None:
    """The table has the very patterns of the code."""
    text = (Path(__file__).parent.parent / "README.md").read_text(encoding="utf-8")
    section = text.partition("## What is always recorded")[2].partition("\n## ")[0]
    cells = [line.split("|")[1] for line in section.splitlines() if line.startswith("| `")]
    assert sorted(re.findall(r"`([^`]+)`", "".join(cells))) == sorted(ALWAYS_RECORDED)
