"""What sessions did and who allowed it, from their logs."""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_foundation.paths import Home
from amplifier_foundation.policy.history import Past, read_past, read_session
from amplifier_foundation.policy.permissions import Permissions
from amplifier_foundation.sessions.store import SessionStore
from amplifier_kit.log.writer import SessionLog

Session = Callable[..., Path]
Event = tuple[str, dict[str, Any]]


def _details(command: str, call: str = "1") -> dict[str, Any]:
    return {"tool_name": "bash", "tool_input": {"command": command}, "tool_call_id": call}


def _event(name: str, command: str, source: str = "approval_system", call: str = "1") -> Event:
    data = {"action": "process.exec", "details": _details(command, call), "reason": "r", "source": source}
    return f"approval:{name}", data


def _past(home: Home, project: Path, **options: Any) -> Past:
    store = SessionStore(home)
    sessions = store.list(project, include_children=True, **options)
    past = read_past((one.folder, Path(one.project or project)) for one in sessions)
    past.problems += store.warnings
    return past


class _Person:
    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)

    async def request_approval(self, *_: Any) -> str:
        return self.answers.pop(0)


async def test_the_kernels_own_events_are_understood(home: Home, project: Path, tmp_path: Path) -> None:
    """What a kernel logs of allowed, granted, refused and denied actions comes back as that."""
    permissions = Permissions.load(home, project)
    coordinator: Any = MockCoordinator()
    coordinator.register_policy("rules", permissions.policy)
    coordinator.approval_system = _Person("Allow", "Deny")
    with SessionLog(tmp_path / "s") as log:

        async def keep(event: str, data: dict[str, Any]) -> None:
            log.write({"event": event, "data": data})

        coordinator.hooks.register("*", keep)
        await coordinator.authorize("filesystem.read", {"path": "a"})
        await coordinator.authorize("process.exec", _details("make"))
        await coordinator.authorize("process.exec", _details("rm x", "2"))
        await coordinator.authorize("rocket.launch", {})
    past = Past()
    read_session(past, tmp_path / "s", project)
    found = [(each.then, each.is_granted, each.source, each.shown) for each in past.actions]
    assert found == [
        ("allowed", True, "rules", "a"),
        ("asked", True, "approval_system", "make"),
        ("asked", False, "approval_system", "rm x"),
        ("denied", False, "rules", "rocket.launch"),
    ]


def test_an_answer_is_found_by_the_id_of_its_request(session: Session, home: Home, project: Path) -> None:
    """Two requests about the same thing, answered in the other order, keep their own answers."""
    pairs = [("required", "a"), ("required", "b"), ("denied", "b"), ("granted", "a")]
    events = [(name, data | {"approval_id": key}) for outcome, key in pairs for name, data in [_event(outcome, "make")]]
    session(*events)
    assert [(each.then, each.is_granted) for each in _past(home, project).actions] == [
        ("asked", False),
        ("asked", True),
    ]


def test_what_a_hook_asks_by_itself_is_no_action(session: Session, home: Home, project: Path) -> None:
    """Rules do not judge a hook's own question, so it is not among what they are tried on."""
    events = [_event("required", "make"), _event("granted", "make")]
    session(*((name, {**data, "origin": "hook", "action": "hook.ask"}) for name, data in events))
    assert _past(home, project).actions == []


def test_a_question_without_an_answer(session: Session, home: Home, project: Path) -> None:
    """A log that ends while somebody is asked has a question that nobody answered."""
    session(_event("required", "make", "rules"))
    (action,) = _past(home, project).actions
    assert (action.then, action.is_granted, action.is_unanswered) == ("asked", None, True)


@pytest.mark.parametrize(("kind", "is_unanswered"), [("nobody", True), ("timeout", True), ("person", False)])
def test_the_kind_of_an_answer_counts(
    session: Session, home: Home, project: Path, kind: str, is_unanswered: bool
) -> None:
    """What the approval system said for want of anybody is no answer, neither a no nor a yes."""
    for outcome in ("denied", "granted"):
        name, data = _event(outcome, "make")
        session(_event("required", "make", "rules"), (name, {**data, "answered_by": {"kind": kind}}))
    assert [each.is_unanswered for each in _past(home, project).actions] == [is_unanswered] * 2


def test_silence_is_no_answer(session: Session, home: Home, project: Path) -> None:
    """A denial by the kernel after a question means that nobody answered; one by a person is an answer."""
    session(
        _event("required", "make", "rules"),
        _event("denied", "make", "kernel"),
        _event("required", "rm x", "rules"),
        _event("denied", "rm x"),
    )
    assert [each.is_unanswered for each in _past(home, project).actions] == [True, False]


def test_what_ran_unjudged(session: Session, home: Home, project: Path) -> None:
    """A call that ran without a word about it is known as such; one that was judged is counted once."""
    call = {"tool_name": "bash", "tool_input": {"command": "ls"}}
    session(
        ("tool:pre", {**call, "tool_call_id": "1"}),
        ("tool:post", {**call, "tool_call_id": "1", "result": "x"}),
        ("tool:pre", _details("make", "2")),
        _event("granted", "make", "rules", call="2"),
        ("tool:post", {**_details("make", "2"), "result": "x"}),
        ("tool:pre", _details("never ran", "3")),
    )
    actions = _past(home, project).actions
    assert [(each.then, each.action, each.shown) for each in actions] == [
        ("unjudged", "tool.bash", "ls"),
        ("allowed", "process.exec", "make"),
    ]


def test_published_events_belong_to_the_call_before(session: Session, home: Home, project: Path) -> None:
    """Events that name the tool alone are about its last call."""
    session(
        ("tool:pre", {"tool_name": "bash", "tool_input": {"command": "make"}}),
        ("approval:required", {"tool_name": "bash", "action": "Execute: make", "risk_level": "high"}),
        ("approval:granted", {"tool_name": "bash", "reason": "yes"}),
    )
    (action,) = _past(home, project).actions
    assert (action.action, action.then, action.is_granted, action.shown) == ("tool.bash", "asked", True, "make")


def test_secrets_are_known_to_be_missing(session: Session, home: Home, project: Path) -> None:
    """An action of which the log keeps something back is marked."""
    session(_event("granted", "curl -H [REDACTED] x"), _event("granted", "ls"))
    assert [each.is_masked for each in _past(home, project).actions] == [True, False]


def test_large_inputs_are_read_whole(session: Session, home: Home, project: Path) -> None:
    """A command that the log keeps in a file of its own is judged as it was; when the file is gone, that is said."""
    long = "echo " + "x" * 200_000
    folder = session(_event("granted", long))
    assert [each.shown for each in _past(home, project).actions] == [long]
    for blob in (folder / "blobs").rglob("*"):
        if blob.is_file():
            blob.unlink()
    past = _past(home, project)
    assert past.actions == []
    assert "1 lines of the log cannot be read" in past.problems[0]


def test_damaged_lines_are_told(session: Session, home: Home, project: Path) -> None:
    """A torn line takes nothing else with it and is told."""
    folder = session(_event("granted", "ls"))
    with (folder / "events.jsonl").open("ab") as file:
        file.write(b'{"event": "approv\n')
    past = _past(home, project)
    assert len(past.actions) == 1
    assert str(folder) in past.problems[0]


def test_which_sessions_are_read(session: Session, home: Home, project: Path, tmp_path: Path) -> None:
    """Sessions of the project, or of all; none that was last active before."""
    other = tmp_path / "other"
    other.mkdir()
    session(_event("granted", "ls"), session_id="a")
    session(_event("granted", "ls"), session_id="b", working_dir=other)
    assert _past(home, project).sessions == 1
    every = _past(home, project, all_projects=True)
    assert {each.project for each in every.actions} == {project, other}
    assert _past(home, project, since=datetime.now(UTC) + timedelta(days=1)).sessions == 0


@pytest.mark.parametrize("data", [{}, {"details": 5, "action": 7}, {"details": {}, "action": "x y"}, {"tool_name": 3}])
def test_events_that_make_no_sense(session: Session, home: Home, project: Path, data: dict[str, Any]) -> None:
    """An event with nothing in it is an action that nothing allows, and no fault."""
    session(("approval:granted", data), ("tool:post", data), ("tool:pre", data))
    for action in _past(home, project).actions:
        assert Permissions.load(home, project).judge(action.action, action.details).verdict != "allow"
