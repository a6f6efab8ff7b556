"""Changes are carried out whole and together, and files keep what is theirs."""

from __future__ import annotations

import os
import stat
import threading
from contextlib import ExitStack
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.guard.files.changes import Change, Stopped, apply_changes, check_writable
from amplifier_kit.guard.files.place import FileError, Roots, reach


def _apply(stop: threading.Event, roots: Roots, contents: dict[Path, bytes | None]) -> None:
    with ExitStack() as stack:
        changes = []
        for path, content in contents.items():
            place = stack.enter_context(reach(str(path)))
            before = check_writable(place, roots)
            original = path.read_bytes() if before is not None else None
            changes.append(Change(place, before, content, original))
        apply_changes(changes, roots, stop)


def _tree(folder: Path) -> dict[str, bytes]:
    return {str(path.relative_to(folder)): path.read_bytes() for path in folder.rglob("*") if path.is_file()}


def test_a_new_file_with_its_folders(project: Path, stop: threading.Event) -> None:
    """Folders that a new file needs are made, and nothing else is left."""
    _apply(stop, Roots(), {project / "a" / "b" / "new": b"x"})
    assert _tree(project) == {"a/b/new": b"x"}


def test_new_files_have_the_usual_mode(project: Path, stop: threading.Event) -> None:
    """A new file has the mode that the umask of the process gives."""
    (project / "usual").touch()
    _apply(stop, Roots(), {project / "new": b"x"})
    assert (project / "new").stat().st_mode == (project / "usual").stat().st_mode


def test_mode_is_kept_and_privileges_are_not(project: Path, stop: threading.Event) -> None:
    """A program stays executable, but does not keep the right to run as somebody else."""
    file = project / "run"
    file.write_bytes(b"old")
    file.chmod(0o4751)
    _apply(stop, Roots(), {file: b"new"})
    assert stat.S_IMODE(file.stat().st_mode) == 0o751


@pytest.mark.skipif(not hasattr(os, "setxattr"), reason="no extended attributes here")
def test_attributes_are_kept(project: Path, stop: threading.Event) -> None:
    """Extended attributes move to the new content."""
    file = project / "file"
    file.write_bytes(b"old")
    try:
        os.setxattr(file, "user.note", b"mine")
    except OSError:
        pytest.skip("this file system has no attributes")
    _apply(stop, Roots(), {file: b"new"})
    assert os.getxattr(file, "user.note") == b"mine"


@pytest.mark.skipif(os.geteuid() != 0, reason="only an administrator can give files away")
def test_the_owner_is_kept(project: Path, stop: threading.Event) -> None:
    """A file of somebody else stays theirs."""
    file = project / "file"
    file.write_bytes(b"old")
    os.chown(file, 12345, 54321)
    _apply(stop, Roots(), {file: b"new"})
    assert (file.stat().st_uid, file.stat().st_gid) == (12345, 54321)


def test_other_names_of_a_file_keep_the_old_content(project: Path, stop: threading.Event) -> None:
    """A hard link elsewhere is never written through."""
    outside = project.parent / "outside"
    outside.write_bytes(b"old")
    os.link(outside, project / "inside")
    _apply(stop, Roots.resolved([project], [], project), {project / "inside": b"new"})
    assert (outside.read_bytes(), (project / "inside").read_bytes()) == (b"old", b"new")


def test_readers_keep_what_they_have_open(project: Path, stop: threading.Event) -> None:
    """Whoever has the old file open reads the old content to its end."""
    (project / "file").write_bytes(b"old")
    with open(project / "file", "rb") as reader:
        _apply(stop, Roots(), {project / "file": b"new"})
        assert reader.read() == b"old"


def test_nothing_else_is_left(project: Path, stop: threading.Event) -> None:
    """After new and replaced files, no temporary file is left."""
    (project / "old").write_bytes(b"old")
    _apply(stop, Roots(), {project / "old": b"1", project / "sub" / "new": b"2"})
    assert _tree(project) == {"old": b"1", "sub/new": b"2"}


def test_what_was_changed_meanwhile_is_left_alone(project: Path, stop: threading.Event) -> None:
    """A file that somebody else has written since it was read is not overwritten."""
    file = project / "file"
    file.write_bytes(b"old")
    with reach(str(file)) as place:
        before = check_writable(place, Roots())
        file.write_bytes(b"theirs")
        with pytest.raises(FileError) as caught:
            apply_changes([Change(place, before, b"mine", b"old")], Roots(), stop)
    assert caught.value.code == "changed_meanwhile"
    assert _tree(project) == {"file": b"theirs"}


def test_a_new_file_never_replaces_one(project: Path, stop: threading.Event) -> None:
    """A file that appears where a new one was to be made stays."""
    with reach(str(project / "file")) as place:
        before = check_writable(place, Roots())
        (project / "file").write_bytes(b"theirs")
        with pytest.raises(FileError):
            apply_changes([Change(place, before, b"mine")], Roots(), stop)
    assert _tree(project) == {"file": b"theirs"}


def test_stopped_work_changes_nothing(project: Path, stop: threading.Event) -> None:
    """Once somebody has said stop, nothing is changed and nothing is left."""
    (project / "file").write_bytes(b"old")
    stop.set()
    with pytest.raises(Stopped):
        _apply(stop, Roots(), {project / "file": b"new", project / "d" / "new": b"x"})
    assert _tree(project) == {"file": b"old"}
    assert sorted(os.listdir(project)) == ["file"]


def test_stopped_work_does_not_remove_files(project: Path, stop: threading.Event) -> None:
    """The same holds where nothing has to be written: for files that were to be removed or emptied."""
    (project / "file").write_bytes(b"old")
    stop.set()
    for content in (None, b""):
        with pytest.raises(Stopped):
            _apply(stop, Roots(), {project / "file": content})
    assert _tree(project) == {"file": b"old"}


def test_work_stops_in_the_middle_of_a_large_file(
    project: Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A large file is not written to its end once somebody has said stop."""
    write, calls = os.write, []

    def stopping(descriptor: int, data: bytes) -> int:
        calls.append(len(data))
        stop.set()
        return write(descriptor, data)

    monkeypatch.setattr(os, "write", stopping)
    with pytest.raises(Stopped):
        _apply(stop, Roots(), {project / "file": bytes(20_000_000)})
    assert len(calls) == 1
    assert os.listdir(project) == []


def test_several_files_change_together(project: Path, stop: threading.Event) -> None:
    """New, changed and removed files in one go."""
    (project / "changed").write_bytes(b"1")
    (project / "removed").write_bytes(b"2")
    _apply(stop, Roots(), {project / "new": b"3", project / "changed": b"4", project / "removed": None})
    assert _tree(project) == {"new": b"3", "changed": b"4"}


@given(
    olds=st.lists(st.none() | st.binary(max_size=9), min_size=2, max_size=5),
    data=st.data(),
)
def test_all_or_none(tmp_path_factory: pytest.TempPathFactory, olds: list[bytes | None], data: st.DataObject) -> None:
    """Whatever the files and whichever one fails at last: all are as before, modes and times included."""
    folder = tmp_path_factory.mktemp("all").resolve()
    paths = [folder / f"d{number}" / "file" for number in range(len(olds))]
    for path, old in zip(paths, olds, strict=True):
        if old is not None:
            path.parent.mkdir()
            path.write_bytes(old)
            path.chmod(0o640)
            os.utime(path, ns=(10**18, 10**18))
    news = [
        data.draw(st.binary(max_size=9) if old is None else st.none() | st.binary(max_size=9), label="new")
        for old in olds
    ]
    failing = data.draw(st.integers(0, len(olds) - 1), label="failing")
    before = _described(folder)
    with ExitStack() as stack, pytest.MonkeyPatch.context() as patch:
        changes = []
        for path, old, new in zip(paths, olds, news, strict=True):
            place = stack.enter_context(reach(str(path)))
            changes.append(Change(place, place.status(), new, old))
        broken = changes[failing].place

        real = {name: getattr(os, name) for name in ("rename", "link", "unlink", "mkdir")}
        state = {"is_broken": False}

        def failing_call(name: str) -> object:
            def call(*arguments: object, **named: object) -> object:
                is_ours = broken.folder in (named.get("dst_dir_fd"), named.get("dir_fd"))
                if is_ours and not state["is_broken"]:
                    state["is_broken"] = True
                    raise OSError(5, "Input/output error")
                return real[name](*arguments, **named)

            return call

        for name in real:
            patch.setattr(os, name, failing_call(name))
        with pytest.raises(FileError) as caught:
            apply_changes(changes, Roots(), threading.Event())
    assert caught.value.code == "io_error"
    assert _described(folder) == before


def _described(folder: Path) -> dict[str, object]:
    found: dict[str, object] = {}
    for path in folder.rglob("*"):
        status = path.lstat()
        found[str(path)] = (status.st_mode, path.read_bytes(), status.st_mtime_ns) if path.is_file() else status.st_mode
    return found


def test_what_cannot_be_put_back_is_named(
    project: Path, stop: threading.Event, monkeypatch: pytest.MonkeyPatch
) -> None:
    """When putting back fails too, the error says which files are changed, and none is lost."""
    (project / "a").write_bytes(b"1")
    (project / "b").write_bytes(b"2")
    real = os.rename
    calls: list[object] = []

    def rename(*arguments: object, **named: object) -> None:
        calls.append(arguments)
        if len(calls) > 1:
            raise OSError(5, "Input/output error")
        real(*arguments, **named)  # type: ignore[arg-type]

    monkeypatch.setattr(os, "rename", rename)
    with pytest.raises(FileError) as caught:
        _apply(stop, Roots(), {project / "a": b"3", project / "b": b"4"})
    assert caught.value.code == "partial"
    assert str(project / "a") in caught.value.message
    assert str(project / "b") not in caught.value.message.rpartition("could not be restored")[2]
    assert _tree(project) == {"a": b"3", "b": b"2"}


@pytest.mark.parametrize("kind", ["folder", "pipe", "itself"])
def test_only_files_are_written(project: Path, kind: str) -> None:
    """A folder or a pipe is refused before anything happens, and without waiting."""
    path = project / "x"
    if kind == "folder":
        path.mkdir()
    elif kind == "pipe":
        os.mkfifo(path)
    else:
        path = project
    with reach(str(path)) as place, pytest.raises(FileError) as caught:
        check_writable(place, Roots())
    assert caught.value.code == ("special_file" if kind == "pipe" else "is_directory")


@pytest.mark.skipif(os.geteuid() == 0, reason="an administrator may write everything")
def test_write_protection_is_respected(project: Path) -> None:
    """A write-protected file is not replaced, although its folder would allow it."""
    (project / "file").touch(mode=0o444)
    with reach(str(project / "file")) as place, pytest.raises(FileError) as caught:
        check_writable(place, Roots())
    assert caught.value.code == "read_only"
