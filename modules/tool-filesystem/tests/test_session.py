"""In a whole session: a model works with the tools, permission is asked, and its writes can be taken back."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession

Checkpoints = pytest.importorskip("amplifier_foundation.sessions.checkpoints").Checkpoints
MakeSession = Callable[..., AmplifierSession]


@pytest.fixture
def make_session(scripted_session: MakeSession, project: Path) -> MakeSession:
    """Give `make_session(*calls)`: a session in the project whose model makes these calls, each in an answer."""
    tools = [{"module": "tool-filesystem", "config": {"working_dir": str(project)}}]
    return lambda *calls: scripted_session(*([one] for one in calls), "done", tools=tools)


async def test_a_model_works_and_it_is_taken_back(make_session: MakeSession, project: Path, tmp_path: Path) -> None:
    """A model makes a file, changes it through a link, and reads it; undoing the turn puts everything back."""
    kept = tmp_path / "session"
    kept.mkdir()
    (project / "link").symlink_to("src/a.py")
    (project / "old.txt").write_text("old\r\n", encoding="utf-8", newline="")
    calls: list[tuple[str, dict[str, Any]]] = [
        ("write_file", {"file_path": "src/a.py", "content": "x = 1\n"}),
        ("edit_file", {"file_path": "link", "old_string": "1", "new_string": "2"}),
        ("edit_file", {"file_path": "old.txt", "old_string": "old", "new_string": "new"}),
        ("read_file", {"file_path": "src/a.py"}),
    ]
    asked: list[tuple[str, Any, Any]] = []

    def policy(action: str, details: dict[str, Any]) -> str:
        asked.append((action, details["tool_call_id"], details.get("path")))
        return "allow"

    session = make_session(*calls)
    checkpoints = Checkpoints(kept, turn=1)
    session.coordinator.register_capability("session.checkpoint", checkpoints)
    session.coordinator.register_capability("session.working_dir", str(project))
    session.coordinator.register_policy("test", policy)
    async with session:
        assert await session.execute("go") == "done"
        messages = await session.coordinator.get("context").get_messages()
    assert (project / "src" / "a.py").read_text(encoding="utf-8") == "x = 2\n"
    assert (project / "old.txt").read_bytes() == b"new\r\n"
    assert "x = 2" in str(messages[-2])
    assert asked == [
        ("filesystem.write", "call-1", None),
        ("filesystem.write", "call-2", None),
        ("filesystem.write", "call-2", str(project / "src" / "a.py")),
        ("filesystem.write", "call-3", None),
        ("filesystem.read", "call-4", None),
    ]
    assert [(one.tool, one.tool_call_id) for one in checkpoints.list()] == [
        ("write_file", "call-1"),
        ("edit_file", "call-2"),
        ("edit_file", "call-3"),
    ]
    first = checkpoints.last_turn()
    assert first is not None
    checkpoints.restore(first.id)
    assert (project / "old.txt").read_bytes() == b"old\r\n"
    assert not (project / "src").exists()


async def test_without_a_policy_nothing_is_done(make_session: MakeSession, project: Path) -> None:
    """In a session where nobody allows anything, no file is written."""
    async with make_session(("write_file", {"file_path": "a", "content": "x"})) as session:
        assert await session.execute("go") == "done"
    assert not (project / "a").exists()
