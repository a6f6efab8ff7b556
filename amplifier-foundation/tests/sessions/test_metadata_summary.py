"""What a list shows of a session."""

import json
import os
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sessions.metadata import read_facts, read_summary

ROOT = "0b0c2a52-39a2-4a1d-9b5e-6f4b7c1f2d3e"
CHILD = "0000000000000000-3f2a9d8c7b6a5f4e_zen-architect"

_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text(max_size=20),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3),
    max_leaves=5,
)
_KEYS = ["working_dir", "name", "bundle", "model", "created", "turn_count", "parent_id", "agent_name", "forked_at"]


def _session(place: Path, name: str, metadata: Any = None, *messages: dict[str, Any]) -> Path:
    folder = place / name
    folder.mkdir(parents=True)
    if metadata is not None:
        (folder / "metadata.json").write_text(json.dumps(metadata), encoding="utf-8")
    if messages:
        lines = "".join(f"{json.dumps(message, ensure_ascii=False)}\n" for message in messages)
        (folder / "transcript.jsonl").write_text(lines, encoding="utf-8")
    return folder


def test_a_session_of_the_published_program_is_summed_up(tmp_path: Path) -> None:
    """Every fact of its metadata is shown, with the first prompt."""
    metadata = {
        "session_id": ROOT,
        "created": "2026-01-02T03:04:05.678+00:00",
        "bundle": "bundle:foundation",
        "model": "a-model",
        "turn_count": 2,
        "working_dir": "/home/ada/app",
        "name": "Fix the build",
        "description": "About the build",
        "incremental": True,
    }
    said = {"role": "user", "content": "hello   there\nfriend", "metadata": {"timestamp": "2026-01-02T03:04:05+00:00"}}
    folder = _session(tmp_path, ROOT, metadata, said)
    found = read_summary(folder)
    assert found is not None
    assert (found.id, found.folder, found.project) == (ROOT, folder, "/home/ada/app")
    assert (found.bundle, found.model, found.turn_count) == ("foundation", "a-model", 2)
    assert (found.name, found.description, found.first_prompt) == (
        "Fix the build",
        "About the build",
        "hello there friend",
    )
    assert found.created is not None
    assert found.created.isoformat() == "2026-01-02T03:04:05.678000+00:00"
    assert found.updated.timestamp() == pytest.approx((folder / "metadata.json").stat().st_mtime)
    assert (found.is_child, found.parent_id, found.damaged, found.warning) == (False, None, None, None)


@pytest.mark.parametrize(
    ("name", "metadata", "is_child"),
    [
        (CHILD, {"parent_id": ROOT, "agent_name": "zen-architect"}, True),
        (ROOT, {"parent_id": CHILD, "forked_from_turn": 2, "forked_at": "2026-01-01T00:00:00+00:00"}, False),
        ("my_fork", {"parent_id": ROOT, "forked_at": "2026-01-01T00:00:00+00:00"}, False),
        ("my_session", {"session_id": "my_session"}, False),
        (CHILD, None, True),
        ("my_session", None, False),
    ],
)
def test_children_are_told_from_forks(tmp_path: Path, name: str, metadata: Any, is_child: bool) -> None:
    """A session that another has started is a child; a fork, and a root with a line in its id, are not."""
    facts = read_facts(_session(tmp_path, name, metadata, {"role": "user", "content": "x"}))
    assert facts is not None
    assert facts.is_child is is_child


def test_a_child_without_notes_is_its_parents_by_its_log(tmp_path: Path) -> None:
    """Each line of a child's log has its parent; without a line, nobody is taken for it."""
    folder = _session(tmp_path, CHILD, None)
    for line, parent in ((b"", None), (b'{"torn', None), (b'{"event": "x", "parent_id": "p"}\n', "p")):
        (folder / "events.jsonl").write_bytes(line)
        facts = read_facts(folder)
        assert facts is not None
        assert (facts.is_child, facts.parent_id, facts.agent_name) == (True, parent, CHILD.partition("_")[2])


@pytest.mark.parametrize(
    ("messages", "shown"),
    [
        ([{"role": "user", "content": [{"type": "text", "text": "in blocks"}]}], "in blocks"),
        ([{"role": "user", "content": "<system-reminder>no"}, {"role": "user", "content": "yes"}], "yes"),
        ([{"role": "assistant", "content": "a"}, {"role": "user", "content": "second"}], "second"),
        ([{"role": "user", "tool_call_id": "c", "content": "result"}], None),
        ([{"role": "user", "content": '<context_file paths="@a">\nx\n</context_file>\n\nthe prompt'}], "the prompt"),
        ([{"role": "user", "content": "long " * 1000}], ("long " * 1000)[:200]),
        ([{"role": "user", "content": None}, {"role": "user", "content": 5}], None),
    ],
)
def test_the_first_prompt_is_what_the_user_wrote(
    tmp_path: Path, messages: list[dict[str, Any]], shown: str | None
) -> None:
    """Reminders, results and files that were put before the prompt are not shown."""
    facts = read_facts(_session(tmp_path, ROOT, {}, *messages))
    assert facts is not None
    assert facts.first_prompt == shown


def test_a_damaged_transcript_costs_only_the_prompt(tmp_path: Path) -> None:
    """Garbage before the first prompt is skipped; a pipe in its place is not waited for."""
    folder = _session(tmp_path, ROOT, {"name": "n"})
    (folder / "transcript.jsonl").write_bytes(b'\xff\xfe\n[1]\n{"role": "us\n{"role":"user","content":"found"}\n')
    facts = read_facts(folder)
    assert facts is not None
    assert facts.first_prompt == "found"
    (folder / "transcript.jsonl").unlink()
    os.mkfifo(folder / "transcript.jsonl")
    facts = read_facts(folder)
    assert facts is not None
    assert (facts.first_prompt, facts.name) == (None, "n")


def test_a_damaged_session_says_why(tmp_path: Path) -> None:
    """What cannot be read is a reason that names the file, never a session less."""
    folder = _session(tmp_path, ROOT)
    (folder / "metadata.json").write_bytes(b"{")
    damaged = read_summary(folder)
    assert damaged is not None
    assert "metadata.json:1 is damaged" in (damaged.damaged or "")
    empty = read_summary(_session(tmp_path, "empty"))
    assert empty is not None
    assert "neither metadata nor a transcript nor events" in (empty.damaged or "")
    begun = read_summary(_session(tmp_path, "begun", None, {"role": "user", "content": "hi"}))
    assert begun is not None
    assert (begun.damaged, begun.first_prompt) == (None, "hi")
    assert "no metadata.json" in (begun.warning or "")


def test_what_does_not_exist_has_no_summary(tmp_path: Path) -> None:
    """A folder that was deleted is no damaged session."""
    assert read_summary(tmp_path / "gone") is None


@given(metadata=st.dictionaries(st.sampled_from(_KEYS), _ANYTHING), message=_ANYTHING)
def test_anything_in_the_files_can_be_listed(
    metadata: dict[str, Any], message: Any, tmp_path_factory: pytest.TempPathFactory
) -> None:
    """Files of other programs may hold anything; a summary has the types it says, and text that UTF-8 can carry."""
    folder = _session(tmp_path_factory.mktemp("sessions"), "s", metadata, {"role": "user", "content": message})
    found = read_summary(folder)
    assert found is not None
    texts = (found.name, found.project, found.bundle, found.model, found.parent_id, found.first_prompt)
    assert all(text is None or (isinstance(text, str) and text.encode()) for text in texts)
    assert isinstance(found.turn_count, int)
    assert found.created is None or found.created.tzinfo is not None
