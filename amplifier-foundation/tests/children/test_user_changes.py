"""What the user changed in a running session holds for its children."""

from collections.abc import Callable
from typing import Any

import pytest

from amplifier_foundation.sessions.origin import ChildFacts
from amplifier_testing.loop.fakes import PlainTool

_LOOK = [{"tool_calls": [{"name": "look", "arguments": {}}]}, {"text": "Done."}]


@pytest.fixture
def looking(tree: Any, add_tools: Callable[..., str]) -> Any:
    """Return a tree whose agents look at something."""
    tree.plan["tools"] = [{"module": add_tools(lambda coordinator: [PlainTool("look", lambda given: "seen")])}]
    tree.script([], {"explorer": _LOOK})
    return tree


async def test_a_tool_that_was_taken_out_is_out_for_children_too(looking: Any, spawn_in: Any) -> None:
    """An agent cannot use a tool that was switched off for the session; switched on again, it can."""
    async with looking.run() as runtime:
        tools = runtime.session.coordinator.get("tools")
        name, tool = tools.popitem()
        result = await spawn_in(runtime)("explorer", "Go.")
        assert ("tool", "seen") not in looking.said(result["session_id"])
        tools[name] = tool
        result = await spawn_in(runtime)("explorer", "Go.")
        assert ("tool", "seen") in looking.said(result["session_id"])


async def test_the_chosen_provider_and_model_hold_unless_the_child_has_its_own(tree: Any, spawn_in: Any) -> None:
    """A child answers with what its parent answers with now; a preference counts more."""
    config = {"responses": ["The other."], "default_model": "first"}
    tree.plan["providers"].append({"module": "provider-mock", "id": "other", "instance_id": "other", "config": config})
    used: list[tuple[Any, Any]] = []

    def hear(facts: ChildFacts, event: str, data: dict[str, Any]) -> None:
        if event == "llm:request":
            used.append((data.get("provider"), data.get("model")))

    tree.plan["session"]["orchestrator"] = {"module": "loop-streaming"}
    async with tree.run(on_child_event=hear) as runtime:
        coordinator = runtime.session.coordinator
        coordinator.session_state["pinned_provider"] = "other"
        other = coordinator.get("providers")["other"]
        setattr(other, "default_model" if hasattr(other, "default_model") else "model", "second")
        assert (await spawn_in(runtime)("explorer", "Go."))["output"] == "The other."
        wish = [{"provider": "provider-mock", "model": "wished"}]
        assert (await spawn_in(runtime)("explorer", "Go.", provider_preferences=wish))["output"] == "The answer."
    assert [model for _, model in used] == ["second", "wished"]


@pytest.mark.parametrize("role", [None, "general", "fast"])
async def test_the_model_chosen_in_a_session_is_that_of_its_agents(
    tree: Any, spawn_in: Any, delegating: str, role: str | None
) -> None:
    """A role that the settings leave to the session's own model means the one that it has now, grandchildren too."""
    tree.plan["tools"] = [{"module": delegating}]
    call = {"name": "call", "arguments": {"agent": "builder", "task": "Go."}}
    tree.script([], {"explorer": [{"tool_calls": [call]}, {"text": "Done."}], "builder": [{"text": "Built."}]})
    tree.plan["providers"][0]["config"]["default_model"] = "planned"
    for agent in tree.plan["agents"].values():
        agent["model_role"] = role
    models: list[tuple[int, str]] = []

    def hear(facts: ChildFacts, event: str, data: dict[str, Any]) -> None:
        if event == "llm:request":
            models.append((facts.depth, data["model"]))

    async with tree.run(on_child_event=hear) as runtime:
        provider = next(iter(runtime.session.coordinator.get("providers").values()))
        provider.default_model = "chosen"
        await spawn_in(runtime)("explorer", "Go.")
    assert models == [(1, "chosen"), (2, "chosen"), (1, "chosen")]


@pytest.mark.parametrize("role", [None, "general", "fast"])
async def test_the_provider_pinned_in_a_session_is_that_of_its_agents(
    tree: Any, spawn_in: Any, role: str | None
) -> None:
    """A role that the settings leave to the session's own model means the provider that answers now."""
    other = {"module": "provider-mock", "id": "other", "instance_id": "other", "config": {"responses": ["The other."]}}
    tree.plan["providers"].append(other)
    tree.plan["session"]["orchestrator"] = {"module": "loop-streaming"}
    tree.plan["agents"]["explorer"]["model_role"] = role
    async with tree.run() as runtime:
        assert (await spawn_in(runtime)("explorer", "Go."))["output"] == "The answer."
        runtime.session.coordinator.session_state["pinned_provider"] = "other"
        assert (await spawn_in(runtime)("explorer", "Go."))["output"] == "The other."


async def test_an_unknown_role_is_a_warning(tree: Any, spawn_in: Any) -> None:
    """The result and the child's log have a warning that the role is ignored."""
    tree.plan["agents"]["explorer"]["model_role"] = "wizard"
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
    (told,) = result["metadata"]["warnings"]
    assert told == "model_role 'wizard' is unknown and ignored; known roles: general, fast"
    logged = [data["message"] for event, data in tree.events(result["session_id"]) if event == "log:entry"]
    assert told in logged


async def test_a_provider_that_was_taken_out_answers_no_child_and_the_last_one_stays(tree: Any, spawn_in: Any) -> None:
    """Somebody has to answer."""
    tree.plan["providers"].append(
        {"module": "provider-mock", "id": "other", "instance_id": "other", "config": {"responses": ["The other."]}}
    )
    async with tree.run() as runtime:
        providers = runtime.session.coordinator.get("providers")
        first = next(name for name in providers if name != "other")
        del providers[first]
        assert (await spawn_in(runtime)("explorer", "Go."))["output"] == "The other."
        del providers["other"]
        assert (await spawn_in(runtime)("explorer", "Go."))["status"] == "success"
