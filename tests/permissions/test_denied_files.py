"""A file that a rule denies is not shown by any tool that reads, whatever it is called by."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_testing.loop.fakes import ScriptedProvider, call, say

SECRET = "the-secret-itself"
DENIED = "secr\u00e9ts"


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project with a folder that the user's rules deny, and links into it."""
    project = tmp_path / "project"
    for name in (f"{DENIED}/key", "src/main.py"):
        (project / name).parent.mkdir(parents=True)
        (project / name).write_text(SECRET if name.endswith("key") else "print()", encoding="utf-8")
    (project / "src" / "link").symlink_to(f"../{DENIED}/key")
    (project / "src" / "folder").symlink_to(f"../{DENIED}")
    (tmp_path / "home").mkdir()
    (tmp_path / "home" / "policy.yaml").write_text(
        f'rules:\n  - {{verdict: deny, path: "{DENIED}/**"}}\n', encoding="utf-8"
    )
    return project


async def results(project: Path, *calls: tuple[str, dict[str, Any]]) -> list[str]:
    """Return what a model reads that makes these calls in a session with the rules of the user and the program."""
    plan: dict[str, Any] = {
        "session": {"orchestrator": "loop-basic", "context": "context-simple"},
        "tools": [
            {"module": module, "config": {"working_dir": str(project)}} for module in ("tool-filesystem", "tool-search")
        ],
    }
    session = AmplifierSession(plan)
    permissions = Permissions.load(Home(project.parent / "home"), project, is_trusted=False)
    assert permissions.problems == ()
    session.coordinator.register_policy("permissions", permissions.policy)
    session.coordinator.register_capability("session.working_dir", str(project))
    session.coordinator.register_capability("policy.hidden", permissions.hidden)
    asked = [(f"c{number}", name, given) for number, (name, given) in enumerate(calls)]
    async with session:
        await session.coordinator.mount("providers", ScriptedProvider(call(*asked), say("done")), name="scripted")
        await session.execute("go")
        messages = await session.coordinator.get("context").get_messages()
    found = [str(message["content"]) for message in messages if message["role"] == "tool"]
    assert len(found) == len(calls)
    return found


async def test_what_is_not_denied_is_read(project: Path) -> None:
    """Reading inside the project needs no question."""
    read, searched = await results(
        project, ("read_file", {"file_path": "src/main.py"}), ("grep", {"pattern": "print", "path": "src"})
    )
    assert "print()" in read
    assert "src/main.py" in searched


@pytest.mark.parametrize(
    "path",
    [
        *(f"{DENIED}/key", f"./{DENIED}//key", f"src/../{DENIED}/key", f"{DENIED.upper()}/key", "src/link"),
        *("src/folder/key", "secre\u0301ts/key", "/proc/self/cwd/src/link"),
    ],
)
@pytest.mark.parametrize("tool", ["read_file", "grep"])
async def test_a_denied_file_is_not_shown(project: Path, tool: str, path: str) -> None:
    """However it is spelled and whatever leads to it."""
    given = {"file_path": path} if tool == "read_file" else {"pattern": "the", "path": path, "output_mode": "content"}
    [shown] = await results(project, (tool, given))
    assert SECRET not in shown


async def test_bytes_in_disguise_open_no_denied_file(project: Path) -> None:
    """A path in which bytes stand in for letters is refused, or judged by the file that it opens."""
    disguised = DENIED.encode().decode("ascii", "surrogateescape")
    [shown] = await results(project, ("read_file", {"file_path": f"{disguised}/key"}))
    assert SECRET not in shown


@pytest.mark.parametrize("path", [".", None])
async def test_a_search_above_shows_no_denied_file(project: Path, path: str | None) -> None:
    """A search or a listing of a folder leaves out what is denied below it, and says so without a name."""
    where = {} if path is None else {"path": path}
    calls = [
        *(
            ("grep", {"pattern": "the|print", "output_mode": mode})
            for mode in ("content", "count", "files_with_matches")
        ),
        *(("glob", {"pattern": "**", "type": kind}) for kind in ("file", "dir", "any")),
    ]
    searched = await results(project, *((name, given | where) for name, given in calls))
    [listed] = await results(project, ("read_file", {"file_path": "."}))
    for shown in (*searched, listed):
        assert SECRET not in shown
        assert "secr" not in shown
        assert "key" not in shown
        assert "src" in shown
        assert "because rules restrict it" in shown
