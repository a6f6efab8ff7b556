"""The index of sessions: a cache that is never needed."""

import os
import sqlite3
from collections.abc import Callable
from contextlib import closing
from pathlib import Path

import pytest

from amplifier_foundation.sessions import store as store_module
from amplifier_foundation.sessions.metadata import Facts
from amplifier_foundation.sessions.store import IndexRow, SessionIndex

FACTS = Facts("/p", "ü", None, "b", None, None, 3, None, None, False, "hi", None, None)
ROW = IndexRow("-p", "one", "stamp", FACTS)


def test_rows_come_back(tmp_path: Path) -> None:
    """What was kept is there for another process, by project or for all, until it is said to be gone."""
    SessionIndex(tmp_path / "index.sqlite").save([ROW, ROW._replace(slug="-q", id="two")])
    found = SessionIndex(tmp_path / "index.sqlite")
    assert found.load("-p")["-p"] == {"one": ("-p", "one", "stamp", *FACTS)}
    assert set(found.load()) == {"-p", "-q"}
    found.save([ROW._replace(stamp="newer")], [("-q", "two")])
    assert found.load() == {"-p": {"one": ("-p", "one", "newer", *FACTS)}}
    assert found.problem is None


def test_nothing_is_made_for_nothing(tmp_path: Path) -> None:
    """Reading makes no file, and neither does keeping no rows."""
    index = SessionIndex(tmp_path / "home" / "index.sqlite")
    assert index.load("-p") == {}
    index.save([])
    assert not (tmp_path / "home").exists()


def test_others_cannot_read_it(tmp_path: Path) -> None:
    """It holds names and prompts, so it and what lies beside it are their owner's alone."""
    path = tmp_path / "index.sqlite"
    SessionIndex(path).save([ROW])
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("SELECT * FROM sessions").fetchall()
        modes = {found.name: found.stat().st_mode & 0o777 for found in tmp_path.iterdir()}
    assert set(modes) >= {"index.sqlite", "index.sqlite-wal"}
    assert set(modes.values()) == {0o600}


def _garbage(path: Path) -> None:
    path.write_bytes(b"this is no database, but it is long enough to look like one" * 100)


def _cut(path: Path) -> None:
    path.write_bytes(path.read_bytes()[:5000])


def _overwritten(path: Path) -> None:
    content = bytearray(path.read_bytes())
    content[4096:8192] = os.urandom(4096)
    path.write_bytes(content)


def _other_version(path: Path) -> None:
    with closing(sqlite3.connect(path)) as connection:
        connection.execute("PRAGMA user_version = 99")


@pytest.mark.parametrize("damage", [_garbage, _cut, _overwritten, _other_version])
def test_a_damaged_or_foreign_index_is_made_anew(tmp_path: Path, damage: Callable[[Path], None]) -> None:
    """It is told, holds nothing, and works again at once."""
    path = tmp_path / "index.sqlite"
    SessionIndex(path).save([ROW._replace(id=f"{number}") for number in range(200)])
    damage(path)
    index = SessionIndex(path)
    assert index.load("-p") == {}
    assert index.problem is not None
    index.save([ROW])
    assert index.load("-p")["-p"] == {"one": ("-p", "one", "stamp", *FACTS)}
    assert index.problem is None


def test_an_empty_file_is_made_anew(tmp_path: Path) -> None:
    """A file without content, as a full disk leaves it, is of another form too."""
    path = tmp_path / "index.sqlite"
    path.touch()
    index = SessionIndex(path)
    assert index.load("-p") == {}
    index.save([ROW])
    assert set(index.load("-p")["-p"]) == {"one"}


@pytest.mark.parametrize("name", ["index.sqlite", "index.sqlite.lock"])
def test_an_index_that_cannot_be_made_is_done_without(tmp_path: Path, name: str) -> None:
    """A folder in its place, or in that of its lock, is said and is no error."""
    (tmp_path / name).mkdir()
    index = SessionIndex(tmp_path / "index.sqlite")
    index.save([ROW])
    assert str(tmp_path / "index.sqlite") in (index.problem or "")
    assert index.load("-p") == {}


def test_an_index_below_a_file_is_done_without(tmp_path: Path) -> None:
    """A home that is no folder is no error here."""
    (tmp_path / "home").touch()
    index = SessionIndex(tmp_path / "home" / "index.sqlite")
    index.save([ROW])
    assert index.problem is not None
    assert index.load("-p") == {}


def test_a_locked_index_is_read_and_not_written(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """While another process writes, rows are read as they were, and new ones are not waited for longer than agreed."""
    monkeypatch.setattr(store_module, "_PATIENCE", 0.05)
    path = tmp_path / "index.sqlite"
    SessionIndex(path).save([ROW])
    with closing(sqlite3.connect(path, isolation_level=None)) as other:
        other.execute("BEGIN IMMEDIATE")
        index = SessionIndex(path)
        assert set(index.load("-p")["-p"]) == {"one"}
        index.save([ROW._replace(id="two")])
        assert "locked" in (index.problem or "")
        other.execute("ROLLBACK")
    assert set(index.load("-p")["-p"]) == {"one"}
    index.save([ROW._replace(id="two")])
    assert set(index.load("-p")["-p"]) == {"one", "two"}


def test_odd_paths_are_paths(tmp_path: Path) -> None:
    """Spaces, percent signs, question marks and unicode in a path mean themselves."""
    folder = tmp_path / "a b%20?c#d ü"
    folder.mkdir()
    index = SessionIndex(folder / "index.sqlite")
    index.save([ROW])
    assert index.problem is None
    assert (folder / "index.sqlite").exists()
    assert set(index.load("-p")["-p"]) == {"one"}


def test_text_that_utf8_cannot_carry_is_no_error(tmp_path: Path) -> None:
    """A row that cannot be kept is said, and the others are kept the next time."""
    index = SessionIndex(tmp_path / "index.sqlite")
    index.save([ROW._replace(id="\udcff")])
    assert index.problem is not None
    index.save([ROW])
    assert set(index.load("-p")["-p"]) == {"one"}
