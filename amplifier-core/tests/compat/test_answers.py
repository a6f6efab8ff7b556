"""The comparison tells differences apart, the record is read as it was written, and dying is an answer too."""

from __future__ import annotations

import json
import sys
from pathlib import Path
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from .answers import Intended, compare, differences, read_answers, stale, unlisted, write_answers
from .play import SECONDS_FOR_ONE, _run

json_values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=10,
)


@given(value=json_values)
def test_equal_observations_do_not_differ(value: Any) -> None:
    """An observation never differs from itself."""
    assert list(differences("a.b", value, value)) == []


@given(ours=json_values, peer=json_values)
def test_unequal_observations_differ(ours: Any, peer: Any) -> None:
    """Two observations differ somewhere exactly when their JSON differs."""
    same = json.dumps(ours, sort_keys=True) == json.dumps(peer, sort_keys=True)
    assert (not list(differences("a.b", ours, peer))) == same


def test_only_the_listed_place_is_covered() -> None:
    """A difference beside the listed place is still reported, and a listed one that is gone is stale."""
    entries = [Intended("a.*", "x.turn_id", "§1", "r"), Intended("b.gone", "*", "§2", "r")]
    ours = {"a.one": {"x": {"turn_id": "t", "other": 1}}, "b.gone": 1}
    peer = {"a.one": {"x": {"other": 2}}, "b.gone": 1}
    found = compare(ours, peer)
    assert [(d.scenario, d.place, d.ours, d.peer) for d in unlisted(found, entries)] == [("a.one", "x.other", 1, 2)]
    assert stale(found, entries) == [entries[1]]


def test_the_record_is_read_as_it_was_written(tmp_path: Path) -> None:
    """Writing answers replaces all earlier ones, and reading returns them by the scenarios' ids."""
    write_answers({"retry.gone": 1}, tmp_path)
    answers = {"retry.kept": {"text": "ß"}, "errors.kept": [None]}
    write_answers(answers, tmp_path)
    assert read_answers(tmp_path) == answers


def test_scenarios_are_played_in_another_process() -> None:
    """A child process observes the scenarios it is given, and what it finished before it had to be stopped counts."""
    observed, status = _run(Path(sys.executable), "errors.tool_call_error", seconds=SECONDS_FOR_ONE)
    assert (list(observed), status) == (["errors.tool_call_error"], 0)
    assert _run(Path(sys.executable), seconds=0) == ({}, None)
