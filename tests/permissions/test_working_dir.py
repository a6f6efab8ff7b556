"""What a command writes is judged where it is written, in whatever folder the tool runs it."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_foundation.paths import Home
from amplifier_foundation.policy.permissions import Permissions
from amplifier_testing.loop.fakes import ScriptedProvider, call, say

_RULES = """
rules:
  - {command: "echo *", verdict: allow}
  - {action: filesystem.write, path: "*", verdict: allow}
  - {path: "sub/**", verdict: deny}
"""


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project whose user denies one folder of it, beside a folder that is not of the project."""
    for name in ("project/sub", "home", "elsewhere"):
        (tmp_path / name).mkdir(parents=True)
    (tmp_path / "home/policy.yaml").write_text(_RULES, encoding="utf-8")
    return tmp_path / "project"


@pytest.mark.parametrize("loop", ["loop-basic", "loop-streaming", "loop-events"])
@pytest.mark.parametrize(
    ("session_dir", "working_dir", "is_written"),
    [
        (".", ".", True),
        (".", "sub", False),
        (".", "{project}/sub", False),
        (".", "../elsewhere", False),
        ("sub", ".", False),
        ("sub", "..", True),
    ],
)
async def test_a_redirect_is_judged_where_it_leads(
    project: Path, loop: str, session_dir: str, working_dir: str, is_written: bool
) -> None:
    """A relative name behind `>` is one in the folder of the tool, not in that of the project."""
    config = {"working_dir": working_dir.format(project=project), "sandbox": "off"}
    plan: dict[str, Any] = {
        "session": {"orchestrator": loop, "context": "context-simple"},
        "tools": [{"module": "tool-bash", "config": config}],
    }
    session = AmplifierSession(plan)
    permissions = Permissions.load(Home(project.parent / "home"), project, is_trusted=False)
    session.coordinator.register_policy("permissions", permissions.policy)
    session.coordinator.register_capability("session.working_dir", str(project / session_dir))
    script = ScriptedProvider(call(("c1", "bash", {"command": "echo hi > planted"})), say("done"))
    async with session:
        await session.coordinator.mount("providers", script, name="scripted")
        await session.execute("go")
    found = [path.relative_to(project.parent).as_posix() for path in project.parent.rglob("planted")]
    assert found == (["project/planted"] if is_written else [])
