"""Where sessions lie."""

from __future__ import annotations

from pathlib import Path

import pytest

from amplifier_kit.home import TEMPLATE, amplifier_home, log_path, project_slug


def test_home_can_be_moved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """AMPLIFIER_HOME moves everything; without it, it is a folder in the user's home."""
    monkeypatch.setenv("HOME", str(tmp_path))
    assert amplifier_home({}) == tmp_path / ".amplifier"
    assert amplifier_home({"AMPLIFIER_HOME": ""}) == tmp_path / ".amplifier"
    assert amplifier_home({"AMPLIFIER_HOME": "~/elsewhere"}) == tmp_path / "elsewhere"
    monkeypatch.setenv("AMPLIFIER_HOME", "/opt/amplifier")
    assert amplifier_home() == Path("/opt/amplifier")


@pytest.mark.parametrize(("path", "slug"), [("/home/u/app", "-home-u-app"), ("/", "-"), ("/a:b", "-ab")])
def test_slug(path: str, slug: str) -> None:
    """A project's folder is its path with dashes."""
    assert project_slug(path) == slug


def test_a_relative_project_is_resolved(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """The same project has the same name wherever one stands."""
    monkeypatch.chdir(tmp_path)
    assert project_slug(".") == project_slug(tmp_path.resolve())


def test_the_usual_place(tmp_path: Path) -> None:
    """The published template, below whatever home there is."""
    path = log_path(TEMPLATE, home=tmp_path, project="/home/u/app", session_id="abc")
    assert path == tmp_path / "projects" / "-home-u-app" / "sessions" / "abc" / "events.jsonl"


def test_another_place(monkeypatch: pytest.MonkeyPatch) -> None:
    """A template may lead anywhere."""
    monkeypatch.setenv("HOME", "/home/u")
    assert log_path("~/logs/{session_id}.jsonl", home=Path("/x"), project="/p", session_id="a") == Path(
        "/home/u/logs/a.jsonl"
    )


@pytest.mark.parametrize("session_id", ["../../etc/x", "/etc/x", "..", "a\\b"])
def test_ids_stay_in_their_folder(session_id: str) -> None:
    """An id is a name, never a path."""
    path = log_path("/logs/{session_id}/events.jsonl", home=Path("/x"), project="/p", session_id=session_id)
    assert path.parent.parent == Path("/logs")
    assert ".." not in path.parts


@pytest.mark.parametrize("template", ["/logs/{user}.jsonl", "/logs/{}.jsonl", "/logs/{session_id.jsonl"])
def test_a_template_that_cannot_be_filled_in(template: str) -> None:
    """The error names the template and what it may hold."""
    with pytest.raises(ValueError, match=r"only \{project\} and \{session_id\} may be in braces"):
        log_path(template, home=Path("/x"), project="/p", session_id="a")
