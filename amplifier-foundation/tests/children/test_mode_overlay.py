"""What a mode contributes exists while it is active."""

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_foundation.children.errors import AgentUnknownError
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_kit.modes import activate, clear
from amplifier_testing.loop.fakes import PlainTool

_LOOK = [{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "Done."}]
_REVIEW = """---
mode:
  name: review
  default_action: allow
  contributes:
    agents: %s
    context: [rules.md]
---
Review it.
"""


@pytest.fixture
def reviewing(tree: Any, add_tools: Callable[..., str]) -> Any:
    """Return a tree of sessions whose mode `review` has an agent `reviewer` and a context file."""
    tree.plan["tools"] = [{"module": add_tools(lambda coordinator: [PlainTool("look", lambda given: "seen")])}]
    tree.plan["hooks"].append({"module": "hooks-mode"})
    tree.script([], {"reviewer": _LOOK})
    (tree.home / "modes").mkdir()
    (tree.home / "agents").mkdir()
    (tree.home / "agents" / "reviewer.md").write_text("---\nmeta: {description: Reviews.}\n---\nYou review.\n")
    (tree.project / "rules.md").write_text("Two people read each change.")
    _write_mode(tree, "[reviewer]")
    return tree


def _write_mode(tree: Any, agents: str) -> None:
    (tree.home / "modes" / "review.md").write_text(_REVIEW % agents)


async def _activate(runtime: SessionRuntime, name: str = "review") -> Any:
    coordinator = runtime.session.coordinator
    await activate(coordinator, coordinator.session_state["mode_discovery"].find(name))
    return coordinator


async def _look(tree: Any, spawn: Any) -> str:
    identity = (await spawn("reviewer", "Go."))["session_id"]
    return str(next(text for role, text in tree.said(identity) if role == "tool"))


async def test_an_agent_of_a_mode_exists_while_it_is_active(reviewing: Any, spawn_in: Any) -> None:
    """The agent can be called after the mode was activated, and neither before nor after it was left."""
    async with reviewing.run() as runtime:
        spawn, agents = spawn_in(runtime), set(runtime.session.coordinator.config["agents"])
        with pytest.raises(AgentUnknownError, match="reviewer"):
            await spawn("reviewer", "Go.")
        coordinator = await _activate(runtime)
        assert set(coordinator.config["agents"]) == {*agents, "reviewer"}
        assert await _look(reviewing, spawn) == "seen"
        await clear(coordinator)
        assert set(coordinator.config["agents"]) == agents
        with pytest.raises(AgentUnknownError, match="reviewer"):
            await spawn("reviewer", "Again.")
    events = [name for name, _ in reviewing.events(runtime.session_id)]
    assert events.count("overlay:changed") == 2
    assert "mode:activation_failed" not in events


async def test_context_of_a_mode_is_part_of_the_prompt_while_it_is_active(reviewing: Any) -> None:
    """A context file is in the system prompt after the mode was activated, until it is left."""
    async with reviewing.run() as runtime:
        assert "Two people" not in await runtime.prompt()
        coordinator = await _activate(runtime)
        assert "Two people" in await runtime.prompt()
        await clear(coordinator)
        assert "Two people" not in await runtime.prompt()


async def test_an_agent_of_a_mode_may_do_no_more_than_the_session(
    reviewing: Any, spawn_in: Any, add_tools: Callable[..., str]
) -> None:
    """What the rules deny the session, they deny an agent that allows it to itself and brings the tool."""
    tool = add_tools(lambda coordinator: [PlainTool("look", lambda given: "seen")])
    allows = "{module: hooks-approval, config: {rules: [{action: tool.look, verdict: allow}]}}"
    _write_mode(reviewing, f"{{reviewer: {{tools: [{{module: {tool}}}], hooks: [{allows}]}}}}")
    (reviewing.home / "policy.yaml").write_text("rules: [{action: tool.look, verdict: deny}]", encoding="utf-8")
    async with reviewing.run() as runtime:
        await _activate(runtime)
        assert "seen" not in await _look(reviewing, spawn_in(runtime))


async def test_an_agent_in_a_denied_file_is_not_added(reviewing: Any) -> None:
    """Nothing of a mode is added when a rule denies the file of its agent; the failure is an event."""
    rules = f"rules: [{{action: filesystem.read, path: {reviewing.home}/agents/**, verdict: deny}}]"
    (reviewing.home / "policy.yaml").write_text(rules, encoding="utf-8")
    failed: list[str] = []
    async with reviewing.run() as runtime:
        hooks = runtime.session.coordinator.hooks
        hooks.register("mode:activation_failed", lambda event, data: failed.append(data["error"]))
        coordinator = await _activate(runtime)
        assert "reviewer" not in coordinator.config["agents"]
    assert len(failed) == 1
    assert "reviewer.md is denied" in failed[0]


async def test_an_agent_without_agents_gets_none_by_a_mode(reviewing: Any, add_tools: Callable[..., str]) -> None:
    """A child that may call no agent may call none that a mode contributes to it either."""
    seen: list[bool] = []

    def make(coordinator: Any) -> list[PlainTool]:
        async def look(given: dict[str, Any]) -> str:
            await activate(coordinator, coordinator.session_state["mode_discovery"].find("review"))
            seen.append("reviewer" in coordinator.config["agents"])
            return "seen"

        return [PlainTool("look", look)]

    reviewing.plan["tools"] = [{"module": add_tools(make)}]
    reviewing.plan["agents"]["explorer"]["agents"] = "none"
    reviewing.script([], {"explorer": _LOOK, "builder": _LOOK})
    async with reviewing.run() as runtime:
        spawn = runtime.session.coordinator.get_capability("session.spawn")
        for agent in ("explorer", "builder"):
            await spawn(agent, "Go.")
    assert seen == [False, True]


async def test_a_session_without_modes_has_no_overlay(tree: Any) -> None:
    """Nothing is offered where no module of modes is mounted."""
    async with tree.run() as runtime:
        assert "mode_runtime_overlay" not in runtime.session.coordinator.session_state
