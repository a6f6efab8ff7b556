"""What is known about a session."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.metadata import (
    SessionGoneError,
    load_metadata,
    update_metadata,
)

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**60), 2**60) | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=10,
)


def _as_is(value: Any) -> Any:
    return value


def _write(folder: Path, content: bytes | dict[str, Any], name: str = "metadata.json") -> None:
    folder.mkdir(exist_ok=True)
    data = content if isinstance(content, bytes) else json.dumps(content).encode()
    (folder / name).write_bytes(data)


def test_changes_are_merged_and_unknown_keys_kept(tmp_path: Path) -> None:
    """What a writer does not name is not touched, whoever wrote it."""
    _write(tmp_path, {"session_id": "s", "of_another_program": {"deep": [1, None]}, "name": "n"})
    written = update_metadata(tmp_path, {"turn_count": 2, "name": None}, scrub=_as_is)
    assert written == {"session_id": "s", "of_another_program": {"deep": [1, None]}, "turn_count": 2}
    assert load_metadata(tmp_path).data == written
    assert (tmp_path / "metadata.json").stat().st_mode & 0o777 == 0o600


@given(first=st.dictionaries(st.text(max_size=5), _JSON), second=st.dictionaries(st.text(max_size=5), _JSON))
def test_merging_is_that_of_mappings(
    first: dict[str, Any], second: dict[str, Any], tmp_path_factory: pytest.TempPathFactory
) -> None:
    """The later value of a key wins, None removes it, and everything comes back as it was written."""
    folder = tmp_path_factory.mktemp("session")
    update_metadata(folder, first, scrub=_as_is)
    update_metadata(folder, second, scrub=_as_is)
    assert load_metadata(folder).data == {key: value for key, value in {**first, **second}.items() if value is not None}


def test_the_file_before_is_the_backup(tmp_path: Path) -> None:
    """The backup holds what the file held before the last change."""
    for turn in range(3):
        update_metadata(tmp_path, {"turn_count": turn}, scrub=_as_is)
    assert json.loads((tmp_path / "metadata.json.backup").read_bytes()) == {"turn_count": 1}
    assert {path.name for path in tmp_path.iterdir()} == {"metadata.json", "metadata.json.backup", "metadata.lock"}


@pytest.mark.parametrize(
    ("content", "reason"),
    [
        (b"", ":1 is damaged: the file is empty"),
        (b'{"name": "x"\n,\n', ":3 is damaged"),
        (b"[1]", "not a JSON object"),
        (b"\xff\xfe{", "is damaged"),
        (b"[" * 100_000, "is damaged"),
    ],
)
def test_a_damaged_file_is_replaced_by_its_backup(tmp_path: Path, content: bytes, reason: str) -> None:
    """The backup is used and that is said; without one the reason is all there is."""
    _write(tmp_path, content)
    alone = load_metadata(tmp_path)
    assert (alone.data, alone.warning) == ({}, None)
    assert alone.damaged is not None
    assert f"metadata.json{reason}" in alone.damaged or reason in alone.damaged
    _write(tmp_path, {"name": "kept"}, "metadata.json.backup")
    found = load_metadata(tmp_path)
    assert (found.data, found.damaged) == ({"name": "kept"}, None)
    assert found.warning is not None
    assert found.warning.endswith("its backup is used")


def test_a_change_mends_a_damaged_file_and_keeps_it_aside(tmp_path: Path) -> None:
    """The good backup is the base of the change and is not replaced by the damaged file."""
    _write(tmp_path, b'{"name": "to')
    _write(tmp_path, {"name": "old", "session_id": "s"}, "metadata.json.backup")
    assert update_metadata(tmp_path, {"name": "new"}, scrub=_as_is) == {"name": "new", "session_id": "s"}
    assert (tmp_path / "metadata.json.damaged").read_bytes() == b'{"name": "to'
    assert json.loads((tmp_path / "metadata.json.backup").read_bytes())["name"] == "old"


def test_a_missing_file_with_a_backup_is_said(tmp_path: Path) -> None:
    """A crash of another program between two renames leaves the backup alone, and it is used."""
    _write(tmp_path, {"name": "kept"}, "metadata.json.backup")
    found = load_metadata(tmp_path)
    assert found.data == {"name": "kept"}
    assert found.warning is not None
    assert "is missing" in found.warning


def test_bom_and_crlf_are_read(tmp_path: Path) -> None:
    """Editors of other systems leave a mark and other line ends."""
    _write(tmp_path, b'\xef\xbb\xbf{\r\n "name": "\xc3\xbc"\r\n}\r\n')
    assert load_metadata(tmp_path).data == {"name": "ü"}


def test_what_is_no_file_is_not_waited_for(tmp_path: Path) -> None:
    """A pipe, or a folder, in place of the file is damage, not a hang or a crash."""
    os.mkfifo(tmp_path / "metadata.json")
    (tmp_path / "metadata.json.backup").mkdir()
    assert "not a regular file" in (load_metadata(tmp_path).damaged or "")


def test_secrets_never_reach_metadata(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Keys are masked by name, by shape and by live value, in what is written now and in what was written before."""
    monkeypatch.setenv("SOME_API_KEY", "live-value-of-a-credential-1234")
    config = {"providers": [{"config": {"api_key": "sk-ant-api03-abcdefghijklmnopqrstuvwxyz"}}]}
    _write(tmp_path, {"config": config, "working_dir": "/home/ada@example.com/app"})
    update_metadata(tmp_path, {"description": "uses live-value-of-a-credential-1234", "turn_count": 1})
    text = (tmp_path / "metadata.json").read_text(encoding="utf-8")
    assert "abcdefghijklmnop" not in text
    assert "live-value-of-a-credential" not in text
    assert json.loads(text)["working_dir"] == "/home/ada@example.com/app"


def test_ids_and_times_survive_masking(tmp_path: Path) -> None:
    """What sessions are found and joined by is written as it is."""
    facts = {
        "session_id": "0b0c2a52-39a2-4a1d-9b5e-6f4b7c1f2d3e",
        "parent_id": "0000000000000000-3f2a9d8c7b6a5f4e_zen-architect",
        "trace_id": "3f2a9d8c7b6a5f4e3f2a9d8c7b6a5f4e",
        "created": "2026-01-01T10:00:00.000+00:00",
        "turn_count": 3,
        "bundle": "bundle:default",
        "model": "claude-sonnet-4-5-20250929",
    }
    assert update_metadata(tmp_path, facts) == facts


def test_a_deleted_session_does_not_come_back(tmp_path: Path) -> None:
    """Who changes a session that is gone is told so, and makes no folder."""
    folder = tmp_path / "gone"
    with pytest.raises(SessionGoneError, match="no session gone") as raised:
        update_metadata(folder, {"name": "x"})
    assert raised.value.code == "session_gone"
    assert not folder.exists()


def test_a_session_that_is_deleted_meanwhile_stays_deleted(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A folder that goes between the look for it and the lock is not made again."""
    is_dir, looked = Path.is_dir, iter([True])
    monkeypatch.setattr(Path, "is_dir", lambda path: next(looked, False) or is_dir(path))
    with pytest.raises(SessionGoneError):
        update_metadata(tmp_path / "gone", {"name": "a"}, scrub=dict)
    monkeypatch.undo()
    assert list(tmp_path.iterdir()) == []


def test_a_file_that_cannot_be_written_stays(tmp_path: Path) -> None:
    """A change that fails raises and leaves nothing half-done."""
    folder = tmp_path / "session"
    folder.mkdir()
    (folder / "metadata.json").mkdir()  # in place of a folder without permission, which root does not notice
    (folder / "metadata.json" / "inside").touch()
    (folder / "metadata.json.damaged").mkdir()
    (folder / "metadata.json.damaged" / "inside").touch()
    with pytest.raises(OSError, match="not empty"):
        update_metadata(folder, {"name": "x"}, scrub=_as_is)
    assert (folder / "metadata.json" / "inside").exists()
    assert not list(folder.glob("*.tmp"))


def test_a_change_that_is_no_activity_keeps_the_time(tmp_path: Path) -> None:
    """A rename does not make an old session the newest one."""
    _write(tmp_path, {"name": "old"})
    os.utime(tmp_path / "metadata.json", (1_000_000, 1_000_000))
    update_metadata(tmp_path, {"name": "new"}, scrub=_as_is, is_activity=False)
    assert (tmp_path / "metadata.json").stat().st_mtime == 1_000_000
    update_metadata(tmp_path, {"turn_count": 1}, scrub=_as_is)
    assert (tmp_path / "metadata.json").stat().st_mtime > 1_000_000
