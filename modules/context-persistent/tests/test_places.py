"""The transcript is where the session is."""

from hashlib import sha256
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_kit.config import read_config
from amplifier_module_context_persistent.context import (
    PersistentConfig,
    PersistentContextManager,
    transcript_path,
    working_dir,
)


def place(coordinator: Any, **config: Any) -> Path:
    settings = read_config(PersistentConfig, config, module="context-persistent")
    return transcript_path(settings.transcript_path, coordinator, working_dir(settings.working_dir, coordinator))


def project_name(folder: Path) -> str:
    return f"{folder.name}-{sha256(str(folder).encode()).hexdigest()[:8]}"


def test_by_default_it_is_in_the_sessions_folder_of_the_home(coordinator: MockCoordinator, home: Path) -> None:
    """The project is named by its folder and a hash of its path."""
    expected = home / "projects" / project_name(Path.cwd()) / "sessions" / "test-session" / "context-messages.jsonl"
    assert place(coordinator) == expected


def test_without_a_variable_the_home_is_the_users(
    coordinator: MockCoordinator, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """`~/.amplifier` is the default home."""
    monkeypatch.delenv("AMPLIFIER_HOME")
    monkeypatch.setenv("HOME", str(tmp_path / "u"))
    assert place(coordinator).is_relative_to(tmp_path / "u" / ".amplifier" / "projects")


def test_capabilities_of_the_app_count(coordinator: MockCoordinator, tmp_path: Path) -> None:
    """The app's home, working directory and session folder win over guesses, in that order of strength."""
    coordinator.register_capability("amplifier.home", tmp_path / "other")
    coordinator.register_capability("session.working_dir", str(tmp_path / "work"))
    expected = tmp_path / "other" / "projects" / project_name(tmp_path / "work") / "sessions" / "test-session"
    assert place(coordinator).parent == expected
    coordinator.register_capability("session.dir", tmp_path / "here")
    assert place(coordinator) == tmp_path / "here" / "context-messages.jsonl"


def test_a_path_that_is_given_counts_most(
    coordinator: MockCoordinator, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It is relative to the working directory; `~` is the user's home."""
    coordinator.register_capability("session.dir", tmp_path / "here")
    assert place(coordinator, transcript_path="notes/t.jsonl") == Path.cwd() / "notes" / "t.jsonl"
    assert place(coordinator, transcript_path="t.jsonl", working_dir=str(tmp_path)) == tmp_path / "t.jsonl"
    assert place(coordinator, transcript_path=str(tmp_path / "t.jsonl")) == tmp_path / "t.jsonl"
    monkeypatch.setenv("HOME", str(tmp_path / "u"))
    assert place(coordinator, transcript_path="~/t.jsonl") == tmp_path / "u" / "t.jsonl"


@pytest.mark.parametrize("given", ["", 5, ["t.jsonl"]])
def test_a_path_that_is_none_is_refused(coordinator: MockCoordinator, given: Any) -> None:
    """The error names the key and the value."""
    with pytest.raises(ValueError, match="config key 'transcript_path' must be a path, or null, got"):
        place(coordinator, transcript_path=given)


@pytest.mark.parametrize(
    ("session_id", "why"), [("", "has no id"), ("../../etc", "cannot be the name of a folder"), ("..", "cannot be")]
)
def test_a_session_without_a_usable_id_needs_a_path(coordinator: MockCoordinator, session_id: str, why: str) -> None:
    """An id that is missing, or leads elsewhere, is refused, and the error says what to set."""
    coordinator._session_id = session_id
    with pytest.raises(ValueError, match=f"{why}.*set transcript_path"):
        place(coordinator)


@pytest.mark.parametrize("config", [{"transcript_path": ".git/config"}, {"transcript_path": "config", "dir": ".git"}])
def test_a_control_file_is_no_transcript(coordinator: MockCoordinator, tmp_path: Path, config: dict[str, str]) -> None:
    """What git or a session runs is decided by no transcript, whichever setting leads there."""
    (tmp_path / ".git").mkdir()
    coordinator.register_capability("session.working_dir", str(tmp_path))
    given = {"transcript_path": config["transcript_path"], "working_dir": str(tmp_path / config.get("dir", ""))}
    with pytest.raises(PermissionError, match="config"):
        PersistentContextManager.from_config(given, coordinator)
