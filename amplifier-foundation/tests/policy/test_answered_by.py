"""Every decision in the log says who made it: a person by the name of their account, a rule, or nobody."""

from __future__ import annotations

import asyncio
import os
import pwd
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from amplifier_core import AmplifierSession, ApprovalRequest, ApprovalResponse, HookResult
from amplifier_core.approval import ApprovalHandler, ApprovalTimeoutError, is_consent
from amplifier_foundation.approvals.answered_by import (
    NOBODY,
    account_name,
    name_modules_that_decide,
    person_at,
)
from amplifier_foundation.approvals.approvers import Approver, Approvers
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.permissions import SessionPermissions
from amplifier_foundation.trust.store import TrustStore
from amplifier_kit.guard.policy.rules import Rule

_ME = pwd.getpwuid(os.getuid()).pw_name
_MAKE = {"tool_name": "bash", "tool_input": {"command": "make"}}
_ADA = person_at("chat", "ada")
_DECIDED = ("approval:granted", "approval:denied")


class _Saying(ApprovalHandler):
    """Answer as told, in one of the ways there are."""

    def __init__(self, answer: Any, by: Any = None) -> None:
        self._answer, self._by = answer, by

    async def decide(self, request: ApprovalRequest) -> ApprovalResponse:
        await asyncio.sleep(0)
        if isinstance(self._answer, BaseException):
            raise self._answer
        answer = str(self._answer)
        return ApprovalResponse(approved=is_consent(answer), answer=answer, answered_by=self._by)


class _Session:
    """A real kernel whose decisions are written down as a log would write them."""

    def __init__(self, system: Any = None, **session: Any) -> None:
        plan = {"session": {"orchestrator": "loop-basic", "context": "context-simple", **session}}
        self.coordinator: Any = AmplifierSession(plan, approval_system=system).coordinator
        self.told: list[dict[str, Any]] = []
        name_modules_that_decide(self.coordinator)
        for event in (*_DECIDED, "approval:escalated"):
            self.coordinator.hooks.register(event, self._hear, priority=100)

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        self.told.append({"event": event, **data})

    def say(self, verdict: Any, name: str = "mine") -> _Session:
        """Let a policy say one thing of everything."""
        self.coordinator.register_policy(name, lambda action, details: verdict)
        return self

    async def who(self, action: str = "process.exec", details: Any = None) -> Any:
        """Have something decided, and return what the log says of who did."""
        await self.coordinator.authorize(action, details or _MAKE)
        return [one for one in self.told if one["event"] in _DECIDED][-1]["answered_by"]


def test_the_name_of_the_account_is_not_taken_from_variables(monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever sets `USER` does not become somebody else in the log."""
    for name in ("LOGNAME", "USER", "LNAME", "USERNAME"):
        monkeypatch.setenv(name, "somebody-else")
    assert account_name() == _ME
    assert person_at("run") == {"kind": "person", "user": _ME, "via": "run"}


def test_an_account_without_a_name_has_its_number(monkeypatch: pytest.MonkeyPatch) -> None:
    """In a container whose user nobody has named, the number says who it was."""

    def unknown(number: int) -> Any:
        raise KeyError(number)

    monkeypatch.setattr(pwd, "getpwuid", unknown)
    assert account_name() == str(os.getuid())


async def test_a_person_by_name_and_place() -> None:
    """Who answers for the app is named with where, whatever the answer was."""
    for answer in ("Allow", "Deny: no", "perhaps"):
        session = _Session().say("ask")
        Approvers([Approver("terminal", _Saying(answer), _ADA)]).connect(session.coordinator)
        assert await session.who() == {"kind": "person", "user": "ada", "via": "chat"}


async def test_an_approver_that_knows_better() -> None:
    """An answer that somebody gave elsewhere is told as theirs, with the time."""
    session = _Session().say("ask")
    elsewhere = person_at("approval", "bob", "2026-01-02T03:04:05.678+00:00")
    Approvers([Approver("waiting", _Saying("Allow", elsewhere), NOBODY)]).connect(session.coordinator)
    assert await session.who() == elsewhere


async def test_an_app_that_asks_in_its_own_way() -> None:
    """An approval system that does not say who answers is told as the app's."""
    assert await _Session(_Saying("Allow")).say("ask").who() == {"kind": "app"}


@pytest.mark.parametrize(
    ("system", "kind"),
    [
        (_Saying(ApprovalTimeoutError("x")), "timeout"),
        (_Saying(TimeoutError()), "timeout"),
        (_Saying(OSError("gone"), _ADA), "failure"),
        (None, "nobody"),
    ],
)
async def test_nobody_answered(system: Any, kind: str) -> None:
    """Silence and failures are nobody's word, also when somebody was being asked."""
    session = _Session(system).say("ask")
    if system is not None:
        Approvers([Approver("terminal", system, _ADA)]).connect(session.coordinator)
    assert await session.who() == {"kind": kind}


async def test_the_deadline_of_the_session() -> None:
    """A person who was asked and did not answer in time has not decided."""

    class Thinking:
        async def request_approval(self, *given: Any) -> str:
            await asyncio.Event().wait()
            return "Allow"

    assert await _Session(Thinking(), approval_timeout=0.01).say("ask").who() == {"kind": "timeout"}


async def test_a_hook_that_forbids_the_question() -> None:
    """A hook that denies `approval:required` is told as one."""
    session = _Session(_Saying("Allow")).say("ask")
    session.coordinator.hooks.register("approval:required", lambda event, data: HookResult(action="deny", reason="no"))
    assert await session.who() == {"kind": "hook"}


async def test_policies_by_name() -> None:
    """A policy that is not made of rules is named; where none has an opinion, nobody has decided."""
    assert await _Session().say("allow", "office-hours").who() == {"kind": "policy", "policy": "office-hours"}
    assert await _Session().who() == {"kind": "nobody"}


async def test_the_answer_to_a_hook_is_not_the_answer_to_a_rule() -> None:
    """What somebody said to a question that a hook put does not count as their word on the next."""
    session = _Session(_Saying("Allow", _ADA)).say("allow", "office-hours")
    await session.coordinator.process_hook_result(HookResult(action="ask_user"), "tool:pre", "gate")
    assert [one["answered_by"] for one in session.told] == [_ADA]
    assert await session.who() == {"kind": "policy", "policy": "office-hours"}


async def test_a_module_that_decides_by_itself() -> None:
    """What a module reports of a decision of its own is told as a hook's."""
    session = _Session()
    await session.coordinator.hooks.emit("approval:granted", {"tool_name": "run", "reason": "mine"})
    assert [one["answered_by"] for one in session.told] == [{"kind": "hook"}]


_CHAIN = st.lists(st.sampled_from(["Allow", "Deny", "Escalate", "escalate: you", "perhaps", OSError("x")]), max_size=5)


@given(_CHAIN)
async def test_the_one_who_decided_is_named(answers: list[Any]) -> None:
    """Of several approvers it is the first one that did not leave it to the next; when all did, it is nobody."""
    session = _Session().say("ask")
    people = [person_at("chat", f"number {number}") for number in range(len(answers))]
    approvers = [Approver(one["user"], _Saying(said), one) for said, one in zip(answers, people, strict=True)]
    Approvers(approvers).connect(session.coordinator)
    by = await session.who()
    left = [isinstance(answer, str) and answer.lower().startswith("escalate") for answer in answers]
    decided = next((number for number, is_left in enumerate(left) if not is_left), None)
    if decided is None:
        assert by == {"kind": "nobody"}
    else:
        assert by == ({"kind": "failure"} if isinstance(answers[decided], OSError) else people[decided])
    escalated = [one["answered_by"] for one in session.told if one["event"] == "approval:escalated"]
    assert escalated == people[: len(answers) if decided is None else decided]


# -- rules --


@pytest.fixture
def ruled(home: Home, project: Path) -> Callable[..., tuple[_Session, SessionPermissions]]:
    """Give `ruled(**plan)`: a session that is ruled as those of the program are."""

    def made(**plan: Any) -> tuple[_Session, SessionPermissions]:
        permissions = SessionPermissions.of(Prepared.from_plan(plan, home.path, project), home.sessions(project) / "01")
        session = _Session(_Saying("Allow"))
        session.coordinator.register_policy("rules", permissions.policy)
        return session, permissions

    return made


async def test_default_rules(ruled: Any) -> None:
    """What the program's own rules allow is told as a default; what none allows, as nobody's."""
    session, _ = ruled()
    read = await session.who("filesystem.read", {"tool_name": "read_file", "tool_input": {"file_path": "a"}})
    assert read == {"kind": "default", "rule": 'allow filesystem.read path "**"', "scope": "default"}
    assert await session.who("filesystem.read", {"path": "/etc/passwd"}) == {"kind": "nobody"}


@pytest.mark.parametrize("verdict", ["allow", "deny"])
@pytest.mark.parametrize("scope", ["user", "project", "local"])
async def test_written_rules(
    ruled: Any, files: dict[str, Path], home: Home, project: Path, scope: str, verdict: str
) -> None:
    """A rule that somebody wrote is told with whose it is, its file and its line."""
    files[scope].write_text(f"rules:\n  - {{verdict: {verdict}, command: make}}\n", encoding="utf-8")
    TrustStore(home).trust(project)
    session, _ = ruled()
    by = await session.who()
    assert by.pop("where").endswith(f"{files[scope].name}:2")
    assert by == {"kind": "rule", "rule": f'{verdict} command "make"', "scope": scope}


async def test_remembered_rules(ruled: Any) -> None:
    """A rule that came from an answer is told as that, and names who gave it."""
    session, permissions = ruled()
    (kept,) = permissions.remember([Rule("allow", "process.exec", command="make")], "session", "ada")
    by = await session.who()
    assert (by["kind"], by["scope"], by["rule"]) == ("remembered", "session", 'allow process.exec command "make"')
    assert session.told[-1]["reason"].startswith(kept.rule.reason)
    assert kept.rule.reason.endswith(" by ada")


async def test_a_project_cannot_say_that_a_person_has_answered(
    ruled: Any, files: dict[str, Path], home: Home, project: Path
) -> None:
    """A rule in a shared file that calls itself remembered is told as the project's rule."""
    files["project"].write_text(
        "rules: [{verdict: allow, command: make, reason: remembered 2026-01-01 by ada}]", encoding="utf-8"
    )
    TrustStore(home).trust(project)
    session, _ = ruled()
    by = await session.who()
    assert (by["kind"], by["scope"]) == ("rule", "project")


async def test_calls_at_once_are_told_apart(ruled: Any, files: dict[str, Path]) -> None:
    """Decisions that are made side by side each have their own rule and their own person."""
    files["user"].write_text("rules: [{verdict: allow, command: make}]", encoding="utf-8")
    session, _ = ruled()
    Approvers([Approver("terminal", _Saying("Allow"), _ADA)]).connect(session.coordinator)
    commands = ["make", "tox"] * 20
    details = [{"tool_name": "bash", "tool_input": {"command": one}} for one in commands]
    await asyncio.gather(*(session.coordinator.authorize("process.exec", one) for one in details))
    kinds = [(one["details"]["tool_input"]["command"], one["answered_by"]["kind"]) for one in session.told]
    assert sorted(kinds) == [("make", "rule")] * 20 + [("tox", "person")] * 20
