"""How far hooks reach: those of a project as far as its commands, those of the user as far as the user."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import Sandbox

Group = Callable[..., list[dict[str, Any]]]
FILE = ".amplifier/hooks/hooks.json"


@pytest.fixture
def sandboxed(project: Path) -> None:
    """Skip where there is no sandbox."""
    status = Sandbox(SandboxConfig(), project).status
    if not status.is_active:
        pytest.skip(f"there is no sandbox on this machine: {status.reason}")


@pytest.fixture
def planted(project: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Plant a `grep` in the project, which is first on PATH; return the file that it makes when it runs."""
    trace = project / "planted"
    for folder in (project, project / "bin"):
        folder.mkdir(exist_ok=True)
        (folder / "grep").write_text(f"#!/bin/sh\ntouch '{trace}'\n", encoding="utf-8")
        (folder / "grep").chmod(0o755)
    monkeypatch.setenv("PATH", f".:bin:{project}/bin:{os.environ['PATH']}")
    return trace


@pytest.mark.usefixtures("sandboxed")
async def test_hook_of_a_project_runs_in_the_sandbox(
    make_rig: Any, group: Group, project: Path, tmp_path: Path
) -> None:
    """What a trusted project brings may do what commands may: write to the project, and nowhere else."""
    command = f"cat >told; sh ./step.sh; touch '{tmp_path}/outside' 2>/dev/null; echo NAME=left >>$AMPLIFIER_ENV_FILE"
    (project / "step.sh").write_text("echo step >log\n", encoding="utf-8")
    later = 'echo $NAME >>log; [ -f "$AMPLIFIER_HOOKS_DIR/hooks.json" ] && echo seen >>log; exit 2'
    rig = await make_rig(files={FILE: {"PreToolUse": group(command, later)}})
    await rig.run()
    assert json.loads((project / "told").read_text(encoding="utf-8"))["tool_name"] == "bash"
    assert (project / "log").read_text(encoding="utf-8").split() == ["step", "left", "seen"]
    assert not (tmp_path / "outside").exists()
    assert rig.reports() == [("hook-shell:ran", "ok", "continue"), ("hook-shell:ran", "ok", "deny")]


@pytest.mark.usefixtures("sandboxed")
async def test_hook_of_the_user_runs_outside(make_rig: Any, group: Group, tmp_path: Path) -> None:
    """What the user's config or home folder brings is the user's own program, and reaches as far as the user."""
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    own = {"PreToolUse": group(f"touch '{tmp_path}/from-home'")}
    (home / "hooks" / "hooks.json").write_text(json.dumps(own), encoding="utf-8")
    rig = await make_rig({"PreToolUse": group(f"touch '{tmp_path}/from-config'")})
    rig.session.coordinator.register_capability("amplifier.home", home)
    await rig.run()
    assert (tmp_path / "from-home").exists()
    assert (tmp_path / "from-config").exists()


@pytest.mark.usefixtures("sandboxed")
@pytest.mark.parametrize("said", [None, False])
async def test_config_that_the_project_may_have_written_is_the_project(
    make_rig: Any, group: Group, project: Path, tmp_path: Path, said: bool | None
) -> None:
    """Hooks of a config, and files that it names, run in the sandbox unless the app knows that they are the user's."""
    (tmp_path / "more.json").write_text(json.dumps({"PreToolUse": group("touch more; touch ../outside")}))
    config = {"files": ["../more.json"], "working_dir": str(tmp_path)}
    rig = await make_rig({"PreToolUse": group("touch made; touch ../outside")}, config=config, is_config_of_user=said)
    await rig.run()
    assert (project / "made").exists()
    assert (project / "more").exists()
    assert not (tmp_path / "outside").exists()


async def test_variables_that_a_project_leaves_stay_with_its_hooks(
    make_rig: Any, group: Group, project: Path, tmp_path: Path
) -> None:
    """A variable that a hook of the project leaves is for the project's hooks; the user's reach both."""
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    tell = 'echo "$AMPLIFIER_HOOK_EVENT ${THEIRS:-none} ${OWN:-none}" >>log'
    own = {"PreToolUse": group(f"echo OWN=own >>$AMPLIFIER_ENV_FILE; {tell}"), "PostToolUse": group(tell)}
    (home / "hooks" / "hooks.json").write_text(json.dumps(own), encoding="utf-8")
    theirs = {"PreToolUse": group("echo THEIRS=theirs >>$AMPLIFIER_ENV_FILE"), "PostToolUse": group(tell)}
    rig = await make_rig(files={FILE: theirs})
    rig.session.coordinator.register_capability("amplifier.home", home)
    await rig.run()
    expected = ["PreToolUse none none", "PostToolUse none own", "PostToolUse theirs own"]
    assert (project / "log").read_text(encoding="utf-8").splitlines() == expected


@pytest.mark.usefixtures("sandboxed")
async def test_file_in_the_project_that_a_config_names_is_the_project(
    make_rig: Any, group: Group, project: Path, tmp_path: Path
) -> None:
    """A hooks file that lies in the project is the project's, whoever has named it."""
    more = {"PreToolUse": group(f"touch made; touch '{tmp_path}/outside'")}
    rig = await make_rig(files={"more.json": more}, config={"files": ["more.json"]})
    await rig.run()
    assert (project / "made").exists()
    assert not (tmp_path / "outside").exists()


async def test_hook_of_a_project_where_the_sandbox_is_required(
    make_rig: Any, group: Group, project: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Where a sandbox is required and cannot be had, no hook of the project runs, and what waits for it is denied."""
    monkeypatch.setenv("PATH", "/nonexistent")
    files = {FILE: {"PreToolUse": group("/bin/echo theirs >>log")}}
    hooks = {"PreToolUse": group("/bin/echo own >>log")}
    rig = await make_rig(hooks, files=files, session={"sandbox": "required"}, config={"sandbox": "off"})
    await rig.run()
    assert (project / "log").read_text(encoding="utf-8").split() == ["own"]
    [failed] = rig.heard("hook-shell:failed")
    assert "the sandbox is required" in failed["error"]
    assert rig.tools["bash"].inputs == []


@pytest.mark.parametrize("brought_by", ["config", "home", "project"])
async def test_program_that_a_hook_names_is_not_taken_from_the_project(
    make_rig: Any, group: Group, project: Path, tmp_path: Path, planted: Path, brought_by: str
) -> None:
    """A hook that runs outside of the sandbox runs the system's programs, not what was planted in the project."""
    hooks = {"PreToolUse": group("grep -q tool_name && echo found >>log")}
    home = tmp_path / "home"
    if brought_by == "home":
        (home / "hooks").mkdir(parents=True)
        (home / "hooks" / "hooks.json").write_text(json.dumps(hooks), encoding="utf-8")
    files = {FILE: hooks} if brought_by == "project" else {}
    rig = await make_rig(hooks if brought_by == "config" else None, files=files, config={"sandbox": "off"})
    rig.session.coordinator.register_capability("amplifier.home", home)
    await rig.run()
    assert (project / "log").read_text(encoding="utf-8") == "found\n"
    assert not planted.exists()
