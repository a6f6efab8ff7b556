"""Saved sessions are found by id, name and path, and described."""

from __future__ import annotations

import json
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.paths import Home
from amplifier_foundation.session import (
    find_sessions,
    resolve_session,
    session_info,
    write_jsonl,
    write_metadata,
)
from amplifier_foundation.sessions.store import AmbiguousSessionError, SessionNotFoundError

USER: dict[str, Any] = {"role": "user", "content": "Find the slow query."}
ANSWER: dict[str, Any] = {"role": "assistant", "content": "It is the join."}
CALL: dict[str, Any] = {
    "role": "assistant",
    "content": "",
    "tool_calls": [{"id": "a", "tool": "bash", "arguments": {}}],
}


@pytest.fixture
def add(home: Home) -> Callable[..., Path]:
    """Return a function that adds a session to the home, active on a day of January 2026."""

    def add(session_id: str, project: str = "/srv/shop", day: int = 1, *, broken: bool = False, **facts: str) -> Path:
        folder = home.sessions(Path(project)) / session_id
        write_metadata(folder, {"session_id": session_id, "working_dir": project, "turn_count": 1, **facts})
        write_jsonl(folder / "transcript.jsonl", [USER, CALL if broken else ANSWER])
        moment = 1767225600 + (day - 1) * 86_400 + 43_200
        os.utime(folder / "metadata.json", (moment, moment))
        return folder

    return add


def _ids(found: list[dict[str, object]]) -> list[object]:
    return [session["session_id"] for session in found]


def test_sessions_are_listed_with_filters(home: Home, add: Callable[..., Path]) -> None:
    """Words, days, the state of the conversation, the project and a limit select from all that there are."""
    add("one", day=1, name="slow checkout")
    add("two", day=2, broken=True)
    add("three", project="/srv/blog", day=3)
    add("0" * 16 + "-" + "1" * 16 + "_helper", day=4, parent_id="one")
    assert _ids(find_sessions(home=home.path)) == ["three", "two", "one"]
    assert _ids(find_sessions(home=str(home.path), project="/srv/shop")) == ["two", "one"]
    assert _ids(find_sessions("CHECKOUT slow", home=home.path)) == ["one"]
    assert _ids(find_sessions("query", home=home.path, limit=1)) == ["three"]
    assert _ids(find_sessions(home=home.path, status="broken")) == ["two"]
    assert _ids(find_sessions(home=home.path, status="healthy", limit=1)) == ["three"]
    assert _ids(find_sessions(home=home.path, since="2026-01-02", until="2026-01-03")) == ["two"]
    assert len(find_sessions(home=home.path, include_children=True)) == 4
    with pytest.raises(ValueError, match="invalid status 'odd'"):
        find_sessions(home=home.path, status="odd")  # type: ignore[arg-type]


def test_a_session_is_found_by_id_name_and_path(home: Home, add: Callable[..., Path]) -> None:
    """The beginning of an id is enough if it is unique; an error names the candidates."""
    first = add("7f3a-1", name="discount")
    add("7f3b-2")
    for text in ("7f3a-1", "7f3a", "discount", str(first), first, first / "transcript.jsonl"):
        assert resolve_session(text, home=home.path, project="/srv/shop") == first
    with pytest.raises(AmbiguousSessionError, match="7f3b-2") as raised:
        resolve_session("7f3", home=home.path)
    assert len(raised.value.candidates) == 2
    with pytest.raises(SessionNotFoundError, match="no session matches 'gone'"):
        resolve_session("gone", home=home.path)


def test_the_home_is_that_of_the_user(home: Home, add: Callable[..., Path], monkeypatch: pytest.MonkeyPatch) -> None:
    """Without another one, sessions are those of the user."""
    folder = add("one")
    monkeypatch.setenv("AMPLIFIER_HOME", str(home.path))
    assert resolve_session("one") == folder
    assert _ids(find_sessions()) == ["one"]


def test_a_session_is_described(home: Home, add: Callable[..., Path]) -> None:
    """It has the facts of lists, the counts of its files, and the state of its conversation."""
    folder = add("one", day=2, name="slow checkout", broken=True, model="mock/small", bundle="bundle:team")
    info = session_info(str(folder))
    [listed] = find_sessions(home=home.path)
    assert listed.items() <= info.items()
    assert (info["session_dir"], info["project"], info["bundle"]) == (folder, "/srv/shop", "team")
    assert info["first_prompt"] == "Find the slow query."
    assert (info["message_count"], info["event_count"], info["turn_count"]) == (2, 0, 1)
    assert (info["status"], info["failure_modes"][0]) == ("broken", "missing_tool_results")
    assert info["problems"] == []
    assert info["updated"].startswith("2026-01-02T12:00")
    with pytest.raises(FileNotFoundError):
        session_info(folder.parent / "gone")


def test_a_damaged_session_is_described_too(add: Callable[..., Path]) -> None:
    """What cannot be read is among its problems."""
    folder = add("one")
    (folder / "metadata.json").write_text("{", encoding="utf-8")
    (folder / "transcript.jsonl").write_text(json.dumps(USER) + "\n{", encoding="utf-8")
    info = session_info(folder)
    assert [problem.split(" ")[0].rpartition("/")[2] for problem in info["problems"]] == [
        "metadata.json:1",
        "transcript.jsonl:2",
    ]
    assert info["message_count"] == 1
