"""Children that get another task, in this process or a later one."""

import json
from typing import Any

import pytest

from amplifier_foundation.children.errors import ChildUnknownError, SpawnError


def _resume(runtime: Any) -> Any:
    return runtime.session.coordinator.get_capability("session.resume")


async def test_a_resumed_child_has_its_prompt_its_agent_and_its_turns(tree: Any, spawn_in: Any) -> None:
    """The published program lost the prompt, and counted messages for turns."""
    asked = {"system_contains": "You explore.", "contains": "Look."}
    tree.script([], {"explorer": [{"expect": asked, "text": "Seen."}]})
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Look.", self_delegation_depth=2)
        second = await _resume(runtime)(first["session_id"], "And now?")
    async with tree.run(saved=runtime.session_id) as later:
        third = await _resume(later)(session_id=first["session_id"], task="And then?")
    assert [one["output"] for one in (first, second, third)] == ["Seen."] * 3
    assert {one["session_id"] for one in (second, third)} == {first["session_id"]}
    facts = tree.metadata(first["session_id"])
    assert (facts["turn_count"], facts["agent_name"], facts["parent_id"]) == (3, "explorer", runtime.session_id)
    assert facts["self_delegation_depth"] == 2
    events = [event for event, _ in tree.events(first["session_id"])]
    assert (events.count("session:start"), events.count("session:resume")) == (1, 2)


async def test_a_resume_that_is_made_again_gets_what_was_done(tree: Any, spawn_in: Any) -> None:
    """By its call, as a start is; the same words in another call are another task."""
    async with tree.run() as runtime:
        child = (await spawn_in(runtime)("explorer", "Look."))["session_id"]
        for call in ("a", "a", "b"):
            await _resume(runtime)(child, "Again.", tool_call_id=call)
    assert [text for role, text in tree.said(child) if role == "user"] == ["Look.", "Again.", "Again."]


@pytest.mark.parametrize("identity", ["gone", "", None, 3, "../x"])
async def test_an_unknown_child_is_told(tree: Any, spawn_in: Any, identity: Any) -> None:
    """The error names the nearest one there is."""
    async with tree.run() as runtime:
        with pytest.raises(ChildUnknownError, match="has no children"):
            await _resume(runtime)(identity, "Go.")
        child = (await spawn_in(runtime)("explorer", "Look."))["session_id"]
        with pytest.raises(ChildUnknownError, match=child):
            await _resume(runtime)(child[:-1], "Go.")


async def test_a_session_that_a_person_started_is_no_child(tree: Any) -> None:
    """A model cannot take up the user's other sessions."""
    async with tree.run() as other:
        await other.execute("Hello.")
    async with tree.run() as runtime:
        with pytest.raises(ChildUnknownError, match="has no parent"):
            await _resume(runtime)(other.session_id, "Go.")


async def test_a_child_without_a_record_cannot_go_on(tree: Any, spawn_in: Any) -> None:
    """A child is not resumed with a guessed plan."""
    async with tree.run() as runtime:
        child = (await spawn_in(runtime)("explorer", "Look."))["session_id"]
        (tree.place / child / "record.json").unlink()
        with pytest.raises(ChildUnknownError, match="it has no recorded plan"):
            await _resume(runtime)(child, "Go.")


async def test_keys_are_in_no_file_of_a_child_and_there_when_it_goes_on(tree: Any, spawn_in: Any) -> None:
    """Variables stay variables, and a key that was written into the plan comes from the parent's again."""
    literal, named = "sk-live-0123456789abcdef0123", "sk-other-0123456789abcdef9876"
    tree.plan["providers"][0]["config"] |= {"api_key": literal}
    tree.plan["agents"]["explorer"]["providers"] = [{"module": "provider-mock", "config": {"other_key": "${OTHER}"}}]
    async with tree.run(environ={"OTHER": named}) as runtime:
        child = (await spawn_in(runtime)("explorer", f"Look at {literal}."))["session_id"]
        assert (await _resume(runtime)(child, "Go on."))["status"] == "success"
    for path in tree.place.rglob("*"):
        content = path.read_bytes() if path.is_file() else b""
        assert literal.encode() not in content, path
        assert named.encode() not in content, path
    plan = json.loads((tree.place / child / "record.json").read_text(encoding="utf-8"))["plan"]
    assert plan["providers"][0]["config"]["other_key"] == "${OTHER}"


async def test_preferences_hold_when_a_child_goes_on(tree: Any, spawn_in: Any) -> None:
    """A child that was given another model keeps it."""
    async with tree.run() as runtime:
        wish = [{"provider": "mock", "model": "mock-*"}]
        first = await spawn_in(runtime)("explorer", "Look.", provider_preferences=wish)
        second = await _resume(runtime)(first["session_id"], "Again.")
    assert {one["metadata"]["model"] for one in (first, second)} == {"provider-mock/mock-model"}


async def test_a_caller_counts_more_than_the_agent_and_that_more_than_the_parent(tree: Any, spawn_in: Any) -> None:
    """Who asks decides; a role is looked up in the settings; what cannot be had is said."""
    (tree.home / "settings.yaml").write_text(
        "routing: {overrides: {fast: {candidates: [{provider: mock, model: small}]}}}", encoding="utf-8"
    )
    tree.plan["agents"]["explorer"]["model_role"] = "fast"
    tree.plan["agents"]["builder"]["provider_preferences"] = [{"provider": "absent"}]
    async with tree.run() as runtime:
        spawn = spawn_in(runtime)
        by_role = await spawn("explorer", "Go.")
        by_caller = await spawn("explorer", "Go.", provider_preferences=[{"provider": "mock", "model": "large"}])
        by_callers_role = await spawn("builder", "Go.", model_role="fast")
        nothing = await spawn("builder", "Go.")
    models = [one["metadata"]["model"] for one in (by_role, by_caller, by_callers_role, nothing)]
    assert models == ["provider-mock/small", "provider-mock/large", "provider-mock/small", None]
    assert "no provider preference can be fulfilled" in nothing["metadata"]["warnings"][-1]
    warned = [data for event, data in tree.events(nothing["session_id"]) if event == "log:entry"]
    assert any("no provider preference" in str(data) for data in warned)


async def test_events_and_results_name_the_agent_of_a_child_that_goes_on(tree: Any) -> None:
    """As its notes have it: its id has it in another form, and a caller may be wrong."""
    (tree.home / "policy.yaml").write_text("rules: [{action: session.spawn, verdict: allow}]", encoding="utf-8")
    tree.plan["tools"] = [{"module": "tool-delegate"}]
    tree.plan["agents"] = {"team:explorer": tree.plan["agents"]["explorer"]}

    def ask(**given: str) -> dict[str, Any]:
        return {"tool_calls": [{"name": "delegate", "arguments": {"instruction": "Look.", **given}}]}

    tree.script([ask(agent="team:explorer"), {"text": "Seen."}], {"explorer": [{"text": "A."}, {"text": "B."}]})
    async with tree.run() as runtime:
        await runtime.execute("Go.")
    (child,) = [path.name for path in tree.place.iterdir() if path.name != runtime.session_id]
    assert tree.metadata(child)["first_prompt"] == "Look."  # and not what it was told of the conversation before
    turns = [ask(session_id=child), {"text": "Seen."}]
    tree.script(turns, {"explorer": [{"text": "A."}, {"text": "B."}]})
    async with tree.run(saved=runtime.session_id) as later:
        assert later.session.coordinator.get_capability("session.resume").agent_of("gone") is None
        await later.execute("Again.")
    told = [data["agent"] for event, data in tree.events(runtime.session_id) if event.startswith("delegate:")]
    assert told == ["team:explorer"] * 4
    assert '"agent": "team:explorer"' in [text for role, text in tree.said(runtime.session_id) if role == "tool"][-1]


@pytest.mark.parametrize("has_children", [True, False])
async def test_a_session_that_has_ended_starts_no_children_and_lets_none_go_on(
    tree: Any, spawn_in: Any, has_children: bool
) -> None:
    """Its log is closed and nobody would stop them; whoever kept the capability is told."""
    async with tree.run() as runtime:
        child = (await spawn_in(runtime)("explorer", "Look."))["session_id"] if has_children else "any"
    for late in (spawn_in(runtime)("explorer", "Look again."), _resume(runtime)(child, "Go on.")):
        with pytest.raises(SpawnError, match=f"{runtime.session_id} has ended"):
            await late
    assert len(list(tree.place.iterdir())) == 1 + has_children


async def test_the_end_of_a_session_may_be_told_to_an_agent(tree: Any, spawn_in: Any) -> None:
    """Who hears of the end can have it summed up: the session has ended when all have heard of it."""
    told: list[str] = []

    async with tree.run() as runtime:

        async def on_end(event: str, data: dict[str, Any]) -> None:
            told.append((await spawn_in(runtime)("explorer", "Sum it up."))["status"])

        runtime.session.coordinator.hooks.register("session:end", on_end)
    assert told == ["success"]
