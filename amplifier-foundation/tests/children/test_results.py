"""The ids of child sessions."""

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.children.results import call_prefix, child_id, children_prefix, is_child_id, own_span

ROOT = "0b6c4a3e-9f3c-4b53-8f5e-4a1d2c3b4a5e"


def test_the_id_of_a_child_is_made_of_its_parent_and_its_call() -> None:
    """The same call means the same child, another call or parent another one."""
    import hashlib

    first = child_id(ROOT, "call-1", "NS:Explorer x")
    span = hashlib.sha256(f"{ROOT}\0call-1".encode()).hexdigest()[:16]
    assert first == f"{'0' * 16}-{span}_ns-explorer-x"
    assert first == child_id(ROOT, "call-1", "NS:Explorer x")
    assert len({first, child_id(ROOT, "call-2", "a"), child_id("other", "call-1", "a")}) == 3
    assert child_id(ROOT, None, "a") != child_id(ROOT, None, "a")


def test_the_id_of_a_grandchild_begins_with_the_span_of_the_child() -> None:
    """Whose child a session is can be seen in its id."""
    child = child_id(ROOT, "call-1", "a")
    grandchild = child_id(child, "call-1", "b")
    assert grandchild.startswith(f"{own_span(child)}-")
    assert child_id("ab" * 16, "c", "a").startswith("ab" * 8 + "-")


@given(parent=st.text(min_size=1), call=st.text(min_size=1), agent=st.text())
def test_every_id_is_a_plain_name_of_one_form(parent: str, call: str, agent: str) -> None:
    """Whatever parents, calls and agents are called, no folder lies elsewhere."""
    made = child_id(parent, call, agent)
    assert re.fullmatch(r"[0-9a-f]{16}-[0-9a-f]{16}_[a-z0-9-]{1,80}", made)
    assert is_child_id(made)
    assert made.startswith(children_prefix(parent))
    assert made.startswith(call_prefix(parent, call))


@pytest.mark.parametrize("text", ["", "..", "a/b", "/etc", ".hidden", "a\0b", "x" * 300, None, 3])
def test_what_leads_elsewhere_is_no_id(text: object) -> None:
    """An id that a model has made up names no folder outside."""
    assert not is_child_id(text)
