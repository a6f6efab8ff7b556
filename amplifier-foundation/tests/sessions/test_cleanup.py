"""Sessions that nobody has used for long."""

import json
import os
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions import cleanup as cleanup_module
from amplifier_foundation.sessions.cleanup import CleanupError, clean_up
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

DAY = 86_400
CHILD = "0000000000000000-3f2a9d8c7b6a5f4e_helper"


class Sessions:
    """Write sessions of a given age into one project."""

    def __init__(self, root: Path) -> None:
        self.home = Home(root / "home")
        self.project = root / "project"
        self.project.mkdir()
        self.store = SessionStore(self.home)
        self.place = self.home.sessions(self.project)

    def make(self, session_id: str, days: float, **facts: Any) -> Path:
        """Write one session."""
        folder = self.place / session_id
        folder.mkdir(parents=True)
        (folder / "metadata.json").write_text(json.dumps({"session_id": session_id, **facts}), encoding="utf-8")
        then = time.time() - days * DAY
        os.utime(folder / "metadata.json", (then, then))
        return folder

    @property
    def left(self) -> set[str]:
        """Return the names of the folders that are there."""
        return set(os.listdir(self.place))


@pytest.fixture
def sessions(tmp_path: Path) -> Sessions:
    """Give a project without sessions."""
    return Sessions(tmp_path)


def test_old_sessions_go_and_young_ones_stay(sessions: Sessions) -> None:
    """What was not active for that long is deleted, and its bytes are counted."""
    size = (sessions.make("old", 31) / "metadata.json").stat().st_size
    sessions.make("young", 29)
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert [(one.session.id, one.ids, one.bytes) for one in done.removed] == [("old", ("old",), size)]
    assert (done.bytes, done.kept, done.swept, done.warnings) == (size, (), (), ())
    assert sessions.left == {"young"}


def test_a_dry_run_changes_nothing(sessions: Sessions) -> None:
    """It says what the real one then does."""
    sessions.make("old", 31)
    sessions.make(CHILD, 40, parent_id="old")
    dry = clean_up(sessions.store, days=30, project=sessions.project, dry_run=True)
    assert sessions.left == {"old", CHILD}
    assert not (sessions.place / "old" / "events.lock").exists()
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert (done.bytes, [one.ids for one in done.removed]) == (dry.bytes, [one.ids for one in dry.removed])
    assert sessions.left == set()


def test_a_session_and_those_it_started_have_one_age(sessions: Sessions) -> None:
    """A young child keeps its root, an old child does not leave a young root, and a fork stands for itself."""
    sessions.make("root", 100)
    sessions.make(CHILD, 1, parent_id="root")
    sessions.make("young", 1)
    sessions.make("child-of-young", 100, parent_id="young")
    sessions.make("fork", 100, parent_id="young", forked_at="2026-01-01T00:00:00+00:00")
    sessions.make("orphan", 100, parent_id="deleted")
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert {one.session.id for one in done.removed} == {"fork", "orphan"}
    assert sessions.left == {"root", CHILD, "young", "child-of-young"}


def test_named_and_damaged_sessions_stay_unless_told(sessions: Sessions) -> None:
    """Somebody gave it a name, or may have; the reason is told."""
    sessions.make("named", 31, name="keep me")
    damaged = sessions.make("damaged", 31)
    (damaged / "metadata.json").write_bytes(b"{")
    os.utime(damaged / "metadata.json", (1, 1))
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert done.removed == ()
    reasons = {session.id: reason for session, reason in done.kept}
    assert reasons["named"] == "it is named 'keep me'"
    assert "its name is unknown" in reasons["damaged"]
    clean_up(sessions.store, days=30, project=sessions.project, include_named=True)
    assert sessions.left == set()


@pytest.mark.parametrize("dry_run", [True, False])
def test_a_running_session_stays(sessions: Sessions, dry_run: bool) -> None:
    """However old its files are, and together with its root."""
    sessions.make("root", 31)
    child = sessions.make(CHILD, 31, parent_id="root")
    log = SessionLog(child)
    done = clean_up(sessions.store, days=30, project=sessions.project, dry_run=dry_run, include_named=True)
    log.close()
    assert done.removed == ()
    assert [(session.id, reason) for session, reason in done.kept] == [("root", f"session {CHILD} is running")]
    assert sessions.left == {"root", CHILD}


def test_all_projects_are_cleaned_when_told(sessions: Sessions, tmp_path: Path) -> None:
    """Only the project that is meant is touched otherwise."""
    sessions.make("old", 31)
    other = sessions.home.sessions(tmp_path / "other") / "old-too"
    other.mkdir(parents=True)
    (other / "metadata.json").write_text("{}", encoding="utf-8")
    os.utime(other / "metadata.json", (1, 1))
    clean_up(sessions.store, days=30, project=sessions.project)
    assert other.exists()
    clean_up(sessions.store, days=30, all_projects=True)
    assert not other.exists()


def test_what_crashes_left_is_swept(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Half-deleted folders, half-made forks and half-written files go when they are old; nothing else hidden does."""
    folder = sessions.make("young", 1)
    for name in (".deleted-1-1", ".fork-1", ".git"):
        (sessions.place / name).mkdir()
        (sessions.place / name / "file").write_bytes(b"12345")
    (folder / "metadata.json.77.abc.tmp").write_bytes(b"123")
    assert clean_up(sessions.store, days=30, project=sessions.project).swept == ()
    monkeypatch.setattr(cleanup_module, "_ABANDONED", -1)
    dry = clean_up(sessions.store, days=30, project=sessions.project, dry_run=True)
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert {path.name for path in done.swept} == {".deleted-1-1", ".fork-1", "metadata.json.77.abc.tmp"}
    assert (done.swept, done.bytes) == (dry.swept, 13)
    assert sessions.left == {"young", ".git"}
    assert set(os.listdir(folder)) == {"metadata.json"}


def test_parents_that_go_in_circles_are_cleaned(sessions: Sessions) -> None:
    """Damaged metadata may name each other; both go, each once."""
    sessions.make("a", 31, parent_id="b")
    sessions.make("b", 31, parent_id="a")
    sessions.make("self", 31, parent_id="self")
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert sorted(one.session.id for one in done.removed) == ["a", "b", "self"]
    assert sessions.left == set()


@pytest.mark.parametrize("days", [-1, float("nan"), float("inf")])
def test_an_age_makes_sense(sessions: Sessions, days: float) -> None:
    """A negative age would delete what is young."""
    sessions.make("old", 31)
    with pytest.raises(CleanupError):
        clean_up(sessions.store, days=days, project=sessions.project)
    assert sessions.left == {"old"}


def test_a_session_that_becomes_active_meanwhile_stays(sessions: Sessions, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whether a session is old is looked at again before it goes."""
    folder = sessions.make("old", 31)

    def resumed(_: Path) -> bool:
        os.utime(folder / "metadata.json")
        return False

    monkeypatch.setattr(cleanup_module, "is_running", resumed)
    done = clean_up(sessions.store, days=30, project=sessions.project)
    assert [reason for _, reason in done.kept] == ["it became active while others were deleted"]
    assert sessions.left == {"old"}


def test_logs_of_sessions_that_stay_can_be_made_smaller(sessions: Sessions) -> None:
    """With `keep_rotated` so many rotated files stay, and no large value that only the others referred to."""
    folder = sessions.make("young", 1)
    with SessionLog(folder, max_bytes=2000) as log:
        for index in range(20):
            log.write({"event": "tool:post", "session_id": "young", "data": {"n": index, "output": f"{index}" * 5000}})
    rotated = sorted(folder.glob("events.*.jsonl"), key=lambda path: int(path.suffixes[0][1:]))
    blobs = [path for path in (folder / "blobs").rglob("*") if path.is_file()]
    assert len(rotated) > 2

    plan = clean_up(sessions.store, days=30, project=sessions.project, keep_rotated=1, dry_run=True)
    assert plan.pruned == tuple(rotated[:-1])
    assert all(path.exists() for path in rotated)
    assert clean_up(sessions.store, days=30, project=sessions.project).pruned == ()

    done = clean_up(sessions.store, days=30, project=sessions.project, keep_rotated=1)
    assert (done.pruned, done.removed) == (tuple(rotated[:-1]), ())
    assert [path.exists() for path in rotated] == [False] * (len(rotated) - 1) + [True]
    left = [path for path in blobs if path.exists()]
    assert 0 < len(left) < len(blobs)
    assert done.bytes > plan.bytes
    assert verify_log(folder).ok


def test_the_log_of_a_running_session_is_left_alone(sessions: Sessions) -> None:
    """Its next line may refer to what would be deleted."""
    folder = sessions.make("runs", 1)
    with SessionLog(folder, max_bytes=1000) as log:
        for index in range(20):
            log.write({"event": "tool:post", "session_id": "runs", "data": {"n": index, "output": "x" * 200}})
        assert clean_up(sessions.store, days=30, project=sessions.project, keep_rotated=0).pruned == ()
