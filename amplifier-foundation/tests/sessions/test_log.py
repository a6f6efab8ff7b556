"""Which messages were there at which event."""

import tempfile
from collections.abc import Awaitable, Callable, Sequence
from pathlib import Path
from typing import Any

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from amplifier_core.models import HookResult
from amplifier_foundation.sessions.log import (
    EventNotFoundError,
    Outline,
    place_messages,
    read_outline,
)
from amplifier_foundation.timestamps import milliseconds
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.writer import SessionLog

Run = Callable[..., Awaitable[Any]]

CLOSED = ("tool:post", "tool:error")


def messages_at(messages: Sequence[dict[str, Any]], outline: Outline, place: int) -> list[int]:
    """Return the positions of the messages that were there at a line of the log."""
    return [position for position, made in enumerate(place_messages(messages, outline).places) if made <= place]


def _calls(*calls: tuple[str, dict[str, Any]]) -> dict[str, Any]:
    return {"text": "Let me look.", "tool_calls": [{"id": i, "name": "look", "arguments": a} for i, a in calls]}


def _assert_sound(ran: Any) -> None:
    """Check every cut of a log against what the context held, and what the log had announced, at that event."""
    outline = read_outline(ran.folder)
    assert outline.problems == []
    before: set[int] = set()
    lines = list(read_log(ran.folder))
    for line in lines:
        assert line.seq is not None
        there = set(messages_at(ran.messages, outline, outline.place_of(line.seq)))
        stored = {position for position, seq in enumerate(ran.stored_at) if seq <= line.seq and seq}
        if line.event in ("provider:request", "session:end", "execution:end"):
            assert there == stored, f"at {line.seq} {line.event}"
        assert before | stored <= there
        before = there
        so_far = [early for early in lines if (early.seq or 0) <= line.seq]
        roles = [ran.messages[position]["role"] for position in there]
        assert roles.count("user") <= sum(early.event == "prompt:submit" for early in so_far)
        assert roles.count("assistant") <= sum(early.event == "provider:response" for early in so_far)
        closed = {early.data["tool_call_id"] for early in so_far if early.event in CLOSED}
        assert {ran.messages[p]["tool_call_id"] for p in there if ran.messages[p]["role"] == "tool"} <= closed
    assert before == set(range(len(ran.messages)))


async def test_each_message_is_there_from_the_event_that_makes_it(tmp_path: Path, ran_session: Run) -> None:
    """The prompt comes with prompt:submit, an answer with provider:response, a result with its own tool:post."""
    scenario = [_calls(("slow", {"wait": 20}), ("fast", {})), {"text": "Seen."}, {"text": "Bye."}]
    ran = await ran_session(tmp_path / "s", scenario, "look", "bye")
    _assert_sound(ran)
    outline = read_outline(ran.folder)
    lines = list(read_log(ran.folder))
    makers = [lines[place].event for place in place_messages(ran.messages, outline).places]
    answer = ["prompt:submit", "provider:response"]
    assert makers == [*answer, "tool:post", "tool:post", "provider:response", *answer]
    fast = next(line for line in lines if line.event == "tool:post" and line.data["tool_call_id"] == "fast")
    assert fast.seq is not None
    assert [ran.messages[p].get("tool_call_id") for p in messages_at(ran.messages, outline, fast.seq - 1)] == [
        None,
        None,
        "fast",
    ]


ROUNDS = st.lists(st.lists(st.integers(0, 3), min_size=1, max_size=3), max_size=2)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(turns=st.lists(ROUNDS, min_size=1, max_size=3), same=st.booleans())
async def test_cuts_fit_sessions_that_really_ran(ran_session: Run, turns: list[Any], same: bool) -> None:
    """Whatever a session does, every event has the messages that the context had, or that events had announced."""
    scenario: list[dict[str, Any]] = []
    for turn, rounds in enumerate(turns):
        for number, waits in enumerate(rounds):
            scenario.append(_calls(*((f"c{turn}_{number}_{i}", {"wait": wait}) for i, wait in enumerate(waits))))
        scenario.append({"text": f"Answer {turn}."})
    prompts = ["go" if same else f"go {turn}" for turn in range(len(turns))]
    with tempfile.TemporaryDirectory() as folder:
        _assert_sound(await ran_session(Path(folder) / "s", scenario, *prompts))


async def test_a_denied_prompt_makes_no_message(tmp_path: Path, real_session: Any) -> None:
    """A prompt that a hook denies is in the log and not in the conversation, even when it is said again."""
    async with real_session(tmp_path / "s", [{"text": "One."}, {"text": "Two."}]) as real:
        await real.say("go")
        unregister = real.session.coordinator.hooks.register(
            "prompt:submit", lambda *_: HookResult(action="deny", reason="no"), priority=500
        )
        await real.say("go")
        unregister()
        await real.say("go")
    _assert_sound(real.ran)
    lines = list(read_log(real.ran.folder))
    submits = [place for place, line in enumerate(lines) if line.event == "prompt:submit"]
    placed = place_messages(real.ran.messages, read_outline(real.ran.folder))
    assert [mark and mark.place for mark in placed.submits] == [submits[0], submits[2]]


async def test_injected_and_changed_messages_are_placed(tmp_path: Path, real_session: Any) -> None:
    """A prompt that a hook changes is still known, and what a hook injects comes with the message before it."""
    async with real_session(tmp_path / "s", [{"text": "One."}, {"text": "Two."}]) as real:
        hooks = real.session.coordinator.hooks
        changed = HookResult(action="modify", data={"prompt": "changed"})
        unregister = hooks.register("prompt:submit", lambda *_: changed)
        await real.say("given")
        unregister()
        note = HookResult(action="inject_context", context_injection="by the way", context_injection_role="user")
        hooks.register("provider:request", lambda *_: note)
        await real.say("next")
    ran = real.ran
    assert [message["content"] for message in ran.messages if message["role"] == "user"] == [
        "changed",
        "next",
        "by the way",
    ]
    lines = list(read_log(ran.folder))
    makers = [lines[place].event for place in place_messages(ran.messages, read_outline(ran.folder)).places]
    assert makers == ["prompt:submit", "provider:response", "prompt:submit", "prompt:submit", "provider:response"]


async def test_a_cleared_conversation_is_found_in_its_log(tmp_path: Path, real_session: Any) -> None:
    """Messages after a clear are placed at their own turn, not at the first one of the log."""
    async with real_session(tmp_path / "s", [{"text": "One."}, {"text": "Two."}]) as real:
        await real.say("go")
        await real.session.coordinator.get("context").clear()
        await real.say("go")
    lines = list(read_log(real.ran.folder))
    submits = [place for place, line in enumerate(lines) if line.event == "prompt:submit"]
    assert place_messages(real.ran.messages, read_outline(real.ran.folder)).places[0] == submits[1]


def test_messages_older_than_the_log_are_always_there(tmp_path: Path) -> None:
    """What was said before the log begins is there at its first event."""
    with SessionLog(tmp_path) as log:
        log.write({"event": "prompt:submit", "ts": "2026-01-02T00:00:00+00:00", "data": {"prompt": "new"}})
        log.write({"event": "provider:response", "ts": "2026-01-02T00:00:01+00:00", "data": {}})
    old = {"metadata": {"timestamp": "2026-01-01T00:00:00+00:00"}}
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "old", **old},
        {"role": "assistant", "content": "old", **old},
        {"role": "user", "content": "new", "metadata": {"timestamp": "2026-01-02T00:00:00.5+00:00"}},
        {"role": "assistant", "content": "new"},
    ]
    outline = read_outline(tmp_path)
    assert place_messages(messages, outline).places == [-1, -1, 0, 1]
    assert messages_at(messages, outline, 0) == [0, 1, 2]


def _log(folder: Path, *events: tuple[str, dict[str, Any]]) -> Path:
    with SessionLog(folder) as log:
        for event, data in events:
            log.write({"event": event, "ts": "2026-01-01T00:00:00.0005+00:00", "data": data})
    return folder


def test_the_number_of_a_message_counts_more_than_its_time(tmp_path: Path) -> None:
    """A message that names its line belongs to it, even if a clock went wrong; one that names another kind does not."""
    answer: tuple[str, dict[str, Any]] = ("provider:response", {})
    folder = _log(tmp_path, ("prompt:submit", {}), answer, ("prompt:submit", {}), answer)
    outline = read_outline(folder)

    def messages(prompt: int, response: int) -> list[dict[str, Any]]:
        return [
            {"role": "user", "content": "go", "metadata": {"event_seq": prompt}},
            {"role": "assistant", "content": "gone", "metadata": {"event_seq": response}},
        ]

    assert place_messages(messages(3, 4), outline).places == [2, 3]
    assert place_messages(messages(1, 2), outline).places == [0, 1]
    assert place_messages(messages(2, 3), outline).places == [0, 1], "these lines made other messages"
    assert place_messages(messages(70, 71), outline).places == [0, 1], "these lines do not exist"


async def test_what_a_person_says_meanwhile_comes_with_its_own_event(tmp_path: Path, real_session: Any) -> None:
    """Words to a running turn are there from the event that says they were taken, between the answers around them."""
    scenario = [_calls(("c", {})), {"text": "Seen."}]
    async with real_session(tmp_path / "s", scenario, loop="loop-streaming") as real:
        steer = real.session.coordinator.get_capability("session.steer")
        real.session.coordinator.hooks.register("tool:post", lambda *_: steer("and now") and None)
        await real.say("go")
    lines = list(read_log(real.ran.folder))
    makers = [lines[place].event for place in place_messages(real.ran.messages, read_outline(real.ran.folder)).places]
    first = ["prompt:submit", "provider:response", "tool:post"]
    assert makers == [*first, "orchestrator:steering_injected", "provider:response"]


def test_messages_stay_in_order_whatever_the_log_says(tmp_path: Path) -> None:
    """An answer that is logged before the result it answers is there no sooner than that result."""
    call = {"tool_call_id": "c"}
    folder = _log(
        tmp_path,
        *(("prompt:submit", {"prompt": "go"}), ("provider:response", {}), ("tool:pre", call)),
        *(("provider:response", {}), ("tool:post", call)),
    )
    messages: list[dict[str, Any]] = [
        {"role": "user", "content": "go"},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "c", "tool": "look", "arguments": {}}]},
        {"role": "tool", "tool_call_id": "c", "name": "look", "content": "seen"},
        {"role": "assistant", "content": "done"},
    ]
    assert place_messages(messages, read_outline(folder)).places == [0, 1, 4, 4]


def test_an_event_that_is_not_there_is_named(tmp_path: Path) -> None:
    """The error says which events there are."""
    with pytest.raises(EventNotFoundError, match="event 1 does not exist: the log has no events"):
        read_outline(tmp_path).place_of(1)
    with SessionLog(tmp_path) as log:
        log.write({"event": "prompt:submit", "data": {}})
    with pytest.raises(EventNotFoundError, match="event 7 does not exist: the log has events 1 to 1"):
        read_outline(tmp_path).place_of(7)


@pytest.mark.parametrize(
    ("stamped", "expected"),
    [
        ("1970-01-01T00:00:01.999999+00:00", 1999),
        ("1970-01-01T00:00:02", 2000),
        ("1970-01-01T01:00:00.5+01:00", 500),
        ("1970-01-01T00:00:00Z", 0),
        ("yesterday", None),
        (12, None),
    ],
)
def test_times_are_cut_to_milliseconds(stamped: object, expected: int | None) -> None:
    """Times of lines and of messages are comparable, whoever wrote them."""
    assert milliseconds(stamped) == expected
