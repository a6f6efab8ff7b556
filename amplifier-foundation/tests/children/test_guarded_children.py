"""What asks, denies and records in a session does so in its children."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.approvals.answered_by import person_at
from amplifier_foundation.approvals.approvers import Approver, Approvers
from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.documents import Document
from amplifier_foundation.sessions.runtime import SessionRuntime

_ENVIRON = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
_SHELL = {
    "module": "hook-shell",
    "config": {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "echo No. >&2; exit 2"}]}]}},
}


class Asked:
    """Say no to every question, and remember it."""

    def __init__(self) -> None:
        self.questions = list[str]()

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.questions.append(prompt)
        return "Deny"


@pytest.fixture
def commanding(tree: Any) -> Any:
    """Return a tree whose root and agents run a command that rules allow."""
    (tree.home / "policy.yaml").write_text("rules: [{action: process.exec, verdict: allow}]", encoding="utf-8")
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
    turns = [{"tool_calls": [{"name": "bash", "arguments": {"command": "touch seen.txt"}}]}, {"text": "Done."}]
    tree.script(turns, {"explorer": turns, "builder": turns})
    return tree


def _untrusted(tree: Any) -> Any:
    """Return what a session is made of that a user has put together in a project that nobody trusts."""
    layers = (Layer(Document(Path("user.yaml"), {}), "user", "user", "b", "b"),)
    return replace(tree.prepared(), is_made_by_app=False, layers=layers)


@pytest.mark.parametrize(
    "overlay",
    [
        {"tools": {"bash": {"require_approval": False}}},
        {"tools": None, "policy_driven_only": True},
        {"rules": [{"action": "process.exec", "verdict": "allow"}]},
    ],
)
async def test_an_agent_does_not_lift_what_its_parent_asks_for(
    commanding: Any, spawn_in: Callable[..., Any], overlay: dict[str, Any]
) -> None:
    """Ask is a floor, also across delegation and whatever the agent says of hooks-approval."""
    config = {"rules": [], "tools": {"bash": {"require_approval": True}}}
    commanding.plan["hooks"].append({"module": "hooks-approval", "config": config})
    commanding.plan["agents"]["explorer"]["hooks"] = [{"module": "hooks-approval", "config": overlay}]
    asked = Asked()
    async with commanding.run(trust=True, environ=_ENVIRON) as runtime:
        runtime.session.coordinator.approval_system = asked
        await spawn_in(runtime)("explorer", "Go.")
    assert len(asked.questions) == 1
    assert not (commanding.project / "seen.txt").exists()


@pytest.mark.parametrize("state", [{"bash"}, ["bash"], {"bash": 1}, "nonsense"])
async def test_tools_that_a_session_wants_confirmed_are_confirmed_for_its_children(
    commanding: Any, spawn_in: Callable[..., Any], state: Any
) -> None:
    """What is in `require_approval_tools` counts below, what is no list of names for every tool."""
    commanding.plan["hooks"].append({"module": "hooks-approval", "config": {"policy_driven_only": True}})
    asked = Asked()
    async with commanding.run(environ=_ENVIRON) as runtime:
        runtime.session.coordinator.approval_system = asked
        runtime.session.coordinator.session_state["require_approval_tools"] = state
        await spawn_in(runtime)("explorer", "Go.")
    assert len(asked.questions) == 1
    assert not (commanding.project / "seen.txt").exists()


async def test_tools_to_be_confirmed_are_so_for_all_below(
    commanding: Any, spawn_in: Callable[..., Any], delegating: str
) -> None:
    """Also below a child that has a provider of its own."""
    commanding.plan["hooks"].append({"module": "hooks-approval", "config": {"policy_driven_only": True}})
    commanding.plan["tools"].append({"module": delegating})
    (commanding.home / "policy.yaml").write_text(
        "rules: [{action: process.exec, verdict: allow}, {action: tool.call, verdict: allow}]", encoding="utf-8"
    )
    runs = [{"tool_calls": [{"name": "bash", "arguments": {"command": "touch seen.txt"}}]}, {"text": "Done."}]
    calls = [{"tool_calls": [{"name": "call", "arguments": {"agent": "builder"}}]}, {"text": "Done."}]
    commanding.script([], {"explorer": calls, "builder": runs})
    commanding.plan["agents"]["explorer"]["provider_preferences"] = [{"provider": "provider-mock", "model": "m"}]
    asked = Asked()
    async with commanding.run() as runtime:
        runtime.session.coordinator.approval_system = asked
        runtime.session.coordinator.session_state["require_approval_tools"] = {"bash"}
        await spawn_in(runtime)("explorer", "Go.")
    assert len(asked.questions) == 1
    assert not (commanding.project / "seen.txt").exists()


@pytest.mark.parametrize("is_trusted", [True, False])
async def test_an_agent_does_not_lift_what_shell_hooks_deny(
    commanding: Any, spawn_in: Callable[..., Any], is_trusted: bool
) -> None:
    """Deny is absolute: not even an agent that nobody trusts makes its parent's hooks untrusted by naming them."""
    commanding.plan["hooks"].append(_SHELL)
    own = {"hooks": {"PreToolUse": [{"hooks": [{"type": "command", "command": "touch own.txt"}]}]}}
    commanding.plan["agents"]["explorer"]["hooks"] = [{"module": "hook-shell", "config": own}]
    prepared = commanding.prepared() if is_trusted else _untrusted(commanding)
    async with SessionRuntime(prepared, environ=_ENVIRON, trust=is_trusted, spawner=Spawner()) as runtime:
        child = await spawn_in(runtime)("explorer", "Go.")
    assert "No." in str([text for role, text in commanding.said(child["session_id"]) if role == "tool"])
    assert not (commanding.project / "seen.txt").exists()
    assert is_trusted or not (commanding.project / "own.txt").exists()


@pytest.mark.parametrize("wish", [{"exclude_hooks": ["hook-shell"]}, {"inherit_hooks": []}])
async def test_a_caller_does_not_leave_shell_hooks_behind(
    commanding: Any, spawn_in: Callable[..., Any], wish: dict[str, Any]
) -> None:
    """They are a guard, and guards are passed on."""
    commanding.plan["hooks"].append(_SHELL)
    async with commanding.run(trust=True) as runtime:
        await spawn_in(runtime)("explorer", "Go.", hook_inheritance=wish)
    assert not (commanding.project / "seen.txt").exists()


@pytest.mark.parametrize("wish", [{"exclude_hooks": ["hooks-mode"]}, {"inherit_hooks": []}, {}])
async def test_neither_caller_nor_agent_leaves_a_mode(
    commanding: Any, spawn_in: Callable[..., Any], wish: dict[str, Any]
) -> None:
    """What the mode of a session does not let run does not run in its children either."""
    commanding.plan["hooks"].append({"module": "hooks-mode"})
    open_to_all = {"module": "hooks-mode", "config": {"infrastructure_tools": ["bash"]}}
    commanding.plan["agents"]["explorer"]["hooks"] = [] if wish else [open_to_all]
    async with commanding.run(trust=True) as runtime:
        runtime.session.coordinator.session_state["active_mode"] = "explore"
        child = await spawn_in(runtime)("explorer", "Go.", hook_inheritance=wish)
    assert "Mode 'explore'" in str(commanding.said(child["session_id"]))
    assert not (commanding.project / "seen.txt").exists()


async def test_hooks_of_an_agent_run_beside_those_of_its_parent(commanding: Any, spawn_in: Callable[..., Any]) -> None:
    """It brings its own under the name of the module, and both are heard."""
    notes = [
        {"PreToolUse": [{"hooks": [{"type": "command", "command": f"touch {whose}.txt"}]}]} for whose in ("a", "b")
    ]
    commanding.plan["hooks"].append({"module": "hook-shell", "config": {"hooks": notes[0]}})
    commanding.plan["agents"]["explorer"]["hooks"] = [{"module": "hook-shell", "config": {"hooks": notes[1]}}]
    async with commanding.run(trust=True) as runtime:
        await spawn_in(runtime)("explorer", "Go.")
    assert {path.name for path in commanding.project.glob("*.txt")} == {"a.txt", "b.txt", "seen.txt"}


@pytest.mark.parametrize("config", [{"exclude_events": ["*"]}, {"exclude_events": ["approval:*", "tool:*"]}])
@pytest.mark.parametrize("named", [{}, {"id": "another"}])
async def test_an_agent_leaves_nothing_out_of_the_log_that_its_parent_records(
    commanding: Any, spawn_in: Callable[..., Any], config: dict[str, Any], named: dict[str, str]
) -> None:
    """What it does is in its log."""
    commanding.plan["agents"]["explorer"]["hooks"] = [{"module": "hooks-logging", "config": config, **named}]
    async with commanding.run(trust=True) as runtime:
        child = await spawn_in(runtime)("explorer", "Go.")
    events = {event for event, _ in commanding.events(child["session_id"])}
    assert {"tool:pre", "approval:granted", "tool:post", "llm:response", "session:end"} <= events


async def test_a_child_that_goes_on_is_guarded_as_its_parent_is_then(
    commanding: Any, spawn_in: Callable[..., Any]
) -> None:
    """It was made when nothing asked; now something does."""
    async with commanding.run() as runtime:
        child = (await spawn_in(runtime)("explorer", "Go."))["session_id"]
        await runtime.execute("Go.")
    (commanding.project / "seen.txt").unlink()
    commanding.plan["hooks"].append({"module": "hooks-approval", "config": {"tools": {"bash": True}}})
    asked = Asked()
    async with commanding.run(saved=runtime.session_id) as again:
        again.session.coordinator.approval_system = asked
        await again.session.coordinator.get_capability("session.resume")(child, "Again.")
    assert len(asked.questions) == 1
    assert not (commanding.project / "seen.txt").exists()


async def test_the_log_of_a_child_names_who_answered(tree: Any, spawn_in: Any) -> None:
    """The log of a child names the person who answered its approval request."""
    (tree.home / "policy.yaml").write_text("rules: [{action: process.exec, verdict: ask}]", encoding="utf-8")
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
    tree.script([], {"explorer": [{"tool_calls": [{"name": "bash", "arguments": {"command": "true"}}]}, {"text": "."}]})
    answers = iter(["Allow", "Deny", TimeoutError("late")])

    class Asked:
        async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
            answer: Any = next(answers)
            if isinstance(answer, TimeoutError):
                raise answer
            return str(answer)

    async with tree.run(environ=_ENVIRON) as runtime:
        ada = person_at("chat", "ada")
        Approvers([Approver("terminal", Asked(), ada)]).connect(runtime.session.coordinator)
        results = [await spawn_in(runtime)("explorer", f"Go {n}.", tool_call_id=f"c{n}") for n in range(3)]
    logged = [event for result in results for event in tree.events(result["session_id"])]
    decided = [(name, data["answered_by"]) for name, data in logged if name in ("approval:granted", "approval:denied")]
    assert decided == [
        ("approval:granted", ada),
        ("approval:denied", ada),
        ("approval:denied", {"kind": "timeout"}),
    ]
