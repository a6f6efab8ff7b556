"""A key changes when, and only when, something it stands for does."""

from __future__ import annotations

import os
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_foundation.sources.install import content_key

_facts = st.lists(st.binary(max_size=8) | st.text(max_size=8), max_size=5)


def _as_bytes(facts: list[str | bytes]) -> list[bytes]:
    return [fact.encode("utf-8", "surrogateescape") if isinstance(fact, str) else fact for fact in facts]


@given(_facts, _facts)
def test_only_the_same_facts_have_the_same_key(one: list[str | bytes], two: list[str | bytes]) -> None:
    """Facts cannot be moved from one to the next without being noticed."""
    assert (content_key(one) == content_key(two)) is (_as_bytes(one) == _as_bytes(two))
    assert len(content_key(one)) == 16


def test_the_interpreter_counts_by_path_and_age(tmp_path: Path) -> None:
    """Another interpreter, or the same path rebuilt, has another key; the link counts, not its target."""
    one, two = tmp_path / "one", tmp_path / "two"
    for link in (one, two):
        link.symlink_to(sys.executable)
        os.utime(link, (1, 1), follow_symlinks=False)
    assert content_key(["x"], str(one)) != content_key(["x"], str(two))
    before = content_key(["x"], str(one))
    assert content_key(["x"], str(one)) == before
    os.utime(one, (2, 2), follow_symlinks=False)
    assert content_key(["x"], str(one)) != before
    with pytest.raises(FileNotFoundError):
        content_key([], str(tmp_path / "gone"))
