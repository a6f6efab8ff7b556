"""The log of a session whose app does not write one."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.home import project_slug
from amplifier_kit.log.files import SessionLogBusy
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.verify import verify_log
from amplifier_module_hooks_logging import mount, on_session_ready


async def ready(config: dict[str, Any] | None = None, **capabilities: Any) -> MockCoordinator:
    """Return a coordinator without any sink of an app's, with the module ready."""
    coordinator: MockCoordinator = MockCoordinator()
    for name, value in capabilities.items():
        coordinator.register_capability(name.replace("__", "."), value)
    await mount(coordinator, config)
    await on_session_ready(coordinator)
    return coordinator


async def test_the_usual_place(home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Below AMPLIFIER_HOME, in the folder of the project one stands in."""
    monkeypatch.chdir(tmp_path)
    coordinator = await ready()
    await coordinator.hooks.emit("session:start", {})
    await coordinator.cleanup()
    path = home / "projects" / project_slug(tmp_path) / "sessions" / "test-session" / "events.jsonl"
    assert '"event": "session:start"' in path.read_text(encoding="utf-8")


async def test_the_home_of_the_user(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Without AMPLIFIER_HOME it is `~/.amplifier`."""
    monkeypatch.delenv("AMPLIFIER_HOME")
    coordinator = await ready()
    await coordinator.cleanup()
    assert list((tmp_path / "user" / ".amplifier" / "projects").rglob("test-session/events.jsonl"))


async def test_what_the_app_says(tmp_path: Path) -> None:
    """The app's home, project and session folder count, the most exact one most."""
    coordinator = await ready(amplifier__home=tmp_path / "other", session__working_dir="/some/project")
    await coordinator.cleanup()
    folder = tmp_path / "other" / "projects" / "-some-project" / "sessions" / "test-session"
    assert (folder / "events.jsonl").exists()
    coordinator = await ready(amplifier__home=tmp_path / "other", session__dir=tmp_path / "exact")
    await coordinator.cleanup()
    assert (tmp_path / "exact" / "events.jsonl").exists()


async def test_a_template(tmp_path: Path, home: Path) -> None:
    """A bundle may say where; the published default means the home folder wherever that is."""
    template = str(tmp_path / "logs" / "{project}" / "{session_id}.jsonl")
    coordinator = await ready({"session_log_template": template}, session__working_dir="/p", session__dir=tmp_path)
    await coordinator.hooks.emit("tool:pre", {})
    await coordinator.cleanup()
    assert [line.event for line in read_log(tmp_path / "logs" / "-p" / "test-session.jsonl")] == ["tool:pre"]
    published = "~/.amplifier/projects/{project}/sessions/{session_id}/events.jsonl"
    coordinator = await ready({"session_log_template": published}, session__working_dir="/p")
    await coordinator.cleanup()
    assert (home / "projects" / "-p" / "sessions" / "test-session" / "events.jsonl").exists()


async def test_a_template_that_cannot_be_filled_in() -> None:
    """The error names it."""
    with pytest.raises(ValueError, match=r"\{user\}.* cannot be filled in"):
        await ready({"session_log_template": "/logs/{user}.jsonl"})


async def test_a_template_that_leads_to_a_control_file(tmp_path: Path) -> None:
    """A log never takes the place of what git or a session runs."""
    (tmp_path / ".git" / "hooks").mkdir(parents=True)
    template = str(tmp_path / ".git" / "hooks" / "pre-commit")
    with pytest.raises(PermissionError, match="pre-commit"):
        await ready({"session_log_template": template}, session__working_dir=str(tmp_path))
    assert list((tmp_path / ".git" / "hooks").iterdir()) == []


async def test_an_app_that_writes_is_left_alone(home: Path) -> None:
    """With a sink of the app's, no file is made."""
    coordinator: MockCoordinator = MockCoordinator()
    coordinator.add_log_sink(lambda record: None)
    await mount(coordinator, {})
    await on_session_ready(coordinator)
    await coordinator.hooks.emit("tool:pre", {})
    await coordinator.cleanup()
    assert not home.exists()


async def test_redaction_reaches_this_file_too(tmp_path: Path) -> None:
    """Records pass the processors before they are written, blobs included."""
    coordinator = await ready(session__dir=tmp_path / "s")
    coordinator.add_log_processor(lambda record: {**record, "data": {"masked": "[REDACTED]" * 1000}})
    await coordinator.hooks.emit("tool:pre", {"password": "hunter2"})
    await coordinator.cleanup()
    everything = b"".join(path.read_bytes() for path in (tmp_path / "s").rglob("*") if path.is_file())
    assert b"hunter2" not in everything
    assert b"[REDACTED]" in everything


async def test_what_others_emit_while_they_clean_up(tmp_path: Path) -> None:
    """The log is closed by its own cleanup, and still takes what comes after it."""
    coordinator = await ready(session__dir=tmp_path)

    async def last_words() -> None:
        await coordinator.hooks.emit("cleanup:store_end", {"large": "x" * 5000})

    coordinator._cleanup_fns.insert(0, last_words)  # runs after all others
    await coordinator.hooks.emit("session:end", {"status": "completed"})
    await coordinator.cleanup()
    lines = list(read_log(tmp_path))
    assert [(line.event, line.seq) for line in lines] == [("session:end", 1), ("cleanup:store_end", 2)]
    assert lines[1].resolved() == {"large": "x" * 5000}
    assert verify_log(tmp_path).ok


async def test_a_second_session_on_the_same_log_is_refused(tmp_path: Path) -> None:
    """Two writers would spoil the numbers; the first one is not disturbed."""
    coordinator = await ready(session__dir=tmp_path)
    with pytest.raises(SessionLogBusy, match="is being written by"):
        await ready(session__dir=tmp_path)
    await coordinator.hooks.emit("tool:pre", {})
    await coordinator.cleanup()
    again = await ready(session__dir=tmp_path)
    await again.hooks.emit("tool:post", {})
    await again.cleanup()
    assert [(line.event, line.seq) for line in read_log(tmp_path)] == [("tool:pre", 1), ("tool:post", 2)]


async def test_ready_again(tmp_path: Path) -> None:
    """A session that is set up once more writes every event once, to the new place."""
    coordinator = await ready({"session_log_template": str(tmp_path / "a.jsonl")})
    await coordinator.hooks.emit("one", {})
    await mount(coordinator, {"session_log_template": str(tmp_path / "b.jsonl")})
    await on_session_ready(coordinator)
    await coordinator.hooks.emit("two", {})
    await coordinator.cleanup()
    assert [line.event for line in read_log(tmp_path / "a.jsonl")] == ["one"]
    assert [line.event for line in read_log(tmp_path / "b.jsonl")] == ["two"]


async def test_without_a_session_nothing_is_written(tmp_path: Path) -> None:
    """Records of nobody's have no place."""
    coordinator = await ready(session__dir=tmp_path)
    coordinator._session_id = ""
    await coordinator.hooks.emit("tool:pre", {})
    await coordinator.cleanup()
    assert list(read_log(tmp_path)) == []


@pytest.mark.parametrize("name", ["folder/a.jsonl", "link.jsonl"])
async def test_a_template_leads_over_no_link_out_of_the_project(tmp_path: Path, name: str) -> None:
    """A link in the project to a file or folder outside is no place for a log."""
    project, outside = tmp_path / "project", tmp_path / "outside"
    project.mkdir()
    outside.mkdir()
    (outside / "mine").write_text("mine\n")
    (project / "folder").symlink_to(outside)
    (project / "link.jsonl").symlink_to(outside / "mine")
    with pytest.raises(OSError, match="link"):
        await ready({"session_log_template": str(project / name)}, session__working_dir=str(project))
    assert [entry.name for entry in outside.iterdir()] == ["mine"]
    assert (outside / "mine").read_text() == "mine\n"
