"""Whether an action may happen: policies speak, a person may be asked, and silence means no."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import pytest

from amplifier_core import HookResult, ModuleCoordinator
from amplifier_core.authorization import Authorization

OUTCOMES = ("approval:required", "approval:granted", "approval:denied", "policy:violation")


class Guarded:
    """A coordinator whose authorization events are kept."""

    def __init__(self, approval: Any = None, **section: Any) -> None:
        owner = SimpleNamespace(session_id="s", parent_id=None, config={"session": section})
        self.kernel = ModuleCoordinator(owner, approval)
        self.events: list[tuple[str, dict[str, Any]]] = []
        for event in OUTCOMES:
            self.kernel.hooks.register(event, self._hear)

    def _hear(self, event: str, data: dict[str, Any]) -> None:
        own = {key: data[key] for key in ("action", "details", "source", "reason")}
        self.events.append((event, own))

    def policy(self, answer: Any, name: str = "rules", priority: int = 0) -> None:
        def decide(action: str, details: dict[str, Any]) -> Any:
            if isinstance(answer, BaseException):
                raise answer
            return answer

        self.kernel.register_policy(name, decide, priority)

    async def authorize(self, action: str = "process.exec", **details: Any) -> Authorization:
        return await self.kernel.authorize(action, details)

    @property
    def names(self) -> list[str]:
        return [event for event, _ in self.events]


def approval(answer: Any, asked: list[Any] | None = None) -> Any:
    """Return an approval system that always answers the same."""

    async def request_approval(*arguments: Any) -> Any:
        if asked is not None:
            asked.append(arguments)
        if isinstance(answer, BaseException):
            raise answer
        return answer

    return SimpleNamespace(request_approval=request_approval)


async def test_without_a_policy_everything_is_denied() -> None:
    """The kernel has no opinion, and no opinion is a no that no policy is blamed for."""
    guarded = Guarded()
    outcome = await guarded.authorize(path="/etc")

    assert not outcome
    assert outcome == Authorization(False, "no policy allows it", "kernel")
    facts = {"action": "process.exec", "details": {"path": "/etc"}, "source": "kernel", "reason": "no policy allows it"}
    assert guarded.events == [("approval:denied", facts)]


async def test_a_denying_policy_is_a_violation() -> None:
    """A deny by a policy is a violation and a denial, both with action, details, source and reason."""
    guarded = Guarded()
    guarded.policy(("deny", "not in this house"), "house")
    outcome = await guarded.authorize(command="rm")

    assert outcome == Authorization(False, "not in this house", "house")
    facts = {"action": "process.exec", "details": {"command": "rm"}, "source": "house", "reason": "not in this house"}
    assert guarded.events == [("policy:violation", facts), ("approval:denied", facts)]


async def test_a_person_who_refuses_is_no_violation() -> None:
    """Only policies are violated; a person's no is a denial."""
    guarded = Guarded(approval("Deny"))
    guarded.policy(("ask", "dangerous"), "rules")
    outcome = await guarded.authorize()

    assert (outcome.granted, outcome.source) == (False, "approval_system")
    assert guarded.names == ["approval:required", "approval:denied"]


async def test_asking_emits_who_wants_to_know() -> None:
    """approval:required carries the asking policy and its reason, the person's answer follows."""
    asked: list[Any] = []
    guarded = Guarded(approval("Allow once", asked))
    guarded.policy(("ask", "it deletes files"), "rules")
    outcome = await guarded.authorize("filesystem.write", path="a")

    assert (outcome.granted, outcome.source) == (True, "approval_system")
    required, granted = guarded.events
    asking = {"action": "filesystem.write", "details": {"path": "a"}, "source": "rules", "reason": "it deletes files"}
    assert required == ("approval:required", asking)
    assert granted[0] == "approval:granted"
    assert granted[1]["source"] == "approval_system"
    [(prompt, options, timeout, default)] = asked
    assert "filesystem.write" in prompt
    assert "it deletes files" in prompt
    assert (options, timeout, default) == (["Allow", "Deny"], float("inf"), "deny")


@pytest.mark.parametrize("answer", ["Deny", "yes", "", None, 5, True, ["allow"], OSError("gone"), TimeoutError()])
async def test_whatever_is_no_clear_yes_is_a_no(answer: Any) -> None:
    """An unknown answer, a fault of the approval system or a timeout denies, and blames no policy."""
    guarded = Guarded(approval(answer))
    guarded.policy("ask")

    assert not await guarded.authorize()
    assert guarded.names == ["approval:required", "approval:denied"]


@pytest.mark.parametrize("system", [None, object()])
async def test_nobody_to_ask_denies(system: Any) -> None:
    """No approval system, or one that cannot be asked, is a denial that says so."""
    guarded = Guarded(system)
    guarded.policy("ask")
    outcome = await guarded.authorize()

    assert not outcome
    assert "approval system" in outcome.reason
    assert guarded.names == ["approval:required", "approval:denied"]


async def test_the_approval_timeout_denies() -> None:
    """session.approval_timeout bounds the asking; running out of it is no refusal by a person."""

    async def never(*_: Any) -> str:
        await asyncio.Event().wait()
        return "Allow"

    guarded = Guarded(SimpleNamespace(request_approval=never), approval_timeout=0.01)
    guarded.policy("ask")
    outcome = await guarded.authorize()

    assert not outcome
    assert "timeout" in outcome.reason
    assert outcome.source == "kernel"


@pytest.mark.parametrize(("approval_timeout", "granted"), [(None, True), (60, True), (0.05, False)])
async def test_a_person_who_is_asked_from_a_hook_has_the_time_they_need(
    approval_timeout: float | None, granted: bool
) -> None:
    """session.hook_timeout does not cut off a gate whose person thinks; session.approval_timeout does hold there."""
    going = asyncio.Event()

    async def think(*arguments: Any) -> str:
        asyncio.get_running_loop().call_later(0.3, going.set)
        await going.wait()
        return "Allow"

    section = {"hook_timeout": 0.1} | ({} if approval_timeout is None else {"approval_timeout": approval_timeout})
    guarded = Guarded(SimpleNamespace(request_approval=think), **section)
    guarded.policy("ask")
    outcomes: list[Authorization] = []

    async def gate(event: str, data: dict[str, Any]) -> None:
        outcomes.append(await guarded.authorize())

    guarded.kernel.hooks.register("tool:pre", gate, name="gate", on_error="deny")
    assert (await guarded.kernel.hooks.emit("tool:pre", {})).action == "continue"
    assert [outcome.granted for outcome in outcomes] == [granted]
    assert granted or "timeout" in outcomes[0].reason


class Odd:
    """An answer that cannot even be looked at."""

    def __bool__(self) -> bool:
        raise ValueError("neither")

    def __str__(self) -> str:
        raise ValueError("no text")


@pytest.mark.parametrize(
    "answer",
    [
        *(ValueError("broken"), asyncio.CancelledError(), Odd(), ("allow", Odd()), True, 1, "yes", "", "ALLOW"),
        *([], {}, ("allow",), ("allow", "a", "b"), ["allow", "list"], b"allow", object()),
    ],
)
async def test_a_policy_that_fails_or_talks_nonsense_denies(answer: Any) -> None:
    """Raising, cancelling or answering anything unknown is a deny by that policy, over every allow."""
    guarded = Guarded()
    guarded.policy("allow", "friendly")
    guarded.policy(answer, "broken")
    outcome = await guarded.authorize()

    assert not outcome
    assert outcome.source == "broken"
    assert guarded.names == ["policy:violation", "approval:denied"]


async def test_a_hanging_policy_denies_when_hooks_have_a_deadline() -> None:
    """session.hook_timeout bounds policies too; the reason says timeout."""
    guarded = Guarded(hook_timeout=0.01)

    async def hang(action: str, details: dict[str, Any]) -> str:
        await asyncio.Event().wait()
        return "allow"

    guarded.kernel.register_policy("slow", hang)
    outcome = await guarded.authorize()

    assert not outcome
    assert outcome.source == "slow"
    assert "timeout" in outcome.reason


async def test_policies_are_asked_by_priority_then_registration() -> None:
    """Lower priorities are asked earlier, and the first of equal verdicts is the one named."""
    guarded = Guarded()
    asked: list[str] = []

    def register(name: str, priority: int) -> None:
        def allow(action: str, details: dict[str, Any]) -> str:
            asked.append(name)
            return "allow"

        guarded.kernel.register_policy(name, allow, priority)

    for name, priority in (("b", 0), ("c", 0), ("d", 5), ("a", -1)):
        register(name, priority)

    assert (await guarded.authorize()).source == "a"
    assert asked == ["a", "b", "c", "d"]


async def test_policies_share_nothing() -> None:
    """What a policy does to the details reaches neither the next policy, the caller nor the events."""
    guarded = Guarded()
    seen: list[Any] = []

    def spoil(action: str, details: dict[str, Any]) -> None:
        details["list"].append("spoilt")
        details["new"] = 1

    guarded.kernel.register_policy("spoiler", spoil)
    guarded.kernel.register_policy("next", lambda action, details: seen.append(details))
    details = {"list": [1]}
    await guarded.kernel.authorize("x", details)

    assert seen == [{"list": [1]}]
    assert details == {"list": [1]}
    assert guarded.events[0][1]["details"] == {"list": [1]}


async def test_a_removed_policy_is_silent() -> None:
    """The returned function removes exactly that policy, and may be called again."""
    guarded = Guarded()
    guarded.policy("allow", "kept")
    remove = guarded.kernel.register_policy("kept", lambda action, details: "deny")
    remove()
    remove()

    assert await guarded.authorize()


async def test_a_hook_may_refuse_to_have_a_person_asked() -> None:
    """A deny of approval:required is final: the user is not asked."""
    asked: list[Any] = []
    guarded = Guarded(approval("Allow", asked))
    guarded.policy("ask")
    guarded.kernel.hooks.register(
        "approval:required", lambda event, data: HookResult(action="deny", reason="nobody is at home"), priority=1
    )
    outcome = await guarded.authorize()

    assert outcome == Authorization(False, "nobody is at home", "hooks")
    assert asked == []
    assert guarded.names == ["approval:required", "policy:violation", "approval:denied"]
