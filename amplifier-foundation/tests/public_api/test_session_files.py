"""The files of saved sessions: transcripts, metadata, JSON lines."""

from __future__ import annotations

import importlib
import json
import logging
import stat
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import amplifier_foundation.session
from amplifier_foundation.session import (
    EVENTS_FILENAME,
    METADATA_FILENAME,
    TRANSCRIPT_FILENAME,
    backup,
    load_metadata,
    load_transcript,
    load_transcript_with_lines,
    read_jsonl,
    session_info,
    write_jsonl,
    write_metadata,
    write_transcript,
)

SECRET = "sk-ant-api03-" + "q7Zx" * 20
USER: dict[str, Any] = {"role": "user", "content": "Grüße, fix it."}
ANSWER: dict[str, Any] = {"role": "assistant", "content": [{"type": "text", "text": "Done."}]}

_JSON: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


def _mode(path: Path) -> int:
    return stat.S_IMODE(path.stat().st_mode)


def test_every_name_can_be_imported() -> None:
    """`import *` gives every public name, each from the module it is listed under; others are missing."""
    names: dict[str, object] = {}
    exec("from amplifier_foundation.session import *", names)
    for name, home in amplifier_foundation.session._HOMES.items():
        module = importlib.import_module(f"amplifier_foundation.session.{home}")
        assert names[name] is getattr(module, name)
        assert name in module.__all__
        assert name in dir(amplifier_foundation.session)
    with pytest.raises(AttributeError, match="no attribute 'no_such_name'"):
        _ = amplifier_foundation.session.no_such_name


def test_the_names_of_files() -> None:
    """They are those that programs of other authors look for."""
    assert (EVENTS_FILENAME, METADATA_FILENAME, TRANSCRIPT_FILENAME) == (
        "events.jsonl",
        "metadata.json",
        "transcript.jsonl",
    )


@pytest.mark.parametrize("spelled", [Path, str])
def test_a_transcript_comes_back(tmp_path: Path, spelled: Any) -> None:
    """Messages are read as they were written, without those of the system; the file before is kept."""
    folder = tmp_path / "project" / "session"
    write_transcript(spelled(folder), [{"role": "system", "content": "Be brief."}, USER, ANSWER])
    assert load_transcript(spelled(folder)) == [USER, ANSWER]
    write_transcript(spelled(folder), [{**USER, "line_num": 7, "name": None}])
    assert load_transcript(spelled(folder / "transcript.jsonl")) == [USER]
    assert read_jsonl(folder / "transcript.jsonl.backup") == [USER, ANSWER]
    assert "Grüße" in (folder / "transcript.jsonl").read_text(encoding="utf-8")


def test_secrets_are_masked_and_files_are_private(tmp_path: Path) -> None:
    """No writer puts a key on the disk, in a file that others may read, or leaves a temporary file."""
    write_transcript(tmp_path / "s", [{"role": "user", "content": f"use {SECRET}"}])
    write_metadata(tmp_path / "s", {"session_id": "s", "config": {"api_key": SECRET}})
    write_jsonl(tmp_path / "s" / "notes.jsonl", [{"note": f"the key is {SECRET}"}])
    (tmp_path / "s" / "old.jsonl").write_text(json.dumps({"key": SECRET}), encoding="utf-8")
    copy = backup(tmp_path / "s" / "old.jsonl")
    (tmp_path / "s" / "old.jsonl").unlink()
    written = [path for path in (tmp_path / "s").iterdir() if path.suffix != ".lock"]
    assert sorted(path.name for path in written) == [
        "metadata.json",
        "notes.jsonl",
        "old.jsonl.backup",
        "transcript.jsonl",
    ]
    for path in written:
        assert SECRET not in path.read_text(encoding="utf-8")
        assert _mode(path) == 0o600
    assert copy in written
    assert _mode(tmp_path / "s") == 0o700


def test_messages_of_older_programs_are_returned_as_they_are(tmp_path: Path) -> None:
    """Their spelling of calls and times is that of the file."""
    old = {"role": "assistant", "timestamp": "2026-01-01", "tool_calls": [{"id": "a", "name": "grep", "input": {}}]}
    write_jsonl(tmp_path / "transcript.jsonl", [old])
    assert load_transcript(tmp_path) == [old]
    assert load_transcript_with_lines(tmp_path) == [{**old, "line_num": 1}]


def test_a_damaged_transcript_is_reported(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """A line without a message is left out with a warning; without any message the backup is used."""
    assert load_transcript(tmp_path) == []
    (tmp_path / "transcript.jsonl").write_text(f'{json.dumps(USER)}\n{{"role": "ass', encoding="utf-8")
    assert load_transcript(tmp_path) == [USER]
    assert "transcript.jsonl:2 is torn" in caplog.text
    write_jsonl(tmp_path / "transcript.jsonl.backup", [ANSWER])
    (tmp_path / "transcript.jsonl").write_text("\x00\x00", encoding="utf-8")
    assert load_transcript(tmp_path) == [ANSWER]
    with pytest.raises(FileNotFoundError, match="no session in"):
        load_transcript(tmp_path / "gone")


def test_a_transcript_without_any_message_is_an_error(tmp_path: Path) -> None:
    """A file of which nothing can be read is not taken for a conversation that has not begun."""
    (tmp_path / "transcript.jsonl").write_text("\x00\x00\n{", encoding="utf-8")
    with pytest.raises(ValueError, match=r"transcript\.jsonl:1 is malformed.*transcript\.jsonl:2 is torn"):
        load_transcript(tmp_path)
    info = session_info(tmp_path)
    assert (info["status"], info["failure_modes"], info["message_count"]) == ("broken", ["unreadable"], 0)
    (tmp_path / "transcript.jsonl").write_text("", encoding="utf-8")
    assert load_transcript(tmp_path) == []


def test_metadata_are_replaced_as_a_whole(tmp_path: Path) -> None:
    """Keys that are not given are gone, the file before is kept, and ids and folders are never masked."""
    assert load_metadata(tmp_path) == {}
    write_metadata(tmp_path, {"session_id": SECRET, "name": "discount", "working_dir": "/srv/shop"})
    write_metadata(str(tmp_path), {"session_id": SECRET, "turn_count": 2, "bundle": None})
    assert load_metadata(str(tmp_path)) == {"session_id": SECRET, "turn_count": 2}
    assert json.loads((tmp_path / "metadata.json.backup").read_bytes())["name"] == "discount"


def test_damaged_metadata_are_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The backup takes their place with a warning; without one they are not taken for empty."""
    (tmp_path / "metadata.json").write_text('{"session_id": "s', encoding="utf-8")
    with pytest.raises(ValueError, match=r"metadata\.json:1 is damaged"):
        load_metadata(tmp_path)
    (tmp_path / "metadata.json.backup").write_text('{"session_id": "s"}', encoding="utf-8")
    assert load_metadata(tmp_path) == {"session_id": "s"}
    assert "its backup is used" in caplog.text
    with pytest.raises(FileNotFoundError):
        load_metadata(tmp_path / "gone")


def test_a_backup_is_beside_its_file(tmp_path: Path) -> None:
    """It has the name of the file with a suffix; that of a session is its transcript's."""
    write_transcript(tmp_path, [USER])
    assert backup(tmp_path) == tmp_path / "transcript.jsonl.backup"
    copy = backup(str(tmp_path / "transcript.jsonl"), suffix=".before-repair")
    assert copy.name == "transcript.jsonl.before-repair"
    assert copy.read_bytes() == (tmp_path / "transcript.jsonl").read_bytes()
    with pytest.raises(ValueError, match="give a suffix"):
        backup(copy, suffix="")
    with pytest.raises(FileNotFoundError):
        backup(tmp_path / "gone.jsonl")


@given(st.lists(st.dictionaries(st.text(max_size=3), _JSON, max_size=3), max_size=4))
def test_objects_come_back(tmp_path_factory: pytest.TempPathFactory, records: list[dict[str, Any]]) -> None:
    """What is written as lines of JSON is read as it was."""
    path = tmp_path_factory.mktemp("lines") / "new" / "records.jsonl"
    write_jsonl(path, records)
    assert read_jsonl(path) == records


def test_lines_without_an_object_are_an_error(tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    """The error has file and line; only a line that a crash cut off is left out, with a warning."""
    path = tmp_path / "records.jsonl"
    path.write_text('{"a": 1}\n\n{"b": 2}\n{"c": ', encoding="utf-8")
    with caplog.at_level(logging.WARNING):
        assert read_jsonl(path) == [{"a": 1}, {"b": 2}]
    assert "records.jsonl:4 is not JSON" in caplog.text
    path.write_text('{"a": 1}\n[2]\n', encoding="utf-8")
    with pytest.raises(ValueError, match=r"records\.jsonl:2 is not a JSON object, but a list"):
        read_jsonl(str(path))


def test_what_json_cannot_hold_changes_nothing(tmp_path: Path) -> None:
    """A record that cannot be written leaves the file as it was."""
    path = tmp_path / "records.jsonl"
    write_jsonl(path, [{"a": 1}])
    with pytest.raises(TypeError):
        write_jsonl(path, [{"a": 2}, {"b": object()}])
    with pytest.raises(ValueError, match="not JSON compliant"):
        write_jsonl(path, [{"a": float("nan")}])
    assert read_jsonl(path) == [{"a": 1}]
    assert list(tmp_path.iterdir()) == [path]
