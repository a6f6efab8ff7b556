"""All sessions on disk: lists, and the way to one of them."""

import json
import os
from collections.abc import Callable
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions.store import (
    AmbiguousSessionError,
    SessionCatalog,
    SessionIdError,
    SessionNameError,
    SessionNotFoundError,
    SessionStore,
    SessionsUnreadableError,
)

A = "aaaa1111-39a2-4a1d-9b5e-6f4b7c1f2d3e"
B = "aaaa2222-39a2-4a1d-9b5e-6f4b7c1f2d3e"
C = "cccc3333-39a2-4a1d-9b5e-6f4b7c1f2d3e"
CHILD = "0000000000000000-3f2a9d8c7b6a5f4e_helper"
GRANDCHILD = "3f2a9d8c7b6a5f4e-1111111111111111_helper"

Make = Callable[..., Path]


@pytest.fixture
def home(tmp_path: Path) -> Home:
    """Give a home without sessions."""
    return Home(tmp_path / "home")


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Give a project, with a space and more in its path."""
    (tmp_path / "my präject").mkdir()
    return tmp_path / "my präject"


@pytest.fixture
def make(home: Home, project: Path) -> Make:
    """Give a function that writes a session as the published program does, active at a given time."""

    def made(session_id: str, at: float = 1_000_000_000, where: Path = project, **facts: Any) -> Path:
        folder = home.sessions(where) / session_id
        folder.mkdir(parents=True)
        metadata = {"session_id": session_id, "bundle": "bundle:b", "working_dir": str(where.resolve()), **facts}
        (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
        prompt = {"role": "user", "content": f"prompt of {session_id}"}
        (folder / "transcript.jsonl").write_text(json.dumps(prompt) + "\n", encoding="utf-8")
        os.utime(folder / "metadata.json", (at, at))
        return folder

    return made


def _ids(sessions: list[Any]) -> list[str]:
    return [session.id for session in sessions]


def test_sessions_are_listed_newest_first(home: Home, project: Path, make: Make) -> None:
    """The list is in the order of the last activity; a limit keeps the newest."""
    for number, session_id in enumerate((A, B, C)):
        make(session_id, 1_000_000_000 + number)
    store = SessionStore(home)
    assert _ids(store.list(project)) == [C, B, A]
    assert _ids(store.list(project, limit=2)) == [C, B]
    assert store.list(project, limit=0) == []
    newest = store.newest(project)
    assert newest is not None
    assert newest == store.list(project)[0]


def test_the_second_list_is_the_first(home: Home, project: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A list from the index says what one from the files says, field by field, and reads no session again."""
    monkeypatch.setattr(SessionCatalog, "settled", 0.0)
    make(A, name="ü", description="d", model="m", created="2026-01-01T00:00:00Z", turn_count=4)
    make(CHILD, parent_id=A, agent_name="helper")
    (make(B) / "metadata.json").write_bytes(b"{")
    first = SessionStore(home).list(project, include_children=True)

    def unread(folder: Any) -> Any:
        raise AssertionError(f"{folder} was read")

    monkeypatch.setattr("amplifier_foundation.sessions.store.read_facts", unread)
    assert SessionStore(home).list(project, include_children=True) == first
    assert len(first) == 3


def test_what_has_changed_is_read_again(home: Home, project: Path, make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    """A row of the index counts as long as the file is the very same; a deleted session is not listed."""
    monkeypatch.setattr(SessionCatalog, "settled", 0.0)
    folder = make(A, name="one")
    make(B)
    store = SessionStore(home)
    assert store.list(project)[0].folder.parent == folder.parent
    path, before = folder / "metadata.json", (folder / "metadata.json").stat()
    while path.stat().st_ctime_ns == before.st_ctime_ns:  # until the clock of the file system has gone on
        path.write_bytes(path.read_bytes().replace(b"one", b"two"))
        os.utime(path, ns=(before.st_mtime_ns, before.st_mtime_ns))
    assert (path.stat().st_size, path.stat().st_mtime_ns) == (before.st_size, before.st_mtime_ns)
    os.rename(home.sessions(project) / B, home.path / "elsewhere")
    assert [session.name for session in store.list(project)] == ["two"]


def test_a_file_that_was_just_changed_is_not_believed(home: Home, project: Path, make: Make) -> None:
    """Two changes within one tick of the clock look the same, so that what is fresh is read every time."""
    make(A)
    SessionStore(home).list(project)
    assert not home.index.exists()


def test_damaged_sessions_are_listed_with_the_reason(home: Home, project: Path, make: Make) -> None:
    """A session is never dropped from the list: its backup is used, or the reason shown."""
    (make(A, name="gone") / "metadata.json").write_bytes(b"{")
    folder = make(B)
    (folder / "metadata.json").rename(folder / "metadata.json.backup")
    (folder / "metadata.json").write_bytes(b"")
    found = {session.id: session for session in SessionStore(home).list(project)}
    assert "metadata.json:1 is damaged" in (found[A].damaged or "")
    assert found[A].first_prompt == f"prompt of {A}"
    assert (found[B].damaged, found[B].bundle) == (None, "b")
    assert "its backup is used" in (found[B].warning or "")


def test_children_are_shown_when_asked_for(home: Home, project: Path, make: Make) -> None:
    """Sessions that others started are in no list but those that ask for them, for a tree, or for children."""
    make(A, 1)
    make(CHILD, 2, parent_id=A)
    make(GRANDCHILD, 3, parent_id=CHILD)
    make(B, 4, parent_id=A, forked_from_turn=1)
    store = SessionStore(home)
    assert _ids(store.list(project)) == [B, A]
    assert _ids(store.list(project, include_children=True)) == [B, GRANDCHILD, CHILD, A]
    assert _ids(store.list(project, tree_of=A)) == [B, GRANDCHILD, CHILD, A]
    assert _ids(store.list(project, tree_of=CHILD)) == [GRANDCHILD, CHILD]
    assert _ids(store.children(store.find(A, project))) == [CHILD]
    assert _ids(store.lineage(store.find(GRANDCHILD, project))) == [A, CHILD, GRANDCHILD]
    assert _ids(store.lineage(store.find(B, project))) == [A, B]


def test_a_circle_of_parents_ends(home: Home, project: Path, make: Make) -> None:
    """Damaged metadata may name each other as parents, and a parent may be a path out of the store."""
    make(A, parent_id=B)
    make(B, parent_id=A)
    make(C, parent_id="../../x")
    store = SessionStore(home)
    found = {session.id: session for session in store.list(project, include_children=True)}
    assert _ids(store.lineage(found[A])) == [B, A]
    assert set(_ids(store.list(project, tree_of=found[A]))) == {A, B}
    assert _ids(store.lineage(found[C])) == [C]


def test_lists_are_filtered(home: Home, project: Path, make: Make) -> None:
    """Every word must be there, in any field and any case; times are about the last activity."""
    make(A, 1_000, name="Fix the BUILD")
    make(B, 2_000, description="about builds")
    make(C, 3_000)
    store = SessionStore(home)
    assert _ids(store.list(project, text="build")) == [B, A]
    assert _ids(store.list(project, text="build fix")) == [A]
    assert _ids(store.list(project, text=f"PROMPT {C[:6]}")) == [C]
    since, until = datetime.fromtimestamp(1_500, UTC), datetime.fromtimestamp(2_500, UTC)
    assert _ids(store.list(project, since=since)) == [C, B]
    assert _ids(store.list(project, until=until)) == [B, A]
    assert _ids(store.list(project, since=since.replace(tzinfo=None).astimezone(None), until=until)) == [B]


def test_all_projects_are_listed(home: Home, project: Path, make: Make, tmp_path: Path) -> None:
    """One list has the sessions of every project; what is no folder, or hidden, is none."""
    make(A, 1)
    make(B, 2, tmp_path / "other")
    (home.projects / "stray file").touch()
    (home.sessions(project) / "stray file").touch()
    (home.sessions(project) / ".deleted-1-1").mkdir()
    store = SessionStore(home)
    assert _ids(store.list(all_projects=True)) == [B, A]
    assert _ids(store.list(project)) == [A]
    assert store.warnings == []


def test_an_unreadable_project_hides_no_other(home: Home, project: Path, make: Make, tmp_path: Path) -> None:
    """It is an error for who asks for it, and a warning for who asks for all."""
    make(A)
    (home.project(tmp_path / "odd")).mkdir(parents=True)
    (home.project(tmp_path / "odd") / "sessions").touch()
    store = SessionStore(home)
    assert _ids(store.list(all_projects=True)) == [A]
    assert len(store.warnings) == 1
    assert "cannot be read" in store.warnings[0]
    with pytest.raises(SessionsUnreadableError, match="cannot be read"):
        store.list(tmp_path / "odd")


def test_a_project_without_sessions_has_none(home: Home, project: Path) -> None:
    """Nothing is made by looking."""
    store = SessionStore(home)
    assert (store.list(project), store.newest(project), store.list(all_projects=True)) == ([], None, [])
    assert not home.path.exists()


def test_projects_whose_names_collide_are_told_apart(home: Home, make: Make, tmp_path: Path) -> None:
    """`a-b` and `a/b` share a folder; each lists its own sessions, through links too."""
    flat, deep = tmp_path / "a-b", tmp_path / "a" / "b"
    flat.mkdir()
    deep.mkdir(parents=True)
    (tmp_path / "link").symlink_to(deep)
    assert home.sessions(flat) == home.sessions(deep)
    make(A, 1, flat)
    make(B, 2, deep)
    make(C, 3, deep, working_dir=str(tmp_path / "link"))
    store = SessionStore(home)
    assert _ids(store.list(flat)) == [A]
    assert _ids(store.list(deep)) == [C, B]
    assert _ids(store.list(tmp_path / "link")) == [C, B]
    assert (store.newest(flat) or store.list(deep)[0]).id == A


def test_a_broken_index_only_makes_lists_slow(home: Home, project: Path, make: Make) -> None:
    """Lists work from the files, and say that they do."""
    make(A)
    home.index.mkdir()
    store = SessionStore(home)
    assert _ids(store.list(project)) == [A]
    assert len(store.warnings) == 1
    assert "lists are slower" in store.warnings[0]


@pytest.mark.parametrize("session_id", ["", ".", "..", ".hidden", "a/b", "a\\b", "a\0b"])
def test_an_id_stays_in_its_folder(home: Home, project: Path, session_id: str) -> None:
    """What would lead out of the store is no id."""
    store = SessionStore(home)
    assert store.folder(project, A) == home.sessions(project) / A
    with pytest.raises(SessionIdError):
        store.folder(project, session_id)


def test_a_session_is_found_by_id_beginning_name_and_path(home: Home, project: Path, make: Make) -> None:
    """Each way leads to the one session, and a file of it is as good as its folder."""
    folder = make(A, name="the build")
    make(C)
    store = SessionStore(home)
    for text in (A, "aaaa", "the build", str(folder), f"{folder}/", str(folder / "transcript.jsonl")):
        assert store.find(text, project).folder == folder
    store.rename(store.find(A, project), "docs/ of .env")
    assert store.find("docs/ of .env", project).folder == folder


def test_a_full_id_wins_over_a_beginning(home: Home, project: Path, make: Make) -> None:
    """An id that is the beginning of another means the one that it is."""
    make("run")
    make("run-2")
    assert SessionStore(home).find("run", project).id == "run"


def test_what_may_mean_several_is_an_error_that_names_them(home: Home, project: Path, make: Make) -> None:
    """Ids are given in full, so that one can be copied; a name that is also a beginning means neither by itself."""
    make(A)
    make(B)
    make(C, name="aaaa1")
    store = SessionStore(home)
    with pytest.raises(AmbiguousSessionError) as raised:
        store.find("aaaa", project)
    assert A in str(raised.value)
    assert B in str(raised.value)
    assert {found.id for found in raised.value.candidates} == {A, B}
    with pytest.raises(AmbiguousSessionError, match=C):
        store.find("aaaa1", project)


def test_the_project_comes_before_all_others(home: Home, project: Path, make: Make, tmp_path: Path) -> None:
    """What means a session of the project is not looked for elsewhere; what does not, is."""
    make(A)
    make(B, where=tmp_path / "other", name="far")
    store = SessionStore(home)
    assert store.find("aaaa", project).id == A
    assert store.find("aaaa2", project).id == B
    assert store.find("far", project).id == B
    assert store.find(B, project).id == B


def test_a_beginning_means_roots_before_children(home: Home, project: Path, make: Make) -> None:
    """Children are found too, when no session of its own begins like that."""
    make("00001111-39a2-4a1d-9b5e-6f4b7c1f2d3e")
    make(CHILD, parent_id="x")
    make(GRANDCHILD, parent_id=CHILD)
    store = SessionStore(home)
    assert store.find("0000", project).id.startswith("00001111")
    assert store.find("3f2a", project).id == GRANDCHILD


@pytest.mark.parametrize("text", ["", "nothing", "..", ".", "/", "~", "no/such/path", "a\0b"])
def test_what_means_none_is_an_error(home: Home, project: Path, make: Make, text: str) -> None:
    """Nothing is guessed, and a path to something else is no session."""
    make(A)
    with pytest.raises(SessionNotFoundError) as raised:
        SessionStore(home).find(text, project)
    assert raised.value.code == "session_not_found"


def test_a_session_is_renamed(home: Home, project: Path, make: Make) -> None:
    """The name is stripped, found by, and no activity; everything else in the metadata stays; None takes it away."""
    folder = make(A, 1_000, custom={"deep": 1})
    make(B, 2_000)
    store = SessionStore(home)
    renamed = store.rename(store.find(A, project), "  the ü build  ")
    assert (renamed.name, store.find("the ü build", project).id) == ("the ü build", A)
    assert _ids(store.list(project)) == [B, A]
    metadata = json.loads((folder / "metadata.json").read_bytes())
    assert (metadata["custom"], metadata["bundle"]) == ({"deep": 1}, "bundle:b")
    assert datetime.fromisoformat(metadata["name_generated_at"]).tzinfo is not None
    assert store.rename(renamed, None).name is None


@pytest.mark.parametrize("name", ["", "   ", "x" * 51, "two\nlines", "bell\a", "taken", B])
def test_a_name_is_short_printable_and_free(home: Home, project: Path, make: Make, name: str) -> None:
    """A name that another session of the project has, or that is another's id, is refused."""
    make(A)
    make(B, name="taken")
    store = SessionStore(home)
    with pytest.raises(SessionNameError) as raised:
        store.rename(store.find(A, project), name)
    assert raised.value.code == "session_name_invalid"
    assert store.find(A, project).name is None
    assert store.rename(store.find(B, project), "taken").name == "taken"
    assert store.rename(store.find(A, project), "x" * 50).name == "x" * 50


def test_a_session_in_another_project_may_have_the_same_name(
    home: Home, project: Path, make: Make, tmp_path: Path
) -> None:
    """Names are unique within a project; each finds its own first."""
    make(A, name="same")
    make(B, where=tmp_path / "other")
    store = SessionStore(home)
    assert store.rename(store.find(B, project), "same").id == B
    assert store.find("same", project).id == A
    assert store.find("same", tmp_path / "other").id == B


def test_a_session_that_is_gone_cannot_be_renamed(home: Home, project: Path, make: Make) -> None:
    """The error names it, and no folder comes back."""
    folder = make(A)
    store = SessionStore(home)
    session = store.find(A, project)
    os.rename(folder, home.path / "elsewhere")
    with pytest.raises(SessionNotFoundError, match=A):
        store.rename(session, "x")
    assert not folder.exists()
