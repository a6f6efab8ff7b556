"""Sessions that are given away."""

import json
import os
import tarfile
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.sessions import export as export_module
from amplifier_foundation.sessions.export import ExportError, ExportFormat, export
from amplifier_foundation.sessions.metadata import SessionSummary
from amplifier_foundation.sessions.store import SessionStore

ID = "0b0c2a52-39a2-4a1d-9b5e-6f4b7c1f2d3e"
SECRET = "sk-ant-api03-abcdefghijklmnopqrstuvwxyz0123456789"

#: As the published program writes them.
MESSAGES: list[dict[str, Any]] = [
    {"role": "user", "content": f"hello, my key is {SECRET}", "metadata": {"timestamp": "2026-01-01T10:00:00+00:00"}},
    {
        "role": "assistant",
        "content": [{"type": "text", "text": "Let me look at **it**."}],
        "thinking_text": "hm",
        "tool_calls": [{"id": "c1", "tool": "read_file", "arguments": {"path": "ü.md"}}],
    },
    {"role": "tool", "tool_call_id": "c1", "name": "read_file", "content": "before\n````\nafter"},
    {"role": "assistant", "content": [{"type": "text", "text": "Done."}]},
]


@pytest.fixture
def session(tmp_path: Path) -> SessionSummary:
    """Give a session of the published program, with a damaged line in its transcript."""
    store = SessionStore(Home(tmp_path / "home"))
    folder = store.folder(tmp_path, ID)
    folder.mkdir(parents=True)
    metadata = {"session_id": ID, "bundle": "bundle:b", "working_dir": str(tmp_path), "name": "The ü session"}
    (folder / "metadata.json").write_text(json.dumps({**metadata, "config": {"api_key": SECRET}}), encoding="utf-8")
    lines = [json.dumps(message, ensure_ascii=False) for message in MESSAGES]
    (folder / "transcript.jsonl").write_text("\n".join([*lines, "garbage", ""]), encoding="utf-8")
    (folder / "events.jsonl").write_text('{"event":"session:start"}\n', encoding="utf-8")
    return store.find(ID, tmp_path)


def test_json_has_metadata_and_messages(session: SessionSummary, tmp_path: Path) -> None:
    """All of it is there, secrets are not, and what could not be read is said."""
    done = export(session, tmp_path / "out.json")
    text = done.path.read_text(encoding="utf-8")
    document = json.loads(text)
    assert document["session_id"] == ID
    assert document["metadata"]["name"] == "The ü session"
    assert [message["role"] for message in document["messages"]] == ["user", "assistant", "tool", "assistant"]
    assert document["messages"][1]["tool_calls"] == MESSAGES[1]["tool_calls"]
    assert SECRET not in text
    assert len(done.warnings) == 1
    assert "transcript.jsonl:5" in done.warnings[0]
    assert done.bytes == len(done.path.read_bytes())
    assert done.path.stat().st_mode & 0o777 == 0o600


def test_jsonl_has_the_messages_alone(session: SessionSummary, tmp_path: Path) -> None:
    """Each message is one line."""
    done = export(session, tmp_path / "out.jsonl", scrub=lambda value: value)
    assert [json.loads(line) for line in done.path.read_text(encoding="utf-8").splitlines()] == MESSAGES


def test_markdown_is_for_reading(session: SessionSummary, tmp_path: Path) -> None:
    """The document has a title, facts, and a section for every message; no result can end its own block."""
    text = export(session, tmp_path / "out.md").path.read_text(encoding="utf-8")
    assert text.startswith("# The ü session\n")
    assert f"- Session: `{ID}`" in text
    assert "## User (2026-01-01T10:00:00+00:00)\n" in text
    assert "Let me look at **it**." in text
    assert '*Calls `read_file`:*\n\n```json\n{\n  "path": "ü.md"\n}\n```' in text
    assert "## Result of read_file\n\n`````\nbefore\n````\nafter\n`````\n" in text
    assert "*Thinking:*" in text
    assert SECRET not in text


@pytest.mark.parametrize(
    ("result", "shown"),
    [
        ('{"stdout": "one\\ntwo\\n", "stderr": "", "returncode": 1}', "stdout:\none\ntwo\nreturncode: 1"),
        ('{"file_path": "a.py", "changed": true, "lines": [1, 2]}', "file_path: a.py\nchanged: true\nlines: [1, 2]"),
        ("{}", "{}"),
        ("[1]", "[1]"),
        ("just text", "just text"),
    ],
)
def test_results_in_markdown_have_lines(session: SessionSummary, tmp_path: Path, result: str, shown: str) -> None:
    """A result that is a JSON object is shown value by value, its texts as they are; anything else as it is."""
    message = {"role": "tool", "tool_call_id": "c1", "name": "bash", "content": result}
    with open(session.folder / "transcript.jsonl", "a", encoding="utf-8") as file:
        file.write(f"{json.dumps(message)}\n")
    text = export(session, tmp_path / "out.md").path.read_text(encoding="utf-8")
    assert f"## Result of bash\n\n```\n{shown}\n```\n" in text


def test_an_archive_is_the_folder(session: SessionSummary, tmp_path: Path) -> None:
    """It holds every file byte by byte, shared blobs as copies, and neither locks nor half-written files."""
    blobs = session.place / "root" / "blobs" / "ab"
    blobs.mkdir(parents=True)
    (blobs / "abcd").write_bytes(b"large")
    (session.folder / "blobs").symlink_to("../root/blobs")
    (session.folder / "events.lock").touch()
    (session.folder / "metadata.json.1.tmp").touch()
    (session.folder / "pointer").symlink_to("/etc/passwd")
    done = export(session, tmp_path, "tar.gz")
    assert done.path == tmp_path / f"{ID}.tar.gz"
    with tarfile.open(done.path) as archive:
        names = set(archive.getnames())
        archive.extractall(tmp_path / "out", filter="data")
    files = ("metadata.json", "transcript.jsonl", "events.jsonl", "blobs/ab/abcd")
    assert names == {f"{ID}/{name}" for name in files}
    for name in files:
        assert (tmp_path / "out" / ID / name).read_bytes() == (session.folder / name).read_bytes()
    assert len(done.warnings) == 1
    assert "pointer is left out" in done.warnings[0]


@pytest.mark.parametrize("format", ["md", "json", "jsonl", "tar.gz"])
def test_nothing_is_overwritten_unless_told(session: SessionSummary, tmp_path: Path, format: ExportFormat) -> None:
    """A file that exists is kept, also when it comes while the export runs."""
    target = tmp_path / "out"
    target.write_text("mine", encoding="utf-8")
    with pytest.raises(ExportError, match="exists already") as raised:
        export(session, target, format)
    assert raised.value.code == "export_failed"
    assert target.read_text(encoding="utf-8") == "mine"
    assert export(session, target, format, overwrite=True).bytes > 4
    assert target.read_bytes() != b"mine"


@pytest.mark.parametrize("has_links", [True, False])
def test_a_file_that_comes_meanwhile_is_kept(
    session: SessionSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, has_links: bool
) -> None:
    """The name is taken or free at the very moment it is given, on file systems without links too."""
    target = tmp_path / "out.md"
    rendered = export_module._rendered

    def late(*arguments: Any) -> Any:
        target.write_text("mine", encoding="utf-8")
        return rendered(*arguments)

    def no_links(source: Any, path: Any) -> None:
        raise PermissionError(1, "Operation not permitted")

    if not has_links:
        monkeypatch.setattr(os, "link", no_links)
        export(session, tmp_path / "first.md")
        assert (tmp_path / "first.md").stat().st_size > 0
    monkeypatch.setattr(export_module, "_rendered", late)
    with pytest.raises(ExportError, match="exists already"):
        export(session, target)
    assert target.read_text(encoding="utf-8") == "mine"
    assert not list(tmp_path.glob(".*.tmp"))


def test_an_export_that_fails_leaves_nothing(
    session: SessionSummary, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A folder that does not exist, or a disk that is full, is an error and no file."""
    with pytest.raises(ExportError, match="No such file or directory"):
        export(session, tmp_path / "nowhere" / "out.md")

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(export_module, "_write_archive", full)
    before = set(tmp_path.iterdir())
    with pytest.raises(ExportError, match="No space left"):
        export(session, tmp_path / "out.tar.gz")
    assert set(tmp_path.iterdir()) == before


def test_formats_are_named(session: SessionSummary, tmp_path: Path) -> None:
    """An unknown format is an error with a suggestion, and so is an ending that tells none."""
    with pytest.raises(ExportError, match="did you mean 'jsonl'"):
        export(session, tmp_path / "x", "jsonll")  # type: ignore[arg-type]
    with pytest.raises(ExportError, match="unknown format"):
        export(session, tmp_path / "x.pdf")
    with pytest.raises(ExportError, match="unknown format"):
        export(session, tmp_path)


def test_a_damaged_session_can_be_exported(session: SessionSummary, tmp_path: Path) -> None:
    """Without metadata the conversation is exported, and the damage said."""
    (session.folder / "metadata.json").write_bytes(b"{")
    damaged = SessionStore(Home(tmp_path / "home")).find(ID, tmp_path)
    done = export(damaged, tmp_path / "out.json")
    assert len(json.loads(done.path.read_bytes())["messages"]) == 4
    assert any("metadata.json:1 is damaged" in text for text in done.warnings)
