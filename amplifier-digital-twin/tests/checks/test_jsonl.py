"""JSONL files of a twin."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_digital_twin.checks.jsonl import check_jsonl, judge
from amplifier_digital_twin.profile.model import JsonlExpectation, User

_EVENTS = ("session:start", "prompt:submit", "session:end")


def _lines(*events: str) -> bytes:
    return b"".join(json.dumps({"ts": 1, "event": event}).encode() + b"\n" for event in events)


def _expect(**parts: Any) -> JsonlExpectation:
    return JsonlExpectation(glob="~/**/events.jsonl", **parts)


def test_events_in_order_hold() -> None:
    """What lies between the expected events does not matter."""
    assert judge(_expect(has=_EVENTS, in_order=True), _lines("a", "session:start", "b", *_EVENTS[1:], "c")) == []


@pytest.mark.parametrize(
    ("expectation", "content", "words"),
    [
        (_expect(has=_EVENTS), _lines(*_EVENTS[:2]), "no line has event 'session:end'"),
        (_expect(has=_EVENTS, in_order=True), _lines(*reversed(_EVENTS)), "'prompt:submit' does not come after"),
        (_expect(lacks=("error",)), _lines("error"), "a line has event 'error', and must not"),
        (_expect(has=("a",)), b'{"event":"a"}\n', "as people look for it"),
        (_expect(has=("a",)), _lines("a") + b'{"event": "b', "line 2 is no JSON"),
        (_expect(has=("a",)), _lines("a") + b"[1]\n", "line 2 is no JSON object"),
        (_expect(has=("a",)), _lines("a") + b'{"event": "\xff"}\n', "line 2 is no JSON"),
        (_expect(has=("1",)), b'{"event": 1}\n', "no line has event '1'"),
        (_expect(has=("x",), key="type"), _lines("x"), "no line has type 'x'"),
    ],
)
def test_what_does_not_hold_is_named(expectation: JsonlExpectation, content: bytes, words: str) -> None:
    """A value that is missing, too early, forbidden, written otherwise, or in a line that is no JSON."""
    assert words in "; ".join(judge(expectation, content))


@given(st.lists(st.sampled_from("abc"), max_size=6), st.lists(st.sampled_from("abc"), max_size=12))
def test_order_means_a_subsequence(wanted: list[str], events: list[str]) -> None:
    """Expected values are in order exactly when deleting others from the file leaves them."""
    position, is_subsequence = 0, True
    for value in wanted:
        try:
            position = events.index(value, position) + 1
        except ValueError:
            is_subsequence = False
            break
    problems = judge(_expect(has=tuple(wanted), in_order=True), _lines(*events))
    assert (problems == []) == is_subsequence


async def test_any_and_all_files(twin: Any) -> None:
    """`any` needs one file that holds, `all` needs every one; no file at all never holds."""
    assert (await check_jsonl([_expect(has=("a",))], twin, User()))[0] == ["~/**/events.jsonl: no file was found"]
    for name, event in (("one", "a"), ("two", "b")):
        (twin.home / ".x" / name).mkdir(parents=True)
        (twin.home / ".x" / name / "events.jsonl").write_bytes(_lines(event))
    assert (await check_jsonl([_expect(has=("a",))], twin, User()))[0] == []
    problems, seen = await check_jsonl([_expect(has=("a",), files="all")], twin, User())
    assert problems == ["/home/user/.x/two/events.jsonl: no line has event 'a'"]
    assert [(item["lines"], item["values"]) for item in seen] == [(1, {"a": 1}), (1, {"b": 1})]
