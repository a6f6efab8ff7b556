"""The published behaviour in every world: who is asked, what runs, what is reported."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any
from unittest.mock import Mock

import pytest

from amplifier_core import ApprovalRequest, ApprovalResponse

MAKE = [("bash", {"command": "make all"})]
WRITE = [("write_file", {"file_path": "a.txt", "content": "x"})]
LOOK = [("look", {"where": "here"})]


def allow(action: str, details: dict[str, Any]) -> str:
    """Be an app's policy that has nothing against anything."""
    return "allow"


def ask(action: str, details: dict[str, Any]) -> tuple[str, str]:
    """Be an app's policy that wants everything asked for."""
    return "ask", "the app asks"


async def test_a_yes_runs_the_call_once(run: Any, world: str, person: Any, yes: Any) -> None:
    """The provider is asked once, with what it is about, and the tool runs once."""
    somebody = person(yes)
    outcome = await run(world, {"rules": []}, MAKE, person=somebody, policies=(ask,))
    assert outcome.ran == MAKE
    [request] = somebody.asked
    assert isinstance(request, ApprovalRequest)
    assert (request.tool_name, request.risk_level, request.timeout) == ("bash", "high", None)
    assert request.action == "process.exec: make all"
    assert request.details["tool_input"] == {"command": "make all"}
    assert request.details["reason"]


async def test_a_no_denies_the_call_with_its_reason(run: Any, world: str, person: Any, no: Any) -> None:
    """The tool does not run, and the model reads why."""
    outcome = await run(world, {"rules": []}, MAKE, person=person(no), policies=(allow,))
    assert outcome.ran == []
    assert "not now" in outcome.said


async def test_without_a_provider_nothing_runs(run: Any, world: str) -> None:
    """What needs approval is denied when there is nobody to ask."""
    outcome = await run(world, {"rules": []}, MAKE, policies=(allow,))
    assert outcome.ran == []
    assert "approval needed" in outcome.said


@pytest.mark.parametrize(
    "answer",
    [
        *(None, True, "yes", "allow", {"approved": True}, 1, object(), [ApprovalResponse(approved=True)]),
        *(SimpleNamespace(approved=1), SimpleNamespace(approved="yes"), Mock()),
    ],
)
async def test_an_unknown_answer_is_a_no(run: Any, world: str, person: Any, answer: Any) -> None:
    """Only a response that says yes is a yes."""
    outcome = await run(world, {"rules": [], "default_action": "allow"}, MAKE, person=person(answer), policies=(allow,))
    assert outcome.ran == []


@pytest.mark.parametrize("error", [RuntimeError("broken"), TimeoutError("the line"), ValueError(""), KeyError("x")])
async def test_a_provider_that_fails_is_a_no(run: Any, world: str, person: Any, error: Any) -> None:
    """An error of the provider denies, whatever the default is."""
    config = {"rules": [], "default_action": "allow", "default_timeout": 60}
    outcome = await run(world, config, MAKE, person=person(error), policies=(allow,))
    assert outcome.ran == []
    assert "failed" in outcome.said


@pytest.mark.parametrize(("default", "runs"), [(None, False), ("deny", False), ("allow", True), ("approve", True)])
async def test_silence_is_the_default_action(run: Any, world: str, person: Any, default: Any, runs: bool) -> None:
    """A timeout denies, unless the config says that it allows."""
    config = {"rules": [], "default_action": default, "default_timeout": 0.01}
    outcome = await run(world, config, MAKE, person=person("hang"), policies=(allow,))
    assert bool(outcome.ran) is runs
    assert runs or "timeout" in outcome.said


async def test_a_provider_that_will_not_stop_does_not_hold_the_session(
    run: Any, world: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """One that ignores its cancellation is left behind."""
    import asyncio

    monkeypatch.setattr("amplifier_module_hooks_approval.provider._GRACE", 0.01)
    released = asyncio.Event()

    class Stubborn:
        async def request_approval(self, request: Any) -> Any:
            while not released.is_set():
                try:
                    await released.wait()
                except asyncio.CancelledError:
                    continue
            return ApprovalResponse(approved=True)

    config = {"rules": [], "default_timeout": 0.01}
    outcome = await run(world, config, MAKE, person=Stubborn(), policies=(allow,))
    assert outcome.ran == []
    released.set()
    await asyncio.sleep(0)


async def test_rules_decide_before_anybody_is_asked(run: Any, world: str, person: Any, yes: Any) -> None:
    """What is approved runs unasked, what is denied does not run although somebody would say yes."""
    rules = [{"pattern": "make*", "action": "auto_approve"}, {"pattern": "rm*", "action": "auto_deny"}]
    somebody = person(yes)
    calls = [*MAKE, ("bash", {"command": "rm -rf x"}), ("bash", {"command": "make; rm x"})]
    outcome = await run(world, {"rules": rules}, calls, person=somebody)
    assert outcome.ran == MAKE
    assert somebody.asked == []


@pytest.mark.parametrize("command", ["ls", "ls -la src", "pwd", "echo hello", "ls && pwd"])
async def test_the_default_rules_let_harmless_commands_run(run: Any, world: str, command: str) -> None:
    """Without rules in the config, looking around needs nobody."""
    assert (await run(world, {}, [("bash", {"command": command})])).ran


@pytest.mark.parametrize(
    "command",
    [
        "ls; rm -rf /",
        "ls | sh",
        "echo `rm x`",
        "echo $(rm x)",
        "echo hi > /etc/passwd",
        "ls\nrm x",
        "PATH=/tmp ls",
        "pwd&&make",
    ],
)
async def test_a_pattern_covers_no_second_command(run: Any, world: str, person: Any, no: Any, command: str) -> None:
    """A harmless beginning lets nothing else in: somebody is asked."""
    somebody = person(no)
    outcome = await run(world, {}, [("bash", {"command": command})], person=somebody, policies=(allow,))
    assert outcome.ran == []
    assert len(somebody.asked) == 1


async def test_what_needs_no_approval_is_left_to_others(run: Any, world: str) -> None:
    """This module asks for nothing then, and permits nothing either."""
    outcome = await run(world, {}, LOOK)
    assert outcome.ran == (LOOK if world == "older kernel" else [])
    assert (await run(world, {}, LOOK, policies=(allow,))).ran == LOOK


@pytest.mark.parametrize(
    ("config", "calls", "state", "is_asked"),
    [
        ({}, WRITE, None, True),
        ({}, LOOK, ["look"], True),
        ({}, LOOK, "look", True),
        ({"tools": {"look": {"require_approval": True}}}, LOOK, None, True),
        ({"tools": {"bash": {"require_approval": False}}}, MAKE, None, False),
        ({"tools": {"bash": {"require_approval": False}}}, MAKE, ["bash"], True),
        ({"policy_driven_only": True}, MAKE, None, False),
        ({"policy_driven_only": True}, MAKE, ["bash"], True),
        ({"policy_driven_only": True, "tools": {"bash": {"require_approval": True}}}, MAKE, None, True),
        ({"tools": ["bash"]}, LOOK, None, True),
        ({}, [("bash", {"command": "ls"})], ["bash"], True),
        ({}, [("shell", {"command": "make"})], None, True),
    ],
)
async def test_who_needs_approval(
    run: Any, world: str, person: Any, no: Any, config: Any, calls: Any, state: Any, is_asked: bool
) -> None:
    """Session, config, name and attribute of a tool are reasons to ask, as published."""
    somebody = person(no)
    outcome = await run(world, config, calls, person=somebody, state=state, policies=(allow,))
    assert len(somebody.asked) == is_asked
    assert bool(outcome.ran) is not is_asked


@pytest.mark.parametrize("attribute", ["require_approval", "requires_approval"])
async def test_a_tool_may_say_that_it_needs_approval(run: Any, world: str, attribute: str) -> None:
    """An attribute of the tool is enough."""

    def mark(coordinator: Any) -> None:
        setattr(coordinator.get("tools")["look"], attribute, True)

    assert (await run(world, {}, LOOK, policies=(allow,), prepare=mark)).ran == []


async def test_what_is_remembered_is_that_call_alone(run: Any, world: str, person: Any) -> None:
    """The same input is not asked again, another one is."""
    somebody = person(ApprovalResponse(approved=True, remember=True))
    clean = ("bash", {"command": "make clean"})
    # Our loop makes its calls side by side: the same one twice is asked for before it is answered.
    calls = [*MAKE, clean] if world == "our loop" else [*MAKE, *MAKE, clean, *MAKE]
    outcome = await run(world, {"rules": []}, calls, person=somebody)
    assert outcome.ran == calls
    assert [request.details["tool_input"]["command"] for request in somebody.asked] == ["make all", "make clean"]


async def test_secrets_are_masked_in_the_question(run: Any, world: str, person: Any, no: Any) -> None:
    """What the session knows as a secret is not shown, and is not lost to the tool."""

    def scrub(value: Any) -> Any:
        import json

        return json.loads(json.dumps(value).replace("hunter2", "***"))

    somebody = person(no)
    calls = [("bash", {"command": "login hunter2"})]
    await run(
        world,
        {},
        calls,
        person=somebody,
        prepare=lambda coordinator: coordinator.register_capability("redaction.scrub", scrub),
    )
    assert "hunter2" not in str(somebody.asked)
    assert "***" in somebody.asked[0].action


async def test_the_events_have_the_published_keys(run: Any, world: str, person: Any, yes: Any, no: Any) -> None:
    """Whoever wrote a hook for the published module finds what it looks for."""
    granted = await run(world, {"rules": []}, MAKE, person=person(yes))
    [required] = granted.payloads("approval:required")
    assert (required["tool_name"], required["action"], required["risk_level"]) == ("bash", "process.exec", "high")
    [report] = granted.payloads("approval:granted")
    assert report["tool_name"] == "bash"
    assert report["reason"].startswith("approved")
    denied = await run(world, {"rules": []}, MAKE, person=person(no))
    [report] = denied.payloads("approval:denied")
    assert report["tool_name"] == "bash"
    assert "not now" in report["reason"]
    ruled = await run(world, {"rules": [{"pattern": "make*", "action": "auto_deny", "description": "no builds"}]}, MAKE)
    assert ruled.payloads("approval:required") == []
    [report] = ruled.payloads("approval:denied")
    assert "no builds" in report["reason"]


async def test_a_coordinator_that_cannot_be_asked_denies_on_this_kernel(yes: Any) -> None:
    """A missing `authorize` is the older kernel's; on ours it is a fault, and lets nothing run."""
    from amplifier_core import HookRegistry
    from amplifier_module_hooks_approval import mount

    capabilities: dict[str, Any] = {}
    coordinator = SimpleNamespace(
        hooks=HookRegistry(),
        get=lambda point: {},
        register_capability=capabilities.__setitem__,
        get_capability=capabilities.get,
    )
    await mount(coordinator, {"policy_driven_only": True})
    verdict = await coordinator.hooks.emit("tool:pre", {"tool_name": "look", "tool_input": {}})
    assert verdict.action == "deny"
    assert "cannot be asked" in str(verdict.reason)


async def test_a_gate_that_breaks_denies_even_without_authorize() -> None:
    """On this kernel the handlers are gates, whatever the coordinator lacks: what they cannot catch is no consent."""
    from amplifier_core import HookRegistry
    from amplifier_module_hooks_approval import mount

    class Panic(BaseException):
        pass

    def panic(point: str) -> Any:
        raise Panic

    capabilities: dict[str, Any] = {}
    coordinator = SimpleNamespace(
        hooks=HookRegistry(),
        get=panic,
        register_capability=capabilities.__setitem__,
        get_capability=capabilities.get,
    )
    await mount(coordinator, {"policy_driven_only": True})
    verdict = await coordinator.hooks.emit("tool:pre", {"tool_name": "look", "tool_input": {}})
    assert verdict.action == "deny"
    assert "Gate 'approval_hook' failed" in str(verdict.reason)
