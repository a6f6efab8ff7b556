"""Where things are."""

import os
from pathlib import Path

import pytest

from amplifier_foundation.paths import (
    Home,
    NoHomeError,
    ProjectGoneError,
    amplifier_home,
    current_project,
    expanded,
    project_slug,
)


def test_home_is_moved_as_a_whole(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AMPLIFIER_HOME is the home when it is set, ~/.amplifier when it is not."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "elsewhere"))
    assert amplifier_home() == tmp_path / "elsewhere"
    monkeypatch.delenv("AMPLIFIER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path))
    assert amplifier_home() == tmp_path / ".amplifier"
    assert amplifier_home({"AMPLIFIER_HOME": "/else/where"}) == Path("/else/where")


def test_every_place_lies_in_the_home(tmp_path: Path) -> None:
    """Whatever is kept is kept below the home, so that moving or deleting the home moves or deletes all of it."""
    home = Home(tmp_path)
    places = [getattr(home, name) for name in vars(Home) if isinstance(vars(Home)[name], property)]
    assert len(places) >= 9
    places += [home.project(Path("/a/b")), home.sessions(Path("/a/b"))]
    assert all(place.is_relative_to(tmp_path) and place != tmp_path for place in places)
    assert len(set(places)) == len(places)
    assert not list(tmp_path.iterdir())


def test_no_home_says_what_to_set(monkeypatch: pytest.MonkeyPatch) -> None:
    """Without any home the error names the two variables that would give one."""

    def homeless() -> Path:
        raise RuntimeError("Could not determine home directory.")

    monkeypatch.delenv("AMPLIFIER_HOME", raising=False)
    monkeypatch.setattr(Path, "home", homeless)
    with pytest.raises(NoHomeError, match="set HOME or AMPLIFIER_HOME"):
        amplifier_home()


def test_a_home_that_nobody_knows_is_named(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """`~/x` is below HOME; the home of an unknown user is an error that has the text and says what to write."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert (expanded("~/x"), expanded("./x")) == (tmp_path / "x", Path("x"))
    with pytest.raises(NoHomeError, match=r"^~no-such-user/x: .* write the full path$"):
        expanded("~no-such-user/x")


def test_a_relative_home_is_taken_from_where_the_program_starts(
    monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A relative home does not move when the working directory does."""
    monkeypatch.chdir(tmp_path)
    monkeypatch.setenv("AMPLIFIER_HOME", "here")
    home = amplifier_home()
    monkeypatch.chdir("/")
    assert home == tmp_path / "here"


def test_a_deleted_folder_is_said_by_name(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Standing in a folder that was deleted, the error says so and what to do."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    monkeypatch.setenv("PWD", str(gone))
    assert current_project() == gone.resolve()
    gone.rmdir()
    try:
        with pytest.raises(ProjectGoneError, match=r"gone does not exist any more .* go to another folder"):
            current_project()
    finally:
        os.chdir(tmp_path)


def test_slug_is_the_resolved_path_with_dashes(tmp_path: Path) -> None:
    """A project reached through a link has the slug of the folder itself."""
    real = tmp_path / "real"
    real.mkdir()
    (tmp_path / "link").symlink_to(real)
    assert project_slug(tmp_path / "link") == str(real.resolve()).replace("/", "-")
