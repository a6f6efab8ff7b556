"""How a child ended: by its own word, by its parent's, and by neither."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_app_cli.children.endings import CLOSED, Ending, combine_endings, own_ending, reported_ending

_WORDS = {"completed", "incomplete", "failed", "cancelled", "timed out", "crashed"}


@pytest.mark.parametrize(
    ("status", "word"),
    [
        ("completed", "completed"),
        ("failed", "failed"),
        ("cancelled", "cancelled"),
        (None, "completed"),
        ("odd", "failed"),
    ],
)
def test_own_word(status: str | None, word: str) -> None:
    """A session's last event says how it ended; a status that nobody knows is no good one."""
    assert own_ending({"status": status} if status else {}).word == word


@pytest.mark.parametrize(
    ("event", "data", "ending"),
    [
        ("delegate:agent_completed", {"success": True, "status": "success"}, ("completed", "")),
        ("delegate:agent_completed", {}, ("completed", "")),
        ("delegate:agent_completed", {"success": False, "status": "incomplete"}, ("incomplete", "")),
        ("delegate:agent_cancelled", {"success": False, "status": "cancelled"}, ("cancelled", "")),
        ("delegate:error", {"status": "timeout", "error": {"type": "timeout", "msg": "late"}}, ("timed out", "late")),
        ("delegate:error", {"error": {"type": "TimeoutError", "message": "late"}}, ("timed out", "late")),
        ("delegate:error", {"status": "error", "error": {"type": "child_failed", "msg": "no"}}, ("failed", "no")),
        ("delegate:error", {"error": "no such agent"}, ("failed", "no such agent")),
        ("task:agent_completed", {"success": False, "status": "cancelled"}, ("cancelled", "")),
        ("task:agent_completed", {"success": False, "status": "error", "error": {"msg": "no"}}, ("failed", "no")),
        ("task:agent_completed", {"success": False, "status": "timeout"}, ("timed out", "")),
    ],
)
def test_parents_word(event: str, data: dict[str, Any], ending: tuple[str, str]) -> None:
    """The tool that started a child tells how it ended, and why."""
    assert reported_ending(event, data) == ending


def test_a_log_without_an_end_is_a_crash() -> None:
    """One that began and said no last word has crashed, with the reason its parent gave, who may know better."""
    told = Ending("failed", "its process is gone")
    assert combine_endings(None, None, is_begun=True) == ("crashed", "")
    assert combine_endings(None, told, is_begun=True) == ("crashed", "its process is gone")
    for better in (Ending("timed out", "late"), Ending("cancelled"), Ending("completed")):
        assert combine_endings(None, better, is_begun=True) == better
    assert combine_endings(None, told, is_begun=True, is_running=True).word == "running"
    assert combine_endings(None, told, is_begun=False) == told


def test_the_parent_knows_more() -> None:
    """What the parent tells counts more than the child's own word: only the parent knows of a deadline."""
    assert combine_endings(Ending("cancelled"), Ending("timed out", "late"), is_begun=True) == ("timed out", "late")
    assert combine_endings(Ending("failed", "why"), Ending("failed"), is_begun=True) == ("failed", "why")
    assert combine_endings(Ending("completed"), None, is_begun=True) == ("completed", "")


_ANYTHING = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=8),
    lambda inner: st.dictionaries(st.sampled_from(["type", "msg", "code", "x"]), inner, max_size=3) | st.lists(inner),
    max_leaves=6,
)


@given(st.sampled_from(CLOSED), st.dictionaries(st.sampled_from(["status", "error", "reason", "success"]), _ANYTHING))
def test_any_payload_has_an_end(event: str, data: dict[str, Any]) -> None:
    """Whatever a module says, there is one of the known words and a text."""
    for ending in (own_ending(data), reported_ending(event, data)):
        assert ending.word in _WORDS
        assert isinstance(ending.reason, str)
