"""A call that is cancelled leaves the file as it was, or wholly changed and announced; never in between."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest


class Checkpoints:
    """Block before or after the write until the test continues."""

    def __init__(self, waits: str) -> None:
        self._waits = waits
        self.reached = threading.Event()
        self.may_go_on = threading.Event()

    def _pause(self, when: str) -> None:
        if when == self._waits:
            self.reached.set()
            self.may_go_on.wait(60)

    def before_write(self, path: Path, *, tool: str, tool_call_id: str | None, follow: bool) -> None:
        """Keep nothing."""
        self._pause("before")

    def after_write(self, path: Path) -> None:
        """Note nothing."""
        self._pause("after")


def _open_paths(folder: Path) -> list[str]:
    """Return the files and folders below `folder` that this process has open; none where /proc is missing."""
    paths = []
    for descriptor in Path("/proc/self/fd").iterdir() if Path("/proc/self/fd").is_dir() else ():
        try:
            paths.append(str(descriptor.readlink()))
        except FileNotFoundError:  # the descriptor that lists the folder itself
            continue
    return [path for path in paths if path.startswith(str(folder))]


CALLS: list[tuple[str, dict[str, Any]]] = [
    ("write_file", {"content": "new\n"}),
    ("edit_file", {"old_string": "old", "new_string": "new"}),
]


async def _cancelled(desk: Any, checkpoints: Checkpoints, name: str, tool_input: dict[str, Any]) -> None:
    desk.coordinator.register_capability("session.checkpoint", checkpoints)
    task = asyncio.create_task(desk.call(name, file_path="a", **tool_input))
    await asyncio.to_thread(checkpoints.reached.wait, 60)
    task.cancel()
    await asyncio.sleep(0)
    checkpoints.may_go_on.set()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(("name", "tool_input"), CALLS)
async def test_before_the_change(desk: Any, project: Path, name: str, tool_input: dict[str, Any]) -> None:
    """Cancelled before the file has changed, it does not change any more, and nothing is announced."""
    (project / "a").write_text("old\n", encoding="utf-8")
    await _cancelled(desk, Checkpoints("before"), name, tool_input)
    assert (project / "a").read_text(encoding="utf-8") == "old\n"
    assert os.listdir(project) == ["a"]
    assert desk.events == []


@pytest.mark.parametrize(("name", "tool_input"), CALLS)
async def test_after_the_change(desk: Any, project: Path, name: str, tool_input: dict[str, Any]) -> None:
    """Cancelled when the file has changed, the change is whole, and it is announced all the same."""
    (project / "a").write_text("old\n", encoding="utf-8")
    await _cancelled(desk, Checkpoints("after"), name, tool_input)
    assert (project / "a").read_text(encoding="utf-8") == "new\n"
    assert desk.events == [("artifact:write", {"path": str(project / "a"), "bytes": 4})]


async def test_while_the_session_is_asked(desk: Any, project: Path) -> None:
    """A write cancelled while approval of a link is pending writes nothing and leaves no folder open."""
    asked = asyncio.Event()

    async def thinking(action: str, details: dict[str, Any]) -> str:
        asked.set()
        await asyncio.sleep(3600)
        return "allow"

    desk.coordinator.register_policy("thinking", thinking)
    (project / "link").symlink_to("a")
    task = asyncio.create_task(desk.call("write_file", file_path="link", content="x"))
    await asked.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert os.listdir(project) == ["link"]
    assert _open_paths(project) == []
