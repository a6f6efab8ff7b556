"""Whose hooks run: a person's always, a project's when its folder is trusted, and none that the session has written."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

Group = Callable[..., list[dict[str, Any]]]
FILES = (".amplifier/hooks/hooks.json", ".amplifier/hooks/deep/er/hooks.json", ".claude/settings.json")


def _log(name: str) -> str:
    return f'echo {name} >>"$AMPLIFIER_PROJECT_DIR/log"'


def _logged(project: Path) -> list[str]:
    path = project / "log"
    return path.read_text(encoding="utf-8").split() if path.exists() else []


@pytest.mark.parametrize("is_trusted", [False, None])
async def test_hooks_of_an_untrusted_project_are_refused(
    make_rig: Any, group: Group, project: Path, is_trusted: bool | None
) -> None:
    """Without trust, or anybody who knows of it, no hook of the project runs; each file is reported with its reason."""
    files = {name: {"hooks": {"PreToolUse": group(_log("x"), _log("y")), "Stop": group("exit 2")}} for name in FILES}
    rig = await make_rig(files=files, is_trusted=is_trusted)
    await rig.run()
    assert _logged(project) == []
    refused = rig.heard("hook-shell:refused")
    assert {data["file"] for data in refused} == set(FILES)
    for data in refused:
        assert (data["events"], data["hooks"]) == (["PreToolUse", "Stop"], 3)
        assert "not trusted" in data["reason"]
    assert len([text for level, text in rig.display.shown if level == "warning" and "not trusted" in text]) == 3
    assert rig.reports() == []
    assert len(rig.tools["bash"].inputs) == 1


@pytest.mark.parametrize("answer", [1, "yes", [], RuntimeError("nobody knows")])
async def test_only_a_plain_yes_is_trust(make_rig: Any, group: Group, project: Path, answer: Any) -> None:
    """Whatever is not exactly true is no trust."""

    def ask() -> Any:
        if isinstance(answer, Exception):
            raise answer
        return answer

    rig = await make_rig(files={FILES[0]: {"PreToolUse": group(_log("x"))}}, is_trusted=None)
    rig.session.coordinator.register_capability("project.is_trusted", ask)
    await rig.run()
    assert _logged(project) == []
    assert len(rig.heard("hook-shell:refused")) == 1


async def test_hooks_of_a_person_need_no_trust(make_rig: Any, group: Group, project: Path, tmp_path: Path) -> None:
    """Hooks in the home run in every project, before those of the project."""
    home = tmp_path / "home"
    (home / "hooks").mkdir(parents=True)
    (home / "hooks" / "hooks.json").write_text(json.dumps({"PreToolUse": group(_log("mine"))}), encoding="utf-8")
    for is_trusted, expected in ((False, ["mine"]), (True, ["mine", "mine", "theirs"])):
        rig = await make_rig(files={FILES[0]: {"PreToolUse": group(_log("theirs"))}}, is_trusted=is_trusted)
        rig.session.coordinator.register_capability("amplifier.home", home)
        await rig.run()
        assert _logged(project) == expected
    assert rig.heard("hook-shell:ran")[0]["hook"] == "home/hooks/hooks.json#PreToolUse.0.0"


@pytest.mark.parametrize(
    ("is_trusted", "vouched", "runs"),
    [(None, None, True), (True, None, True), (False, None, False), (False, False, False), (False, True, True)],
)
async def test_a_config_the_project_may_have_written_needs_trust(
    make_rig: Any, group: Group, project: Path, is_trusted: bool | None, vouched: bool | None, runs: bool
) -> None:
    """A project could name this module with hooks in its own settings: that is no way around trust."""
    (project / "more.json").write_text(json.dumps({"PreToolUse": group(_log("file"))}), encoding="utf-8")
    config = {"files": ["more.json"]}
    rig = await make_rig({"PreToolUse": group(_log("inline"))}, config=config, is_trusted=is_trusted)
    if vouched is not None:
        rig.session.coordinator.register_capability(
            "plan.is_trusted", lambda module: module == "hook-shell" and vouched
        )
    await rig.run()
    assert _logged(project) == (["inline", "file"] if runs else [])
    assert [data["file"] for data in rig.heard("hook-shell:refused")] == ([] if runs else ["config", "more.json"])


async def test_a_session_does_not_run_what_it_has_written(make_rig: Any, group: Group, project: Path) -> None:
    """A hooks file that appears, or changes, after the session has begun is for the next session."""
    first = {"PreToolUse": group(_log("first"))}
    rig = await make_rig(None, [[("bash", {})], "one", [("bash", {})], "two"], files={FILES[0]: first})
    await rig.run()
    second = json.dumps({"PreToolUse": group(_log("second"))})
    for name in FILES:
        (project / name).parent.mkdir(parents=True, exist_ok=True)
        (project / name).write_text(second, encoding="utf-8")
    await rig.run()
    assert _logged(project) == ["first", "first"]


async def test_a_child_has_the_hooks_of_its_parent(make_rig: Any, group: Group, project: Path, tmp_path: Path) -> None:
    """A child runs the files its parent began with, not what was written meanwhile or lies in a folder of its own."""
    parent = await make_rig(files={FILES[0]: {"PreToolUse": group(_log("parent"))}})
    await parent.run()
    planted = json.dumps({"PreToolUse": group(_log("planted"))})
    elsewhere = tmp_path / "elsewhere"
    for place in (project, elsewhere):
        (place / FILES[1]).parent.mkdir(parents=True)
        (place / FILES[1]).write_text(planted, encoding="utf-8")
    for working_dir in (project, elsewhere):
        own = {"PreToolUse": group("pwd >where; " + _log("own"))}
        child = await make_rig(own, parent_id=parent.session.session_id)
        child.session.coordinator.register_capability("session.working_dir", str(working_dir))
        await child.run()
        assert (working_dir / "where").read_text(encoding="utf-8").strip() == str(working_dir)
    assert _logged(project) == ["parent", *["own", "parent"] * 2]


async def test_hooks_can_be_switched_off(make_rig: Any, group: Group, project: Path) -> None:
    """`disableAllHooks` silences its own file, and `claude_settings: false` the settings of the other agent."""
    content = {"hooks": {"PreToolUse": group(_log("x"))}}
    off = await make_rig(files={FILES[0]: {**content, "disableAllHooks": True}})
    await off.run()
    (project / FILES[0]).unlink()
    unread = await make_rig(files={FILES[2]: content}, config={"claude_settings": False})
    await unread.run()
    assert _logged(project) == []


async def test_odd_files(make_rig: Any, group: Group, project: Path) -> None:
    """A folder in place of a file, a link to nothing and a file that is too large are reported, each alone."""
    (project / ".claude" / "settings.json").mkdir(parents=True)
    hooks = project / ".amplifier" / "hooks"
    for name in ("a", "b", "ü ö"):
        (hooks / name).mkdir(parents=True)
    (hooks / "a" / "hooks.json").symlink_to("nowhere")
    (hooks / "b" / "hooks.json").write_text(" " * (1024 * 1024 + 1), encoding="utf-8")
    (hooks / "ü ö" / "hooks.json").write_text(json.dumps({"PreToolUse": group(_log("ok"))}), encoding="utf-8")
    rig = await make_rig()
    await rig.run()
    assert _logged(project) == ["ok"]
    reported = [data["hook"] for data in rig.heard("hook-shell:failed")]
    assert reported == [".amplifier/hooks/a/hooks.json", ".amplifier/hooks/b/hooks.json", ".claude/settings.json"]
