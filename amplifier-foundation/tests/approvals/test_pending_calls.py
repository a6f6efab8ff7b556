"""Calls that wait for an answer: kept, answered and taken, by several processes, whatever the disk does."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from contextlib import ExitStack
from dataclasses import replace
from pathlib import Path
from typing import Any, get_args

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_foundation.approvals.pending_calls import Answer, PendingCall, PendingCalls, PendingCallsError
from amplifier_foundation.approvals.pending_calls import PendingQuestion as Question

_ANSWERS: tuple[Answer, ...] = get_args(Answer)

_JSON = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False) | st.text(),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(), inner, max_size=3),
    max_leaves=6,
)
_INPUTS = st.dictionaries(st.text(), _JSON, max_size=3)
_QUESTIONS = st.builds(Question, st.sampled_from(["Allow a?", "Allow b?"]), st.text(max_size=5))
_CALLS = st.builds(
    PendingCall,
    st.sampled_from(["c1", "c2", "c3"]),
    st.sampled_from(["bash", "write_file"]),
    _INPUTS,
    st.just("2026-01-01T00:00:00.000+00:00"),
    st.lists(_QUESTIONS, min_size=1, max_size=2).map(tuple),
)
_with_files = settings(suppress_health_check=[HealthCheck.function_scoped_fixture])


def _call(name: str = "c1", prompt: str = "Allow process.exec?", **tool_input: Any) -> PendingCall:
    return PendingCall(name, "bash", tool_input or {"command": name}, "now", (Question(prompt, "process.exec"),))


def _fresh(tmp_path: Path) -> PendingCalls:
    waiting = PendingCalls(tmp_path / "sessiön")
    waiting.path.unlink(missing_ok=True)
    return waiting


@_with_files
@given(calls=st.lists(_CALLS, max_size=5))
def test_what_is_added_is_there(tmp_path: Path, calls: list[PendingCall]) -> None:
    """Calls come back exactly as they were added, in order; the last word on one call is the one that counts."""
    waiting = _fresh(tmp_path)
    for call in calls:
        waiting.add(call)
    latest = {call.key: call for call in calls}
    order = list(dict.fromkeys(call.key for call in reversed(calls)))[::-1]
    assert waiting.list() == tuple(latest[key] for key in order)
    for call in calls:
        waiting.add(latest[call.key])
    assert {call.key: call for call in waiting.list()} == latest


@_with_files
@given(calls=st.lists(_CALLS, max_size=5, unique_by=lambda call: call.key), data=st.data())
def test_answers_stay(tmp_path: Path, calls: list[PendingCall], data: st.DataObject) -> None:
    """The first answer to a question is the last; each is returned by the call that gave it, and by no other."""
    waiting = _fresh(tmp_path)
    for call in calls:
        waiting.add(call)
    first, second = data.draw(st.sampled_from(_ANSWERS)), data.draw(st.sampled_from(_ANSWERS))
    some = data.draw(st.lists(st.sampled_from(calls), unique_by=lambda call: call.id)) if calls else []
    answered = waiting.answer([call.id for call in some], first, "why", "me") if some else ()
    assert {call.id for call in answered} == {call.id for call in some}
    assert all(question.answer == first and question.by == "me" for call in answered for question in call.questions)
    rest = waiting.answer([], second)
    assert {call.id for call in rest} == {call.id for call in calls} - {call.id for call in some}
    assert {call.id: call.answer for call in waiting.list()} == {
        call.id: first if call in some else second for call in calls
    }
    assert waiting.answer([], "deny" if second == "allow" else "allow") == ()


def test_what_was_allowed_can_be_denied_until_it_runs(tmp_path: Path) -> None:
    """A no counts for an allowed call that is named, or when no other waits; a call that is gone is not meant."""
    waiting = PendingCalls(tmp_path)
    one, two, three = (_call(f"c{number}") for number in range(3))
    for call in (one, two, three):
        waiting.add(call)
    waiting.answer([one.id, two.id], "allow", "fine", "me")
    assert [call.id for call in waiting.deny([one.id], "on second thoughts", "you")] == [one.id]
    assert [call.id for call in waiting.deny([])] == [three.id]
    assert [call.answer for call in waiting.list()] == ["deny", "allow", "deny"]
    (question,) = waiting.list()[0].questions
    assert (question.note, question.by) == ("on second thoughts", "you")
    assert [call.id for call in waiting.deny([])] == [two.id]
    assert waiting.deny([]) == ()
    with pytest.raises(PendingCallsError):
        waiting.deny([one.id])
    waiting.take([one])
    with pytest.raises(PendingCallsError):
        waiting.deny([one.id])


@_with_files
@given(calls=st.lists(_CALLS, max_size=5, unique_by=lambda call: call.key), data=st.data())
def test_each_call_is_taken_once(tmp_path: Path, calls: list[PendingCall], data: st.DataObject) -> None:
    """What is taken is returned once and is gone; everything else stays as it is, in order."""
    waiting = _fresh(tmp_path)
    for call in calls:
        waiting.add(call)
    some = data.draw(st.lists(st.sampled_from(calls), unique_by=lambda call: call.key)) if calls else []
    assert set(map(_key, waiting.take(some))) == set(map(_key, some))
    assert waiting.take(some) == ()
    assert waiting.list() == tuple(call for call in calls if call not in some)
    waiting.take(calls)
    assert not waiting.path.exists()


def _key(call: PendingCall) -> str:
    return call.key


@given(answers=st.lists(st.sampled_from([None, *_ANSWERS]), max_size=4))
def test_one_no_is_a_no(answers: list[Answer | None]) -> None:
    """A call is allowed when everything that is asked is, denied when anything is, and open otherwise."""
    questions = tuple(Question(f"q{number}", "", answer) for number, answer in enumerate(answers))
    call = replace(_call(), questions=questions)
    expected = "deny" if "deny" in answers else "allow" if answers and None not in answers else None
    assert call.answer == expected
    assert call.answered("deny").answer == (None if not answers else "deny")
    assert call.answered("allow").answer == (None if not answers else "deny" if expected == "deny" else "allow")


@given(one=_CALLS, other=_CALLS)
def test_other_input_is_another_call(one: PendingCall, other: PendingCall) -> None:
    """Calls are the same when id, tool and input are; questions and times do not tell."""
    is_same = json.dumps([one.tool_call_id, one.tool_name, one.tool_input], sort_keys=True) == json.dumps(
        [other.tool_call_id, other.tool_name, other.tool_input], sort_keys=True
    )
    assert (one.key == other.key) is is_same
    assert replace(one, questions=other.questions, asked="later").id == one.id


def test_ids_that_collide_cost_no_call(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Two calls with one id are both kept, and neither is answered or taken in the other's place."""
    monkeypatch.setattr(PendingCall, "id", property(lambda self: "00000000"))
    waiting, good, bad = PendingCalls(tmp_path), _call("good"), _call("bad")
    waiting.add(good)
    waiting.add(bad)
    with pytest.raises(PendingCallsError, match="does not name one pending call"):
        waiting.answer(["00000000"], "allow")
    assert [call.answer for call in waiting.list()] == [None, None]
    waiting.take([good])
    assert waiting.list() == (bad,)


@pytest.mark.parametrize("wanted", [["0" * 8], [""], ["zz"], ["ALL"]])
def test_unknown_ids_answer_nothing(tmp_path: Path, wanted: list[str]) -> None:
    """An id that names no call, also an empty one, is an error that says which wait, and answers none."""
    waiting, call = PendingCalls(tmp_path), _call()
    waiting.add(call)
    with pytest.raises(PendingCallsError, match=call.id):
        waiting.answer([call.id, *wanted], "allow")
    assert waiting.list() == (call,)


def test_beginning_of_an_id_is_enough(tmp_path: Path) -> None:
    """A call may be named by the beginning of its id."""
    waiting, call = PendingCalls(tmp_path), _call()
    waiting.add(call)
    (answered,) = waiting.answer([call.id[:4]], "deny", "use the other one", "somebody")
    (question,) = answered.questions
    assert (answered.answer, question.note, question.by) == ("deny", "use the other one", "somebody")
    assert question.at.startswith("20")


def test_file_is_its_owners(tmp_path: Path) -> None:
    """The file is readable by its owner alone."""
    waiting = PendingCalls(tmp_path / "new" / "folder")
    waiting.add(_call())
    assert waiting.path.stat().st_mode & 0o077 == 0
    assert waiting.path.parent.stat().st_mode & 0o077 == 0


_SOUND = {"version": 1, "calls": [{**vars(_call()), "questions": [vars(_call().questions[0])]}]}


def _damaged(**fields: Any) -> dict[str, Any]:
    return {"version": 1, "calls": [{**_SOUND["calls"][0], **fields}]}  # type: ignore[index]


@pytest.mark.parametrize(
    "content",
    [
        b"",
        b"{",
        b"[]",
        b"null",
        b'{"version": 1}',
        b'{"version": 2, "calls": []}',
        b'{"version": 1, "calls": [{}]}',
        b"\xff\xfe\x00",
        _damaged(questions=[]),
        _damaged(questions=[{"prompt": "p", "action": "a", "answer": "yes"}]),
        _damaged(questions=[{"prompt": "p", "action": "a", "answer": True}]),
        _damaged(questions=[{"prompt": None, "action": "a", "answer": "allow"}]),
        _damaged(tool_input="rm -r /"),
        _damaged(tool_call_id=1),
        _damaged(tool_name=None),
        _damaged(more=1),
    ],
)
def test_broken_file_is_said(tmp_path: Path, content: bytes | dict[str, Any]) -> None:
    """A file that cannot be understood is an error with its name, for readers and writers, and is left as it is."""
    waiting = PendingCalls(tmp_path)
    raw = content if isinstance(content, bytes) else json.dumps(content).encode()
    waiting.path.write_bytes(raw)
    for use in (
        waiting.list,
        lambda: waiting.add(_call("other")),
        lambda: waiting.answer([], "allow"),
        lambda: waiting.take([_call()]),
    ):
        with pytest.raises(PendingCallsError, match=r"waiting-calls\.json"):
            use()
    assert waiting.path.read_bytes() == raw


def test_sound_file_is_read(tmp_path: Path) -> None:
    """The file that the broken ones are made from can be read."""
    waiting = PendingCalls(tmp_path)
    waiting.path.write_text(json.dumps(_SOUND), encoding="utf-8")
    assert waiting.list() == (_call(),)


def test_places_that_cannot_be_written(tmp_path: Path) -> None:
    """A folder that cannot be made, and a file that is a folder, raise and leave nothing behind."""
    (tmp_path / "file").write_text("", encoding="utf-8")
    with pytest.raises(OSError, match="file"):
        PendingCalls(tmp_path / "file" / "session").add(_call())
    assert PendingCalls(tmp_path / "file" / "session").list() == ()
    waiting = PendingCalls(tmp_path / "session")
    waiting.path.mkdir(parents=True)
    with pytest.raises(PendingCallsError, match="cannot be read"):
        waiting.add(_call())
    assert sorted(path.name for path in waiting.path.parent.iterdir()) == ["waiting-calls.json", "waiting-calls.lock"]


_FULL = """\
import resource, sys
from pathlib import Path
from amplifier_foundation.approvals.pending_calls import PendingCall, PendingCalls, PendingQuestion
call = PendingCall("c2", "bash", {"command": "x" * 9000}, "now", (PendingQuestion("p", "a"),))
waiting = PendingCalls(Path(sys.argv[1]))
resource.setrlimit(resource.RLIMIT_FSIZE, (4096, 4096))
try:
    waiting.add(call)
except OSError as error:
    print("said", error.errno)
"""


def test_full_disk(tmp_path: Path) -> None:
    """A file that cannot be written to its end raises, and what waited before still does."""
    waiting = PendingCalls(tmp_path)
    waiting.add(_call())
    said = subprocess.run(
        [sys.executable, "-c", _FULL, str(tmp_path)], capture_output=True, text=True, check=True, timeout=60
    )
    assert said.stdout.startswith("said ")
    assert waiting.list() == (_call(),)
    assert not list(tmp_path.glob("*.tmp"))


_ANSWERING = """\
import sys
from pathlib import Path
from amplifier_foundation.approvals.pending_calls import PendingCalls
waiting = PendingCalls(Path(sys.argv[1]))
print("ready", flush=True)
sys.stdin.readline()
for call in [call.id for call in waiting.list()]:
    try:
        done = getattr(waiting, "answer")([call], sys.argv[2], "", sys.argv[2])
    except Exception as error:
        done = ()
        assert "does not name one" in str(error), error
    print(*[one.id for one in done])
"""
_TAKING = """\
import sys
from pathlib import Path
from amplifier_foundation.approvals.pending_calls import PendingCalls
waiting = PendingCalls(Path(sys.argv[1]))
listed = waiting.list()
print("ready", flush=True)
sys.stdin.readline()
for call in listed:
    print(*[one.id for one in waiting.take([call])])
"""


def _together(code: str, *arguments: list[str]) -> list[list[str]]:
    """Run processes at the same time and return the words each has printed."""
    with ExitStack() as stack:
        processes = [
            stack.enter_context(
                subprocess.Popen(
                    [sys.executable, "-c", code, *given], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
                )
            )
            for given in arguments
        ]
        for process in processes:
            stack.callback(process.kill)
            assert process.stdout is not None
            assert process.stdout.readline() == "ready\n"
        for process in processes:
            assert process.stdin is not None
            process.stdin.write("go\n")
            process.stdin.flush()
        ended = [process.communicate(timeout=90)[0].split() for process in processes]
        assert [process.returncode for process in processes] == [0] * len(processes)
        return ended


def test_two_processes_answer(tmp_path: Path) -> None:
    """Of two processes that answer the same calls, each is told exactly of those it decided."""
    waiting = PendingCalls(tmp_path)
    for number in range(20):
        waiting.add(_call(f"c{number}"))
    allowed, denied = _together(_ANSWERING, [str(tmp_path), "allow"], [str(tmp_path), "deny"])
    kept = {call.id: call.answer for call in waiting.list()}
    assert len(kept) == 20
    assert {call for call, answer in kept.items() if answer == "allow"} == set(allowed)
    assert {call for call, answer in kept.items() if answer == "deny"} == set(denied)


def test_two_processes_take(tmp_path: Path) -> None:
    """Of two processes that know the same calls, each gets every call that the other does not get."""
    waiting = PendingCalls(tmp_path)
    calls = [_call(f"c{number}") for number in range(20)]
    for call in calls:
        waiting.add(call)
    one, other = _together(_TAKING, [str(tmp_path)], [str(tmp_path)])
    assert sorted(one + other) == sorted(call.id for call in calls)
    assert not os.path.lexists(waiting.path)


@pytest.mark.parametrize(("old", "new"), [("make", "rm -r x"), ("Allow a?", "Allow b?"), ("bash", "other")])
def test_a_yes_is_for_the_call_as_it_was_shown(tmp_path: Path, old: str, new: str) -> None:
    """A call or a question that is swapped on disk after the yes has no answer any more; what was allowed keeps it."""
    waiting = _fresh(tmp_path)
    waiting.add(_call(prompt="Allow a?", command="make"))
    waiting.answer([], "allow")
    assert [call.answer for call in waiting.list()] == ["allow"]
    waiting.path.write_text(waiting.path.read_text(encoding="utf-8").replace(old, new), encoding="utf-8")
    assert [call.answer for call in waiting.list()] == [None]
