"""The ids of children, and how deep a session stands."""

from __future__ import annotations

import re
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_kit.engine.delegation.session_ids import child_session_id, delegation_depth, is_session_id

ROOT = "3b0c8a52-2f62-4f0e-8a2f-b3a1f9ad7f10"
FORM = re.compile(r"[0-9a-f]{16}-[0-9a-f]{16}_[a-z0-9-]+")


def test_the_same_call_names_the_same_child() -> None:
    """A repeated call finds its child; another call, parent or call without an id has another one."""
    first = child_session_id(ROOT, "call-1", "amplifier:explorer")
    assert first == child_session_id(ROOT, "call-1", "amplifier:explorer")
    assert re.fullmatch(r"0{16}-[0-9a-f]{16}_amplifier-explorer", first)
    others = {child_session_id(ROOT, "call-2", "a"), child_session_id("other", "call-1", "a")}
    others |= {child_session_id(ROOT, None, "a"), child_session_id(ROOT, None, "a"), first}
    assert len(others) == 5


def test_a_grandchild_starts_with_the_span_of_its_parent() -> None:
    """The first part of an id is the parent's own part; for a trace id it is the middle of it."""
    child = child_session_id(ROOT, "call-1", "a")
    assert child_session_id(child, "call-1", "b").split("-")[0] == child.split("-")[1].split("_")[0]
    assert child_session_id("0123456789abcdef" * 2, "c", "b").startswith("89abcdef01234567-")


@given(st.text(min_size=1), st.text() | st.none(), st.text(min_size=1))
def test_every_id_is_a_folder_name(parent: str, call: str | None, agent: str) -> None:
    """Whatever parents, calls and agents are called, the child's id has the one form, and is accepted as an id."""
    child = child_session_id(parent, call, agent)
    assert FORM.fullmatch(child)
    assert is_session_id(child)


@pytest.mark.parametrize("text", ["", "../x", "a/b", "a b", ".hidden", "a..b", "x" * 300, "a\nb"])
def test_what_is_no_id(text: str) -> None:
    """Paths, blanks and endless texts are no ids."""
    assert not is_session_id(text)
    assert is_session_id(ROOT)


@pytest.mark.parametrize(
    ("config", "depth"),
    [
        ({"session": {"metadata": {"delegation_depth": 2}}}, 2),
        ({"session": {"metadata": {"delegation_depth": True}}}, 0),
        ({"session": {"metadata": {"delegation_depth": -1}}}, 0),
        ({"session": {"metadata": None}}, 0),
        ({"session": "loop"}, 0),
        (None, 0),
    ],
)
def test_depth(config: Any, depth: int) -> None:
    """The depth is what the plan says; a plan that says nothing that makes sense is one of a root."""
    assert delegation_depth(SimpleNamespace(config=config)) == depth
