"""Questions that no rule spares: a policy which asks each time is asked about each time."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_app_cli.ui.approval.terminal import TerminalApproval
from amplifier_app_cli.ui.colour import Ink
from amplifier_core import AmplifierSession
from amplifier_foundation.approvals.answered_by import name_modules_that_decide
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.sessions.permissions import SessionPermissions
from amplifier_module_hooks_approval import mount

_MAKE = {"tool_name": "bash", "tool_input": {"command": "make check"}, "tool_call_id": "c"}


class _Person:
    """Give answers in order; then there is nobody any more."""

    ink = Ink(False)
    width = 80
    height = 50
    can_lend = False
    has_menus = False
    can_answer = True

    def __init__(self, *answers: str) -> None:
        self.answers = list(answers)
        self.labels: list[str] = []
        self.before_answer: Callable[[], object] = lambda: None

    def show(self, text: str) -> None:
        """Look away."""

    def lent(self) -> Any:
        raise NotImplementedError

    async def ask(self, label: str, draft: str = "", options: Any = ()) -> str | None:
        self.labels.append(label)
        self.before_answer()
        await asyncio.sleep(0)
        return self.answers.pop(0) if self.answers else None


async def _asking(person: _Person, project: Path, config: dict[str, Any] | None) -> Any:
    """Return the coordinator of a session with the default rules, and with hooks-approval when it has a config."""
    plan: dict[str, Any] = {"session": {"orchestrator": "loop-basic", "context": "context-simple"}}
    coordinator = AmplifierSession(plan).coordinator
    permissions = SessionPermissions.of(Prepared.from_plan(plan, project / "home", project), project / "session")
    approval = TerminalApproval(person, project, permissions=permissions)
    approval.connect(coordinator)
    coordinator.approval_system = approval
    coordinator.register_policy("rules", permissions.policy, 0)
    coordinator.register_capability("approval.is_remembered", permissions.is_allowed_by_person)
    if config is not None:
        await mount(coordinator, config)
    return coordinator


@pytest.mark.parametrize("config", [{"tools": {"bash": {"require_approval": True}}}, {"tools": "bash"}])
async def test_what_the_config_wants_confirmed_is_confirmed_each_time(tmp_path: Path, config: dict[str, Any]) -> None:
    """No *always* is offered for it, and a rule that comes while a question waits does not answer that question."""
    person = _Person("a", "y", "n")
    coordinator = await _asking(person, tmp_path, config)
    first = asyncio.ensure_future(coordinator.authorize("process.exec", _MAKE))
    second = asyncio.ensure_future(coordinator.authorize("process.exec", _MAKE))
    await asyncio.sleep(0)
    (tmp_path / "home").mkdir(exist_ok=True)
    (tmp_path / "home" / "policy.yaml").write_text("rules: [{verdict: allow, command: make check}]\n", encoding="utf-8")
    assert [(await each).granted for each in (first, second)] == [True, False]
    assert person.labels == ["Allow? [y/n/e] "] * 3


async def test_what_is_asked_for_by_its_kind_gives_way(tmp_path: Path) -> None:
    """Where hooks-approval asks because it is a command, one *always* answers what waits and what comes."""
    person = _Person("a")
    coordinator = await _asking(person, tmp_path, {})
    waiting = [asyncio.ensure_future(coordinator.authorize("process.exec", _MAKE)) for _ in range(2)]
    assert [(await each).granted for each in waiting] == [True, True]
    assert (await coordinator.authorize("process.exec", _MAKE)).granted
    assert person.labels == ["Allow? [y/n/a/e] "]


@pytest.mark.parametrize("priority", [-1, 0, 1])
@pytest.mark.parametrize("config", [None, {}])
async def test_a_policy_of_somebody_else_is_not_spared(
    tmp_path: Path, priority: int, config: dict[str, Any] | None
) -> None:
    """A policy that is not made of rules is asked for each time, whoever else asks, before it or after it.

    Neither is an *always* offered, nor does a rule that comes while a question waits answer that question.
    """
    person = _Person("y", "n")
    coordinator = await _asking(person, tmp_path, config)
    coordinator.register_policy("four-eyes", lambda action, details: ("ask", "two have to agree"), priority)
    (tmp_path / "home").mkdir(exist_ok=True)
    rule = "rules: [{verdict: allow, command: make check}]\n"
    person.before_answer = lambda: (tmp_path / "home" / "policy.yaml").write_text(rule, encoding="utf-8")
    waiting = [asyncio.ensure_future(coordinator.authorize("process.exec", _MAKE)) for _ in range(2)]
    assert [(await each).granted for each in waiting] == [True, False]
    assert person.labels == ["Allow? [y/n/e] "] * 2


@pytest.mark.parametrize("answer", ["y", "a"])
async def test_no_yes_lifts_a_rule_that_was_written_while_the_question_stood(tmp_path: Path, answer: str) -> None:
    """Deny is absolute, and the log says that it was the rule."""
    person = _Person(answer)
    coordinator = await _asking(person, tmp_path, None)
    name_modules_that_decide(coordinator)
    denied: list[dict[str, Any]] = []
    coordinator.hooks.register("approval:denied", lambda event, data: denied.append(data), name="test")
    (tmp_path / "home").mkdir(exist_ok=True)
    rule = "rules: [{verdict: deny, command: make *}]\n"
    person.before_answer = lambda: (tmp_path / "home" / "policy.yaml").write_text(rule, encoding="utf-8")
    said = await coordinator.authorize("process.exec", _MAKE)
    assert (said.granted, said.reason) == (False, "not approved: Deny: a rule denies it by now")
    assert [(data["answered_by"]["kind"], data["answered_by"]["rule"]) for data in denied] == [
        ("rule", 'deny command "make *"')
    ]
