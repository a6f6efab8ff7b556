"""What an untrusted project's agents say of modules that run commands counts nowhere in the tree."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.bundles.bundle import Layer
from amplifier_foundation.children.capabilities import Spawner
from amplifier_foundation.children.plan import child_plan
from amplifier_foundation.documents import Document
from amplifier_foundation.sessions.resume import load_session
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_testing.loop.fakes import PlainTool

_SHELL = {"module": "hook-shell", "config": {"hooks": {}}}


async def test_a_child_and_a_resumed_child_are_judged_by_what_is_in_their_plan(
    tree: Any, spawn_in: Callable[..., Any], add_tools: Callable[..., str]
) -> None:
    """A resumed child has no overlay of its own: its plan has what the agent said all the same."""
    heard: dict[str, bool] = {}

    async def on_ready(coordinator: Any) -> None:
        heard[coordinator.session_id] = coordinator.get_capability("plan.is_trusted")("hook-shell")

    tree.plan["tools"] = [{"module": add_tools(lambda coordinator: [PlainTool("look")], on_ready)}]
    tree.plan["agents"]["explorer"]["hooks"] = [_SHELL]
    layers = (Layer(Document(Path("user.yaml"), {}), "user", "user", "b", "b"),)
    prepared = replace(tree.prepared(), is_made_by_app=False, layers=layers)
    async with SessionRuntime(prepared, environ={}, spawner=Spawner()) as runtime:
        assert heard[runtime.session_id] is True
        child = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        assert heard.pop(child["session_id"]) is False
        await runtime.session.coordinator.get_capability("session.resume")(child["session_id"], "Again.")
        assert heard[child["session_id"]] is False
        other = await spawn_in(runtime)("builder", "Go.", tool_call_id="c2")
        assert heard[other["session_id"]] is True
    assert load_session(tree.place / child["session_id"]).turn_count == 2


async def test_a_grandchild_is_judged_by_what_the_agent_above_it_said(
    tree: Any, spawn_in: Callable[..., Any], add_tools: Callable[..., str], delegating: str
) -> None:
    """Its own agent says nothing of the module: what it has of it comes from the agent that started it."""
    heard: dict[str, bool] = {}

    async def on_ready(coordinator: Any) -> None:
        heard[coordinator.session_id] = coordinator.get_capability("plan.is_trusted")("hook-shell")

    module = add_tools(lambda coordinator: [PlainTool("look")], on_ready)
    tree.plan["tools"] = [{"module": module}, {"module": delegating}]
    tree.plan["agents"]["explorer"]["hooks"] = [_SHELL]
    calls = [{"name": "call", "arguments": {"agent": "builder"}, "id": "inner"}]
    tree.script([], {"explorer": [{"tool_calls": calls}, {"text": "Done."}], "builder": [{"text": "Built."}]})
    layers = (Layer(Document(Path("user.yaml"), {}), "user", "user", "b", "b"),)
    prepared = replace(tree.prepared(), is_made_by_app=False, layers=layers)
    async with SessionRuntime(prepared, environ={}, spawner=Spawner()) as runtime:
        await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        await spawn_in(runtime)("builder", "Go.", tool_call_id="c2")
        alone = spawn_in(runtime).child_id("builder", "c2")
    below = next(name for name in heard if name.endswith("_builder") and name != alone)
    assert "hook-shell" in [entry["module"] for entry in tree.metadata(below)["config"]["hooks"]]
    assert (heard[runtime.session_id], heard[alone], heard[below]) == (True, True, False)


async def test_hooks_of_an_agent_are_not_the_users(
    tree: Any, spawn_in: Callable[..., Any], add_tools: Callable[..., str]
) -> None:
    """What an agent says of hooks may come from the project, trusted or not; a hook of the root stays the user's."""
    heard: dict[str, list[bool]] = {}
    added = {"module": "hook-shell", "id": "added", "config": {"hooks": {"Stop": []}}}

    async def on_ready(coordinator: Any) -> None:
        ask = coordinator.get_capability("plan.is_hook_of_user")
        heard[coordinator.session_id] = [ask("hook-shell", entry["config"]) for entry in (_SHELL, added)]

    tree.plan["tools"] = [{"module": add_tools(lambda coordinator: [PlainTool("look")], on_ready)}]
    tree.plan["hooks"] = [*tree.plan.get("hooks", ()), _SHELL]
    tree.plan["agents"]["explorer"]["hooks"] = [added]
    layers = (Layer(Document(Path("user.yaml"), {"hooks": [_SHELL]}), "user", "user", "b", "b"),)
    prepared = replace(tree.prepared(), is_made_by_app=False, layers=layers)
    async with SessionRuntime(prepared, environ={}, trust=True, spawner=Spawner()) as runtime:
        assert heard[runtime.session_id][0] is True
        child = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        assert heard[child["session_id"]] == [True, False]


@pytest.mark.parametrize(
    ("parent", "agent", "expected"),
    [
        ({"tool": "required"}, {"tool": "off"}, "required"),
        ({}, {"tool": False}, "auto"),
        ({}, {"session": "off"}, "auto"),
        ({"session": "required"}, {"tool": {"network": True}}, "required"),
    ],
)
def test_a_child_never_loosens_the_sandbox(parent: dict[str, Any], agent: dict[str, Any], expected: str) -> None:
    """Whatever an agent says, for the session or for a tool: it may ask for a tighter one only."""

    def plan(said: dict[str, Any]) -> dict[str, Any]:
        made: dict[str, Any] = {"session": {"orchestrator": {"module": "x"}, "context": {"module": "y"}}}
        if "session" in said:
            made["session"]["sandbox"] = said["session"]
        if "tool" in said:
            made["tools"] = [{"module": "tool-bash", "config": {"sandbox": said["tool"]}}]
        return made

    made = child_plan(plan(parent), {key: value for key, value in plan(agent).items() if key in ("session", "tools")})
    tools = [entry.get("config", {}).get("sandbox") for entry in made.get("tools", [])]
    settings = SandboxConfig.layered(made["session"].get("sandbox"), tools[0] if tools else None)
    assert (settings.mode, settings.network) == (expected, False)


@pytest.mark.parametrize("has_rules", [False, True])
async def test_trust_for_a_run_is_no_wider_in_children(
    tree: Any, spawn_in: Callable[..., Any], has_rules: bool
) -> None:
    """What a project's files came to allow after the user trusted it for the run, no child that starts later does."""
    (tree.home / "policy.yaml").unlink()
    tree.plan["tools"] = [{"module": "tool-bash", "config": {"sandbox": "off"}}]
    if has_rules:
        rules = [{"action": "process.exec", "command": "touch *", "verdict": "allow"}]
        tree.plan["agents"]["explorer"]["hooks"] = [{"module": "hooks-approval", "config": {"rules": rules}}]
    turns = [{"tool_calls": [{"name": "bash", "arguments": {"command": "touch seen.txt"}}]}, {"text": "Done."}]
    tree.script([], {"explorer": turns})
    file = tree.project / ".amplifier/policy.yaml"
    file.parent.mkdir(exist_ok=True)
    allowing = "rules: [{action: process.exec, verdict: allow}]\n"
    environ = {"PATH": os.environ["PATH"], "HOME": os.environ.get("HOME", "/")}
    async with tree.run(trust=True, environ=environ) as runtime:
        file.write_text(allowing, encoding="utf-8")
        await spawn_in(runtime)("explorer", "Go.", tool_call_id="c1")
        assert not (tree.project / "seen.txt").exists()
    async with tree.run(trust=True, environ=environ) as runtime:
        await spawn_in(runtime)("explorer", "Go.", tool_call_id="c2")
        assert (tree.project / "seen.txt").exists()
