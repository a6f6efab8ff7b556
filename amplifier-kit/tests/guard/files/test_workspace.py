"""A tool reaches what its session allows: config judges, the session is asked about what was not named."""

from __future__ import annotations

import asyncio
import os
import threading
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_kit.guard.files.changes import Change, check_writable
from amplifier_kit.guard.files.place import FileError
from amplifier_kit.guard.files.workspace import READ, WRITE, FileAccess, FileCall, FileConfig, Workspace, Written


def access(config: Any, coordinator: Any) -> FileAccess:
    """Return what a config of a tool on files means."""
    return FileAccess.of(read_config(FileConfig, config, module="test"), coordinator)


class Session:
    """A real coordinator whose policy notes what it is asked and answers as told."""

    def __init__(self, verdict: str = "allow") -> None:
        self.coordinator: Any = MockCoordinator()
        self.asked: list[tuple[str, dict[str, Any]]] = []

        def policy(action: str, details: dict[str, Any]) -> tuple[str, str]:
            self.asked.append((action, details))
            return verdict, "because"

        self.coordinator.register_policy("test", policy)

    def workspace(self, **config: Any) -> Workspace:
        """Return what a tool with this config works with; its working directory is the session's."""
        self.coordinator.register_capability("session.working_dir", config["working_dir"])
        return Workspace(self.coordinator, access(config, self.coordinator))

    @property
    def paths(self) -> list[str]:
        return [details["path"] for _, details in self.asked]


async def _reached(workspace: Workspace, name: str, action: str = READ, **options: Any) -> Path:
    call = workspace.call("tool", action, {"file_path": name})
    with await workspace.reach(call, name, **options) as place:
        return place.path


async def test_what_was_named_is_not_asked_again(project: Path) -> None:
    """A path without links was decided before the call; links above the working directory change nothing."""
    session = Session()
    (project.parent / "link").symlink_to(project)
    (project / "a").mkdir()
    for folder in (project, project.parent / "link"):
        workspace = session.workspace(working_dir=str(folder))
        for name in ("file", "./a/../file", str(folder / "file"), str(project / "file")):
            assert await _reached(workspace, name) == project / "file"
    assert session.asked == []


async def test_a_working_directory_of_its_own(project: Path) -> None:
    """Where a tool's relative paths begin elsewhere than the session's, they mean other files: the session is asked."""
    session = Session()
    session.coordinator.register_capability("session.working_dir", str(project))
    config = {"working_dir": "sub", "allowed_write_paths": ["."]}
    workspace = Workspace(session.coordinator, access(config, session.coordinator))
    assert await _reached(workspace, "file") == project / "sub" / "file"
    assert session.paths == [str(project / "sub" / "file")]
    assert await _reached(workspace, str(project / "file")) == project / "file"
    assert len(session.asked) == 1


async def test_a_link_is_asked_for(project: Path) -> None:
    """A link that leads to another file is asked about with the true path, for reading and for writing."""
    session = Session()
    (project / "link").symlink_to("real")
    workspace = session.workspace(working_dir=str(project))
    for action in (READ, WRITE):
        assert await _reached(workspace, "link", action) == project / "real"
    details = {"tool_name": "tool", "tool_input": {"file_path": "link"}, "path": str(project / "real")}
    assert session.asked == [(READ, details), (WRITE, details)]


@pytest.mark.parametrize("verdict", ["deny", "nonsense"])
async def test_a_refused_link_is_not_reached(project: Path, verdict: str) -> None:
    """Without a clear yes, the link's target is not used, and the reason is told."""
    (project / "link").symlink_to("real")
    with pytest.raises(FileError, match="is not allowed") as caught:
        await _reached(Session(verdict).workspace(working_dir=str(project)), "link")
    assert caught.value.code == "denied"


async def test_a_question_that_fails_is_a_no(project: Path) -> None:
    """When the session cannot be asked, the file is not used."""

    class Broken:
        async def authorize(self, action: str, details: Any) -> Any:
            raise RuntimeError("no connection")

    (project / "link").symlink_to("real")
    workspace = Workspace(Broken(), access({"working_dir": str(project)}, None))
    with pytest.raises(FileError) as caught:
        await _reached(workspace, "link")
    assert caught.value.code == "denied"


async def test_a_kernel_without_authorization(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """On a kernel without policies the config alone decides; on ours a session that cannot be asked denies."""
    (project / "link").symlink_to("real")
    (project / "out").symlink_to("..")
    config = {"working_dir": str(project), "allowed_read_paths": ["."]}
    workspace = Workspace(object(), access(config, None))
    with pytest.raises(FileError, match="cannot be asked"):
        await _reached(workspace, "link")
    monkeypatch.setattr("amplifier_kit.guard.authorization.kernel_has_policies", lambda: False)
    assert await _reached(workspace, "link") == project / "real"
    with pytest.raises(FileError):
        await _reached(workspace, "out/x")


async def test_config_refuses_before_anybody_is_asked(project: Path) -> None:
    """What the config forbids is not asked for."""
    session = Session()
    (project / "out").symlink_to("..")
    with pytest.raises(FileError) as caught:
        await _reached(session.workspace(working_dir=str(project)), "out/x", WRITE)
    assert caught.value.code == "outside_allowed_paths"
    assert session.asked == []


async def test_mentions_are_resolved_and_asked_for(project: Path) -> None:
    """`@bundle:path` leads where the resolver says; the session is asked, as it has not seen that path."""
    session = Session()
    asked: list[str] = []

    class Resolver:
        def resolve(self, mention: str) -> Path | None:
            asked.append(mention)
            return project / "doc.md" if mention == "@mine:doc" else None

    workspace = session.workspace(working_dir=str(project))
    with pytest.raises(FileError) as caught:
        await _reached(workspace, "@mine:doc")
    assert caught.value.code == "no_mention_resolver"
    session.coordinator.register_capability("mention_resolver", Resolver())
    assert await _reached(workspace, "@mine:doc") == project / "doc.md"
    assert session.paths == [str(project / "doc.md")]
    with pytest.raises(FileError) as caught:
        await _reached(workspace, "@mine:other")
    assert caught.value.code == "not_found"
    assert asked == ["@mine:doc", "@mine:other"]


async def test_names_with_an_at_sign_are_no_mentions(project: Path) -> None:
    """`@types/node` is a folder like any other."""
    assert await _reached(Session().workspace(working_dir=str(project)), "@types/node") == project / "@types" / "node"


async def test_the_home_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """`~` stands for the home directory, `~name` for a file of that name."""
    monkeypatch.setenv("HOME", str(project.parent))
    workspace = Session().workspace(working_dir=str(project))
    assert await _reached(workspace, "~/x") == project.parent / "x"
    assert await _reached(workspace, "~x") == project / "~x"


async def test_the_call_has_its_id(project: Path) -> None:
    """The id that the orchestrator has noted for the running task goes into questions and checkpoints."""
    session = Session()
    (project / "link").symlink_to("real")
    session.coordinator._tool_dispatch_contexts = {asyncio.current_task(): {"tool_call_id": "call-1"}}
    await _reached(session.workspace(working_dir=str(project)), "link")
    assert session.asked[0][1]["tool_call_id"] == "call-1"


class Checkpoints:
    """Note what was kept, and fail when told to."""

    def __init__(self, failing: str = "") -> None:
        self.seen: list[tuple[Any, ...]] = []
        self._failing = failing

    def before_write(self, path: Path, *, tool: str, tool_call_id: str | None, follow: bool) -> None:
        if self._failing == "before":
            raise RuntimeError("no room")
        self.seen.append(("before", path, tool, tool_call_id, path.read_bytes() if path.exists() else None))

    def after_write(self, path: Path) -> None:
        if self._failing == "after":
            raise RuntimeError("no room")
        self.seen.append(("after", path))


async def _write(session: Session, file: Path, content: bytes, *, is_stale: bool = False) -> tuple[list[str], Any]:
    workspace = session.workspace(working_dir=str(file.parent))
    call = FileCall("tool", WRITE, {}, "call-1")
    written: list[Written] = []
    with await workspace.reach(call, str(file)) as place:
        before = None if is_stale else check_writable(place, workspace.settings.writing)
        return workspace.write(call, [Change(place, before, content)], written, threading.Event()), written


async def test_files_are_kept_before_they_are_written(project: Path) -> None:
    """The checkpoint sees the old content, and is told when the write is over."""
    session, kept = Session(), Checkpoints()
    session.coordinator.register_capability("session.checkpoint", kept)
    file = project / "file"
    file.write_bytes(b"old")
    assert await _write(session, file, b"new") == ([], [Written(file, 3)])
    assert kept.seen == [("before", file, "tool", "call-1", b"old"), ("after", file)]


async def test_what_cannot_be_kept_is_not_written(project: Path) -> None:
    """Without a checkpoint nothing could be taken back, so nothing is written."""
    session = Session()
    session.coordinator.register_capability("session.checkpoint", Checkpoints("before"))
    (project / "file").write_bytes(b"old")
    with pytest.raises(FileError, match="no room") as caught:
        await _write(session, project / "file", b"new")
    assert caught.value.code == "checkpoint_failed"
    assert (project / "file").read_bytes() == b"old"


async def test_an_unfinished_checkpoint_is_told(project: Path) -> None:
    """The write is done; that its checkpoint is not complete is a warning."""
    session = Session()
    session.coordinator.register_capability("session.checkpoint", Checkpoints("after"))
    warnings, _ = await _write(session, project / "file", b"new")
    assert "no room" in warnings[0]
    assert (project / "file").read_bytes() == b"new"


async def test_a_failed_write_closes_its_checkpoint(project: Path) -> None:
    """The checkpoint is told of the end also when the write has failed."""
    session, kept = Session(), Checkpoints()
    session.coordinator.register_capability("session.checkpoint", kept)
    (project / "file").write_bytes(b"theirs")
    with pytest.raises(FileError):
        await _write(session, project / "file", b"new", is_stale=True)
    assert [entry[0] for entry in kept.seen] == ["before", "after"]


@pytest.mark.parametrize(
    "config",
    [
        {"working_dir": 3},
        {"working_dir": ""},
        {"allowed_read_paths": "everything"},
        {"allowed_write_paths": [1]},
        {"denied_write_paths": [""]},
    ],
)
def test_wrong_settings_are_named(config: dict[str, Any]) -> None:
    """A config key that makes no sense is named in the error."""
    with pytest.raises(ValueError, match=next(iter(config))):
        access(config, None)


def test_the_working_directory(project: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Config beats the session's capability, which beats where the process is."""
    monkeypatch.chdir(project)
    coordinator: Any = MockCoordinator()
    assert access({}, coordinator).working_dir == Path(os.getcwd())
    coordinator.register_capability("session.working_dir", "/somewhere")
    assert access(None, coordinator).working_dir == Path("/somewhere")
    assert access({"working_dir": "/else"}, coordinator).working_dir == Path("/else")
