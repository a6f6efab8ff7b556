"""When the model is told that it only reads."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_module_hooks_progress_monitor.monitor import ProgressConfig, ProgressMonitor
from amplifier_testing.loop.fakes import PlainTool


def _monitor(**config: int) -> ProgressMonitor:
    return ProgressMonitor(ProgressConfig(**config))


def _told(monitor: ProgressMonitor, tool: str, path: str = "") -> str:
    result = monitor.on_tool_post("tool:post", {"tool_name": tool, "tool_input": {"file_path": path}})
    return result.context_injection or "" if result is not None else ""


def test_reads_without_a_change_are_counted() -> None:
    """The reminder comes at the threshold and then at every interval; other tools do not count."""
    monitor = _monitor(read_threshold=3, warning_interval=2)
    tools = ["grep", "bash", "glob", "web_fetch", "grep", "todo", "web_search", "grep"]
    told = [number for number, tool in enumerate(tools) if "reads and searches in a row" in _told(monitor, tool)]
    assert told == [3, 6]


@pytest.mark.parametrize("tool", ["write_file", "edit_file"])
def test_a_change_starts_the_count_again(tool: str) -> None:
    """After a change, the threshold has to be reached again."""
    monitor = _monitor(read_threshold=2, same_file_threshold=9)
    assert not _told(monitor, "grep")
    assert not _told(monitor, tool)
    assert not _told(monitor, "grep")
    assert _told(monitor, "grep")


def test_one_file_over_and_over() -> None:
    """A file that is read again without a change of it is named; changing it starts its count again."""
    monitor = _monitor(same_file_threshold=2)
    assert not _told(monitor, "read_file", "a.py")
    assert not _told(monitor, "read_file", "b.py")
    assert "a.py was read 2 times" in _told(monitor, "read_file", "a.py")
    _told(monitor, "edit_file", "a.py")
    assert not _told(monitor, "read_file", "a.py")
    assert "b.py was read 2 times" in _told(monitor, "read_file", "b.py")


@pytest.mark.parametrize("data", [None, [], {}, {"tool_name": ["x"][0]}, {"tool_name": "read_file", "tool_input": 3}])
def test_odd_events_are_ignored(data: Any) -> None:
    """What a loop of another make sends costs nothing."""
    assert _monitor().on_tool_post("tool:post", data) is None


async def test_the_model_reads_it_with_the_result(
    scripted_session: Callable[..., AmplifierSession], requests_of: Callable[[Any], Any]
) -> None:
    """The reminder is appended to the result in the next request, and not in the conversation."""
    session = scripted_session(
        [("grep", {})],
        "done",
        mounted=[PlainTool("grep")],
        hooks=[{"module": "hooks-progress-monitor", "config": {"read_threshold": 1}}],
    )
    session.coordinator.register_policy("test", lambda action, details: "allow")
    async with session:
        await session.execute("go")
        last = requests_of(session)[1][-1]
        kept = await session.coordinator.get("context").get_messages()
    assert last["role"] == "tool"
    assert '<system-reminder source="hooks-progress-monitor">' in last["content"]
    assert "hooks-progress-monitor" not in str(kept)
