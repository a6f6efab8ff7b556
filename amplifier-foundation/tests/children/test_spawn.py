"""Children in the process of their parent: what they are told, what they leave, what comes back."""

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation.children.errors import (
    AgentUnknownError,
    AgentUnusableError,
    ChildBusyError,
    ChildFailedError,
    ChildRefusedError,
    SpawnError,
    TooDeepError,
)
from amplifier_foundation.sessions.origin import ChildFacts
from amplifier_foundation.usage.budget import BudgetError, BudgetExceededError
from amplifier_kit.log.reader import read_log


async def test_the_short_form_of_the_capability_is_enough(tree: Any, spawn_in: Any) -> None:
    """`spawn(agent_name=…, task=…)`, as the capability registry writes it, brings a result."""
    async with tree.run() as runtime:
        for result in (
            await spawn_in(runtime)(agent_name="explorer", task="Look."),
            await spawn_in(runtime)("explorer", "Look.", runtime.session),
        ):
            assert (result["output"], result["status"], result["turn_count"]) == ("The answer.", "success", 1)
            assert result["metadata"]["agent"] == "explorer"


async def test_a_child_leaves_a_session_of_its_own(tree: Any, spawn_in: Any) -> None:
    """Log, transcript, record and metadata of the child lie beside those of its parent, and say whose child it is."""
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Look.", tool_call_id="call-1", parallel_group_id="g")
    identity = result["session_id"]
    facts = tree.metadata(identity)
    expected = {
        "session_id": identity,
        "parent_id": runtime.session_id,
        "trace_id": runtime.session_id,
        "agent_name": "explorer",
        "child_span": identity[17:33],
        "turn_count": 1,
        "self_delegation_depth": 0,
        "depth": 1,
        "tool_call_id": "call-1",
        "parallel_group_id": "g",
        "working_dir": str(tree.project),
    }
    assert {key: facts[key] for key in expected} == expected
    assert facts["agent_overlay"] == tree.plan["agents"]["explorer"]
    assert facts["config"]["session"]["metadata"]["agent_name"] == "explorer"
    assert set(facts["bundle_context"]) == {"module_paths", "mention_mappings"}
    assert tree.said(identity) == [("user", "Look."), ("assistant", "The answer.")]
    events = [event for event, _ in tree.events(identity)]
    assert events[:2] == ["session:fork", "session:start"]
    assert events[-1] == "session:end"
    assert {line["parent_id"] for line in map(json.loads, _lines(tree, identity))} == {runtime.session_id}


async def test_a_child_is_told_what_its_agent_is_told(tree: Any, spawn_in: Any) -> None:
    """The instruction of the agent is the child's system prompt; a copy of the session has the session's own."""
    agents = {name: [{"expect": {"system_contains": text}, "text": "Ok."}] for name, text in _PROMPTS.items()}
    tree.script([], agents)
    async with tree.run() as runtime:
        for name in _PROMPTS:
            assert (await spawn_in(runtime)(name, "Go."))["output"] == "Ok."


_PROMPTS = {"explorer": "You explore.", "builder": "You build.", "self": "You are the root."}


async def test_context_files_of_an_agent_are_in_its_prompt(tree: Any, spawn_in: Any) -> None:
    """A file that does not exist is a warning in the result."""
    (tree.project / "facts.md").write_text("Cats have tails.", encoding="utf-8")
    tree.plan["agents"]["explorer"]["context"] = {"include": ["facts.md", "gone.md"]}
    tree.script([], {"explorer": [{"expect": {"system_contains": "Cats have tails."}, "text": "Ok."}]})
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
    assert (result["status"], result["metadata"]["warnings"]) == (
        "success",
        ["context file 'gone.md' of the agent does not exist"],
    )


async def test_files_that_a_task_mentions_are_not_brought(tree: Any, spawn_in: Any) -> None:
    """A task is written by a model: an `@` in it is a character."""
    (tree.project / "facts.md").write_text("Cats have tails.", encoding="utf-8")
    (tree.folder / "outside.md").write_text("A secret plan.", encoding="utf-8")
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", f"Read @facts.md and @{tree.folder}/outside.md.")
    text = tree.said(result["session_id"])[0][1]
    assert "@facts.md" in text
    assert "Cats have tails." not in text
    assert "A secret plan." not in text


async def test_messages_of_the_parent_come_before_the_task(tree: Any, spawn_in: Any) -> None:
    """Instructions among them are left out, and a call without a result gets one."""
    given = [
        {"role": "system", "content": "You are somebody else."},
        {"role": "user", "content": "Before."},
        {"role": "assistant", "content": "", "tool_calls": [{"id": "x", "tool": "look", "arguments": {}}]},
    ]
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Now.", parent_messages=given)
    roles = [role for role, _ in tree.said(result["session_id"])]
    assert roles[:3] == ["user", "assistant", "tool"]
    assert roles[-2:] == ["user", "assistant"]


async def test_an_unknown_agent_is_told_with_the_nearest_one(tree: Any, spawn_in: Any) -> None:
    """The error is a text a model can act on, and nothing is left on disk."""
    async with tree.run() as runtime:
        with pytest.raises(AgentUnknownError, match=r"no agent 'explorr': did you mean 'explorer'") as raised:
            await spawn_in(runtime)("explorr", "Go.")
        assert isinstance(raised.value, ValueError)
        assert len(list(tree.place.iterdir())) == 1


@pytest.mark.parametrize("agent", [{"tools": "none"}, {"instruction": 3}, "text", {"agents": "few"}])
async def test_an_agent_with_errors_is_refused_by_name(tree: Any, spawn_in: Any, agent: Any) -> None:
    """An agent that somebody added while the session runs may be anything; the session goes on."""
    async with tree.run() as runtime:
        runtime.session.config["agents"]["odd"] = agent
        with pytest.raises(AgentUnusableError):
            await spawn_in(runtime)("odd", "Go.")
        assert (await spawn_in(runtime)("explorer", "Go."))["status"] == "success"


@pytest.mark.parametrize(
    "given",
    [{"instruction": ""}, {"instruction": None}, {"agent_name": ""}, {"provider_preferences": [{}]}, {"timeout": "x"}],
)
async def test_arguments_that_make_no_sense_are_named(tree: Any, spawn_in: Any, given: dict[str, Any]) -> None:
    """The error names the argument."""
    async with tree.run() as runtime:
        with pytest.raises(SpawnError, match=next(iter(given))):
            await spawn_in(runtime)(**{"agent_name": "explorer", "instruction": "Go.", **given})


async def test_agents_that_were_added_meanwhile_can_be_called_and_are_passed_on(tree: Any, spawn_in: Any) -> None:
    """Those the caller hands in count too, and one that was taken away is gone."""
    async with tree.run() as runtime:
        live = runtime.session.config["agents"]
        live["new"] = {"instruction": "You are new."}
        del live["builder"]
        result = await spawn_in(runtime)("new", "Go.")
        assert sorted(tree.metadata(result["session_id"])["config"]["agents"]) == ["explorer", "new"]
        assert (await spawn_in(runtime)("given", "Go.", agent_configs={"given": {}}))["status"] == "success"
        own = {"explorer": {"instruction": "You are another."}}
        other = await spawn_in(runtime)("explorer", "Go.", agent_configs=own)
        assert tree.metadata(other["session_id"])["agent_overlay"] == own["explorer"]
        with pytest.raises(AgentUnknownError):
            await spawn_in(runtime)("builder", "Go.")


async def test_a_child_whose_modules_are_missing_is_refused_and_all_are_named(tree: Any, spawn_in: Any) -> None:
    """Nothing of it runs, and the session goes on."""
    tree.plan["agents"]["explorer"]["tools"] = [{"module": "tool-absent"}, {"module": "tool-gone"}]
    async with tree.run() as runtime:
        with pytest.raises(ChildRefusedError) as raised:
            await spawn_in(runtime)("explorer", "Go.")
        assert [failure.split(":")[0] for failure in raised.value.failures] == [
            "tool 'tool-absent'",
            "tool 'tool-gone'",
        ]
        assert (await spawn_in(runtime)("builder", "Go."))["status"] == "success"


async def test_a_child_without_loop_or_context_is_refused_with_all_that_is_missing(tree: Any, spawn_in: Any) -> None:
    """Every module is named at once, those behind the one without which nothing can begin too."""
    explorer = tree.plan["agents"]["explorer"]
    explorer["session"] = {"orchestrator": {"module": "loop-absent"}, "context": {"module": "context-absent"}}
    explorer["tools"] = [{"module": "tool-absent"}, {"module": "tool-gone"}]
    async with tree.run() as runtime:
        with pytest.raises(ChildRefusedError) as raised:
            await spawn_in(runtime)("explorer", "Go.")
    for module_id in ("loop-absent", "context-absent", "tool-absent", "tool-gone"):
        assert sum(f"'{module_id}'" in failure for failure in raised.value.failures) == 1


async def test_a_child_that_raises_fails_with_its_reason_and_its_cost(tree: Any, spawn_in: Any) -> None:
    """Its turn is closed in its log, and the parent goes on."""
    failing = [
        {"tool_calls": [{"name": "none", "arguments": {}}], "usage": {"input_tokens": 5, "cost_usd": "0.5"}},
        {"error": {"type": "AuthenticationError", "message": "no such key"}},
    ]
    tree.script([], {"explorer": failing, "builder": [{"text": "Fine."}]})
    async with tree.run() as runtime:
        with pytest.raises(ChildFailedError, match="no such key") as raised:
            await spawn_in(runtime)("explorer", "Go.", tool_call_id="a")
        assert raised.value.metadata["cost_usd"] == "0.5"
        assert (await spawn_in(runtime)("builder", "Go."))["output"] == "Fine."
        assert {"cost_usd": "0.5"} in await runtime.session.coordinator.collect_contributions("session.cost")
    events = dict(tree.events(raised.value.session_id))
    assert events["session:end"]["status"] == "failed"
    assert "incremental" not in tree.metadata(raised.value.session_id)


async def test_a_child_that_takes_too_long_is_stopped(tree: Any, spawn_in: Any) -> None:
    """The caller may give it a number of seconds."""
    tree.script([], {"explorer": [{"delay_ms": 60_000, "text": "Late."}]})
    async with tree.run() as runtime:
        with pytest.raises(ChildFailedError, match=r"not done after 0\.05 s"):
            await spawn_in(runtime)("explorer", "Go.", timeout=0.05)


async def test_what_children_cost_is_told_to_the_parent(tree: Any, spawn_in: Any, delegating: str) -> None:
    """Each child is one contributor of the parent, grandchildren included, and the result says the same."""
    tree.plan["tools"] = [{"module": delegating}]
    calls = [{"name": "call", "arguments": {"agent": "builder"}, "id": "inner"}]
    tree.script(
        [],
        {
            "explorer": [
                {"tool_calls": calls, "usage": {"cost_usd": "0.25"}},
                {"text": "Done.", "usage": {"cost_usd": "1"}},
            ],
            "builder": [{"text": "Built.", "usage": {"cost_usd": "2.5"}}],
        },
    )
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
        assert result["metadata"]["cost_usd"] == "3.75"
        told = runtime.session.coordinator.channels["session.cost"]
        assert [entry["name"] for entry in told if entry["name"].startswith("delegate:")] == [
            f"delegate:{result['session_id']}"
        ]
        assert {"cost_usd": "3.75"} in await runtime.session.coordinator.collect_contributions("session.cost")
    grandchild = next(path.name for path in tree.place.iterdir() if path.name.endswith("_builder"))
    assert grandchild.startswith(result["session_id"][17:33])
    assert tree.metadata(grandchild)["depth"] == 2
    async with tree.run(saved=runtime.session_id) as again:
        assert {"cost_usd": "3.75"} in await again.session.coordinator.collect_contributions("session.cost")


async def test_events_of_all_below_are_told_with_whose_they_are(tree: Any, spawn_in: Any, delegating: str) -> None:
    """The app hears of children and grandchildren while they work."""
    tree.plan["tools"] = [{"module": delegating}]
    calls = [{"name": "call", "arguments": {"agent": "builder"}, "id": "inner"}]
    tree.script([], {"explorer": [{"tool_calls": calls}, {"text": "Done."}], "builder": [{"text": "Built."}]})
    heard: list[tuple[ChildFacts, str]] = []
    async with tree.run(on_child_event=lambda facts, event, data: heard.append((facts, event))) as runtime:
        result = await spawn_in(runtime)("explorer", "Go.", tool_call_id="outer", parallel_group_id="g")
    facts = list(dict.fromkeys(facts for facts, _ in heard))
    identity = result["session_id"]
    assert facts[0] == ChildFacts(identity, runtime.session_id, "explorer", 1, "outer", "g")
    assert facts[1][1:5] == (identity, "builder", 2, "inner")
    for one in facts:
        events = [event for whose, event in heard if whose == one]
        assert events.count("session:start") == events.count("session:end") == 1


async def test_a_tree_has_an_end_downwards(tree: Any, delegating: str, spawn_in: Any) -> None:
    """A session that calls itself for ever is stopped by depth, and every one above it gets an answer."""
    tree.plan["tools"] = [{"module": delegating}]
    calls = [{"name": "call", "arguments": {"agent": "self"}}]
    tree.script([], {"self": [{"tool_calls": calls}, {"text": "Done."}]})
    async with tree.run() as runtime:
        assert (await spawn_in(runtime)("self", "Go."))["output"] == "Done."
    depths = {tree.metadata(path.name)["depth"]: path.name for path in tree.place.iterdir() if "_" in path.name}
    assert sorted(depths) == list(range(1, 9))
    deepest = depths[8]
    assert tree.metadata(deepest)["self_delegation_depth"] == 8
    assert any("ancestors already" in text for _, text in tree.said(deepest))
    assert TooDeepError.code == "spawn_too_deep"


async def test_the_budget_of_the_parent_holds_for_its_children(tree: Any, spawn_in: Any) -> None:
    """What a child uses, its parent has used; too many at once and too deep are refused before anything starts."""
    tree.plan["session"]["budget"] = {"tokens": 5, "fan_out": 1, "depth": 1}
    used = {"input_tokens": 4, "output_tokens": 2}
    tree.script([], {"explorer": [{"delay_ms": 50, "text": "Done.", "usage": used}], "builder": []})
    async with tree.run() as runtime:
        first = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go."))
        await asyncio.sleep(0)
        with pytest.raises(BudgetExceededError, match="fan_out"):
            await spawn_in(runtime)("builder", "Go.")
        assert (await first)["status"] == "success"
        with pytest.raises(BudgetExceededError, match="tokens"):
            await spawn_in(runtime)("builder", "Go.")
        assert runtime.budget.used()["tokens"] == 6


async def test_an_agent_may_have_less_than_its_parent(tree: Any, spawn_in: Any) -> None:
    """A child that has used up its own budget ends, and its parent goes on."""
    tree.plan["agents"]["explorer"]["session"] = {"budget": {"turns": 0}}
    async with tree.run() as runtime:
        result = await spawn_in(runtime)("explorer", "Go.")
        assert result["status"] == "budget_exhausted"
        assert "turns" in result["metadata"]["reason"]
        assert runtime.budget.exhausted is None
        assert (await spawn_in(runtime)("builder", "Go."))["status"] == "success"


async def test_the_capability_of_one_session_starts_no_children_of_another(tree: Any, spawn_in: Any) -> None:
    """A caller that means another parent is told so."""
    async with tree.run() as one, tree.run() as other:
        with pytest.raises(SpawnError, match=other.session_id):
            await spawn_in(one)("explorer", "Go.", other.session)


@pytest.mark.parametrize("identity", ["../elsewhere", "/etc", "", ".."])
async def test_a_child_lies_beside_its_parent(tree: Any, spawn_in: Any, identity: str) -> None:
    """An id that leads elsewhere is refused."""
    async with tree.run() as runtime:
        with pytest.raises(SpawnError, match="sub_session_id"):
            await spawn_in(runtime)("explorer", "Go.", sub_session_id=identity)


async def test_the_working_directory_is_that_of_the_parent(tree: Any, spawn_in: Any, tmp_path: Path) -> None:
    """A session that works elsewhere has children that work there, and lie where its own files lie."""
    elsewhere = tmp_path / "elsewhere"
    seen: list[str] = []

    def observe(facts: ChildFacts, event: str, data: Any) -> None:
        seen.append(event)

    async with tree.run(on_child_event=observe) as runtime:
        runtime.session.coordinator.register_capability("session.working_dir", str(elsewhere))
        children = runtime.children.sessions
        result = await spawn_in(runtime)("explorer", "Go.")
        assert (runtime.folder.parent / result["session_id"]).is_dir()
        facts = children._facts("x", _request(), "explorer")
        assert children._preparation.origin(facts, runtime.prepared, {}, 0, {}).working_dir == str(elsewhere)
    assert seen


def _request() -> Any:
    from amplifier_foundation.children.capabilities import SpawnRequest

    return SpawnRequest("explorer", "Go.")


async def test_a_child_at_work_takes_no_second_task(tree: Any, spawn_in: Any, gate: Any) -> None:
    """The same call made twice waits for the one child; another task for it is refused until it is done."""
    tree.plan["tools"] = [{"module": gate.module}]
    tree.script([], {"explorer": [{"tool_calls": [{"name": "wait", "arguments": {}, "id": "g"}]}, {"text": "Done."}]})
    async with tree.run() as runtime:
        spawn = spawn_in(runtime)
        given = {"tool_call_id": "a", "sub_session_id": "0000000000000000-00000000000000aa_explorer"}
        first = asyncio.ensure_future(spawn("explorer", "Go.", **given))
        await gate.begun.wait()
        with pytest.raises(ChildBusyError):
            await spawn("explorer", "Something else.", **given)
        second = asyncio.ensure_future(spawn("explorer", "Go.", **given))
        await asyncio.sleep(0)
        gate.going.set()
        assert await second == await first


def _lines(tree: Any, identity: str) -> list[str]:
    text: str = (tree.place / identity / "events.jsonl").read_text(encoding="utf-8")
    return text.splitlines()


async def test_a_refused_child_is_in_the_tree_all_the_same(tree: Any, spawn_in: Any) -> None:
    """Its notes say whose child it was to be, of which call, and why it is none; tried again it may run."""
    tree.plan["agents"]["explorer"]["tools"] = [{"module": "tool-absent"}]
    async with tree.run() as runtime:
        with pytest.raises(ChildRefusedError) as raised:
            await spawn_in(runtime)("explorer", "Go.", tool_call_id="c")
        identity = raised.value.session_id
        facts = tree.metadata(identity)
        assert (facts["parent_id"], facts["tool_call_id"], facts["turn_count"]) == (runtime.session_id, "c", 0)
        kept = json.loads((tree.place / identity / "results.json").read_text())["results"]
        assert [one["status"] for one in kept.values()] == ["error"]
        runtime.session.config["agents"]["explorer"] = {"instruction": "You explore."}
        assert (await spawn_in(runtime)("explorer", "Go.", tool_call_id="c"))["session_id"] == identity


async def test_what_says_who_a_session_is_says_nothing_of_its_children(tree: Any, spawn_in: Any) -> None:
    """A grandchild that no call has started does not look as if the call of its parent had."""
    seen: list[dict[str, Any]] = []
    async with tree.run() as runtime:
        first = await spawn_in(runtime)("explorer", "Go.", tool_call_id="c", parallel_group_id="g")
        plan = tree.metadata(first["session_id"])["config"]
        from amplifier_foundation.children.plan import child_plan

        seen.append(child_plan(plan, {}, metadata={"agent_name": "builder"})["session"]["metadata"])
    assert seen == [{"agent_name": "builder"}]


async def test_children_at_work_end_with_their_parent(tree: Any, spawn_in: Any, eventually: Callable[..., Any]) -> None:
    """Whoever started one without waiting for it leaves nothing behind."""
    tree.script([], {"explorer": [{"delay_ms": 3_600_000, "text": "never"}]})
    heard: list[str] = []
    async with tree.run(on_child_event=lambda facts, event, data: heard.append(event)) as runtime:
        task = asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", tool_call_id="c"))
        await eventually(lambda: "llm:request" in heard)
    assert task.cancelled()
    assert heard[-1] == "session:end"


async def test_who_waits_for_a_child_of_somebody_else_hears_that_it_was_stopped(
    tree: Any, spawn_in: Any, eventually: Callable[..., Any]
) -> None:
    """The second caller of the same call is not cancelled with the first."""
    tree.script([], {"explorer": [{"delay_ms": 3_600_000, "text": "never"}]})
    heard: list[str] = []
    async with tree.run(on_child_event=lambda facts, event, data: heard.append(event)) as runtime:
        first, second = (
            asyncio.ensure_future(spawn_in(runtime)("explorer", "Go.", tool_call_id="c")) for _ in range(2)
        )
        await eventually(lambda: "llm:request" in heard)
        first.cancel()
        with pytest.raises(ChildFailedError, match="was cancelled"):
            await second


@pytest.mark.parametrize("budget", [[1], "1", 1, []])
async def test_a_budget_that_is_no_mapping_is_refused(tree: Any, spawn_in: Any, budget: Any) -> None:
    """Somebody meant to set a limit: neither a session nor an agent runs without one then."""
    tree.plan["agents"]["explorer"]["session"] = {"budget": budget}
    async with tree.run() as runtime:
        with pytest.raises(BudgetError, match=r"session\.budget must be a mapping"):
            await spawn_in(runtime)("explorer", "Go.")
    tree.plan["session"]["budget"] = budget
    with pytest.raises(BudgetError, match=r"session\.budget must be a mapping"):
        async with tree.run():
            pass


async def test_use_subprocess_is_accepted_and_logged(tree: Any, spawn_in: Any) -> None:
    """The child runs in this process all the same, and the log of its parent says so."""
    heard: list[str] = []
    async with tree.run(on_child_event=lambda facts, event, data: heard.append(event)) as runtime:
        result = await spawn_in(runtime)("explorer", "Go.", use_subprocess=True)
    assert (result["status"], result["output"]) == ("success", "The answer.")
    assert "session:end" in heard
    assert "use_subprocess" not in tree.metadata(result["session_id"])
    logged = [line.record for line in read_log(tree.place / runtime.session_id) if "use_subprocess" in str(line.record)]
    assert [record["lvl"] for record in logged] == ["WARNING"]
