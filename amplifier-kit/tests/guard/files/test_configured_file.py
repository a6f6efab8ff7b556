"""A path that a config names leads where whoever wrote it meant, whatever commands have put in its place since."""

import errno
import os
from pathlib import Path

import pytest

from amplifier_kit.guard.files.configured_file import ConfiguredFile, RefusedFileError, configured_folder


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return a project, beside a folder with private files."""
    (tmp_path / "outside").mkdir()
    (tmp_path / "outside" / "private").write_text("private")
    folder = tmp_path / "project"
    folder.mkdir()
    return folder


def _link_out(project: Path, name: str) -> Path:
    """Make a name lead out of the project, by itself, by its folder, or by a chain of links."""
    outside = project.parent / "outside"
    if name == "leaf":
        (project / "a").symlink_to(outside / "private")
        return project / "a"
    if name == "folder":
        (project / "folder").symlink_to(outside)
        return project / "folder" / "private"
    if name == "chain":
        (project / "inner").mkdir()
        (project / "inner" / "up").symlink_to("../../outside")
        (project / "a").symlink_to("inner/up/private")
        return project / "a"
    (project / "back").symlink_to("..")
    return project / "back" / "outside" / "private"


@pytest.mark.parametrize("name", ["leaf", "folder", "chain", "relative"])
def test_a_link_that_leads_out_is_not_followed(project: Path, name: str) -> None:
    """Neither is read, appended to, replaced or worked in what a link of the project leads to outside of it."""
    path = _link_out(project, name)
    file = ConfiguredFile(path, project)
    with pytest.raises(RefusedFileError, match="by a link"):
        file.read()
    with pytest.raises(RefusedFileError):
        file.open_to_append()
    if name in ("leaf", "chain"):
        file.replace(b"ours")  # the link is replaced, not what it leads to
        assert file.read() == b"ours"
    else:
        with pytest.raises(RefusedFileError):
            file.replace(b"ours")
        with pytest.raises(RefusedFileError):
            configured_folder(path.parent, project)
    assert [entry.name for entry in (project.parent / "outside").iterdir()] == ["private"]
    assert (project.parent / "outside" / "private").read_text() == "private"


def test_a_link_that_stays_inside_is_followed(project: Path) -> None:
    """Links within the project are its own affair, also when the project itself is reached by a link."""
    (project / "real").mkdir()
    (project / "real" / "a").write_text("text")
    (project / "folder").symlink_to("real")
    (project / "a").symlink_to("folder/a")
    (project.parent / "alias").symlink_to(project)
    for root in (project, project.parent / "alias"):
        assert ConfiguredFile(root / "a", root).read() == b"text"
        os.close(ConfiguredFile(root / "folder" / "a", root).open_to_append())
        ConfiguredFile(root / "folder" / "b", root).replace(b"new")
        assert configured_folder(root / "folder", root) == project / "real"


def test_a_path_outside_is_whoevers_that_named_it(project: Path) -> None:
    """A path that leads out by its own words is opened, links outside of the project included."""
    outside = project.parent / "outside"
    (outside / "link").symlink_to("private")
    for path in (outside / "private", outside / "link", project / ".." / "outside" / "private"):
        assert ConfiguredFile(path, project).read() == b"private"
    os.close(ConfiguredFile(outside / "new" / "folder" / "a", project).open_to_append())
    assert (outside / "new").stat().st_mode & 0o777 == 0o700
    assert (outside / "new" / "folder" / "a").stat().st_mode & 0o777 == 0o600


def test_nothing_is_appended_through_a_link_anywhere(project: Path) -> None:
    """Neither a link inside of the project, nor one outside, nor one to nothing is written through."""
    (project / "real").write_text("text")
    (project / "inside").symlink_to("real")
    (project / "dangling").symlink_to("missing")
    (project.parent / "outside" / "link").symlink_to("private")
    for path in (project / "inside", project / "dangling", project.parent / "outside" / "link"):
        with pytest.raises(RefusedFileError, match="is a link"):
            ConfiguredFile(path, project).open_to_append()
    assert not (project / "missing").exists()


def test_pipes_and_devices_are_refused_at_once(project: Path) -> None:
    """What is no regular file is neither read nor written, and not waited for."""
    os.mkfifo(project / "pipe")
    for path in (project / "pipe", Path("/dev/zero")):
        for use in (ConfiguredFile(path, project).read, ConfiguredFile(path, project).open_to_append):
            with pytest.raises(RefusedFileError):
                use()


def test_a_second_name_is_not_appended_to(project: Path) -> None:
    """A hard link in the project may be a file outside of it."""
    os.link(project.parent / "outside" / "private", project / "a")
    with pytest.raises(RefusedFileError, match="hard link"):
        ConfiguredFile(project / "a", project).open_to_append()


def test_the_rules_decide_what_the_model_reads(project: Path) -> None:
    """The rules are asked about the name and about where it leads, and a reason keeps the file away."""
    (project / "a").write_text("text")
    (project / "link").symlink_to("a")
    asked: list[str] = []

    def denied(path: str, root: str) -> str | None:
        asked.append(path)
        assert root == str(project)
        return "no" if path.endswith("/a") else None

    with pytest.raises(RefusedFileError, match="not given to the model: no"):
        ConfiguredFile(project / "link", project, denied).read()
    assert asked == [str(project / "link"), str(project / "a")]


def test_what_is_missing_or_too_large_is_told(project: Path) -> None:
    """A missing file is a FileNotFoundError as ever, a folder none that can be read, and a limit holds."""
    (project / "a").write_bytes(b"12345")
    with pytest.raises(FileNotFoundError):
        ConfiguredFile(project / "missing" / "b", project).read()
    with pytest.raises(IsADirectoryError):
        ConfiguredFile(project, project).read()
    with pytest.raises(NotADirectoryError) as raised:
        ConfiguredFile(project / "a" / "b", project).open_to_append()
    assert raised.value.errno == errno.ENOTDIR
    with pytest.raises(RefusedFileError, match="more than 4 bytes"):
        ConfiguredFile(project / "a", project).read(4)
    assert ConfiguredFile(project / "a", project).read(5) == b"12345"
