"""Hazards of what hooks decide: nothing they say, and no silence of theirs, opens what was closed."""

from __future__ import annotations

import json
import shlex
from collections.abc import Callable
from typing import Any

import pytest

Group = Callable[..., list[dict[str, Any]]]


def says(**answer: Any) -> str:
    """Return a command that answers with JSON."""
    return f"printf %s {shlex.quote(json.dumps(answer))}"


ALLOWS = (
    says(decision="approve"),
    says(decision="allow", reason="fine"),
    says(hookSpecificOutput={"hookEventName": "PreToolUse", "permissionDecision": "allow"}),
    "true",
)


@pytest.mark.parametrize("allowing", ALLOWS)
@pytest.mark.parametrize("is_first", [True, False])
async def test_deny_rule_wins_over_allowing_hook(make_rig: Any, group: Group, allowing: str, is_first: bool) -> None:
    """A hook that allows overrules neither a rule of the session nor another hook, before or after it."""
    by_rule = await make_rig({"PreToolUse": group(allowing)}, policy=lambda action, details: ("deny", "the rule"))
    await by_rule.run()
    assert by_rule.tools["bash"].inputs == []
    assert (await by_rule.texts("tool")) == ["Denied: the rule"]
    commands = [allowing, "echo 'the hook' >&2; exit 2"]
    by_hook = await make_rig({"PreToolUse": group(*(commands if is_first else reversed(commands)))})
    await by_hook.run()
    assert by_hook.tools["bash"].inputs == []
    [text] = await by_hook.texts("tool")
    assert "the hook" in text


@pytest.mark.parametrize("answer", ["Allow", "Deny", None])
async def test_ask_is_a_floor(make_rig: Any, group: Group, approvals: Any, answer: str | None) -> None:
    """When one hook asks, a person decides, whatever other hooks and rules allow; nobody to ask is a refusal."""
    asks = says(hookSpecificOutput={"permissionDecision": "ask", "permissionDecisionReason": "is it Monday?"})
    approval = None if answer is None else approvals(answer)
    rig = await make_rig({"PreToolUse": group(ALLOWS[0], asks, ALLOWS[1])}, approval=approval)
    await rig.run()
    assert len(rig.tools["bash"].inputs) == (1 if answer == "Allow" else 0)
    if approval is not None:
        [question] = approval.questions
        assert "is it Monday?" in question


async def test_modified_input_is_checked_again(make_rig: Any, group: Group, project: Any) -> None:
    """What a hook makes of an input is judged by the hooks that ran before it, and by the rules."""
    changes = says(hookSpecificOutput={"updatedInput": {"command": "rm -rf ."}})
    guard = "if grep -q 'rm -rf'; then echo 'no rm' >&2; exit 2; fi"
    rig = await make_rig({"PreToolUse": group(guard, changes)})
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert "no rm" in (await rig.texts("tool"))[0]

    def rule(action: str, details: dict[str, Any]) -> str:
        return "deny" if "rm" in details["tool_input"]["command"] else "allow"

    ruled = await make_rig({"PreToolUse": group(changes)}, policy=rule)
    await ruled.run()
    assert ruled.tools["bash"].inputs == []
    harmless = await make_rig({"PreToolUse": group(guard, says(newContent={"command": "pwd"}))}, policy=rule)
    await harmless.run()
    assert harmless.tools["bash"].inputs == [{"command": "pwd"}]
    judged = [data["hook"] for data in harmless.heard("hook-shell:ran")]
    assert judged == ["config#PreToolUse.0.0", "config#PreToolUse.0.1", "config#PreToolUse.0.0"]


async def test_hooks_that_never_agree_are_a_refusal(make_rig: Any, group: Group) -> None:
    """Two hooks that change each other's changes for ever end in a refusal, in bounded time."""
    one, other = says(newContent={"command": "one"}), says(newContent={"command": "other"})
    rig = await make_rig({"PreToolUse": group(one, other)})
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert "still change each other" in (await rig.texts("tool"))[0]


async def test_a_change_that_is_lost_is_a_refusal(make_rig: Any, group: Group) -> None:
    """When the verdict of another handler takes a hook's change back, the input as it was does not run."""
    from amplifier_core import HookResult

    rig = await make_rig({"PreToolUse": group(says(newContent={"command": "safe"}))})
    rig.session.coordinator.hooks.register(
        "tool:pre", lambda event, data: HookResult(action="inject_context", context_injection="note"), priority=50
    )
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert "has taken that back" in (await rig.texts("tool"))[0]


async def test_a_question_about_a_change_is_a_refusal(make_rig: Any, group: Group, approvals: Any) -> None:
    """A yes for the input as it was must not be taken for one to what a hook made of it."""
    both = says(hookSpecificOutput={"permissionDecision": "ask", "updatedInput": {"command": "safe"}})
    rig = await make_rig({"PreToolUse": group(both)}, approval=approvals("Allow"))
    await rig.run()
    assert rig.tools["bash"].inputs == []


@pytest.mark.parametrize("policy", [None, "allow"])
async def test_timeout_is_not_a_refusal(make_rig: Any, group: Group, policy: str | None) -> None:
    """A hook that is late is reported as late: nobody has refused; what then happens is the policy's to say."""
    rig = await make_rig({"PreToolUse": group("sleep 600", timeout=0.2, **({"on_timeout": policy} if policy else {}))})
    await rig.run()
    [late] = rig.heard("hook-shell:timeout")
    assert (late["status"], late["verdict"]) == ("timeout", "continue" if policy else "deny")
    assert late["hook"] == "config#PreToolUse.0.0"
    assert "0.2 s" in late["error"]
    assert rig.heard("hook-shell:failed", "hook-shell:ran", "approval:denied") == []
    assert len(rig.tools["bash"].inputs) == (1 if policy else 0)
    [text] = await rig.texts("tool")
    assert ("timeout" in text) == (policy is None)
    assert "user" not in text.lower()


@pytest.mark.parametrize("is_gate", [True, False])
@pytest.mark.parametrize(
    ("command", "expected"),
    [
        ("no-such-program-here", "cannot be run"),
        ("kill -9 $$", "killed"),
        ("exit 126", "cannot be run"),
        ('echo \'{"decision": "aprove"}\'', "aprove"),
        ("echo '{\"decision\": '", "not JSON"),
        ("echo '{\"reason\": 7}'", "must be a text"),
        ("echo '{'; head -c 200000 /dev/zero | tr '\\0' x", "longer than what is read"),
    ],
)
async def test_no_answer_is_no_consent(make_rig: Any, group: Group, command: str, expected: str, is_gate: bool) -> None:
    """A hook that cannot run, is killed or talks nonsense stops what waits for it, and nothing else."""
    rig = await make_rig({"PreToolUse" if is_gate else "PostToolUse": group(command)})
    await rig.run()
    assert rig.reports() == [("hook-shell:failed", "error", "deny" if is_gate else "continue")]
    assert expected in rig.heard("hook-shell:failed")[0]["error"]
    assert len(rig.tools["bash"].inputs) == (0 if is_gate else 1)
    assert [level for level, _ in rig.display.shown] == ["warning"]


async def test_a_complaint_stops_nothing(make_rig: Any, group: Group) -> None:
    """Any other exit code is reported and shown, and the call goes on."""
    rig = await make_rig({"PreToolUse": group("echo oops >&2; exit 1")})
    await rig.run()
    assert rig.reports() == [("hook-shell:failed", "error", "continue")]
    assert len(rig.tools["bash"].inputs) == 1
    assert "oops" in rig.display.shown[0][1]
