"""What the tool asks of an app, and what the model and the log get."""

from __future__ import annotations

import asyncio
import json
from typing import Any

import pytest

from amplifier_core.bounded_call import DeadlineExceeded
from amplifier_kit.engine.delegation.session_ids import child_session_id

CHILD = child_session_id("test-session", "call-1", "amplifier:explorer")
IDS = {"tool_call_id": "call-1", "parallel_group_id": "group-1"}


async def test_a_child_is_asked_and_its_answer_given_back(world: Any) -> None:
    """The app gets the keywords of the contract, the model the answer, the log both ends with the ids of the call."""
    await world.open()
    usage = {"usage": {"input_tokens": 3, "output_tokens": 4}, "cost_usd": "0.02"}
    world.behaviour = lambda: {"output": "in a.py:3", "status": "success", "turn_count": 2, "metadata": usage}
    result = await world.call(agent="explorer", instruction="find it", context_depth="none")
    assert result.output == {
        "response": "in a.py:3",
        "session_id": CHILD,
        "agent": "amplifier:explorer",
        "turn_count": 2,
        "status": "success",
        "metadata": usage,
    }
    [asked] = world.spawned
    assert asked == {
        "agent_name": "amplifier:explorer",
        "instruction": "find it",
        "parent_session": world.coordinator.session,
        "agent_configs": world.coordinator.config["agents"],
        "sub_session_id": CHILD,
        "tool_inheritance": {"exclude_tools": ["tool-delegate"]},
        "hook_inheritance": None,
        "orchestrator_config": None,
        "provider_preferences": None,
        "self_delegation_depth": 0,
        "session_metadata": {"agent_name": "amplifier:explorer", **IDS, "delegation_depth": 1},
    }
    (first, spawned), (last, completed) = world.events
    assert (first, last) == ("delegate:agent_spawned", "delegate:agent_completed")
    common = {"agent": "amplifier:explorer", "sub_session_id": CHILD, "parent_session_id": "test-session", **IDS}
    assert spawned.items() >= {**common, "context_depth": "none", "context_scope": "conversation"}.items()
    assert {"model_role", "provider_preferences"} <= set(spawned)
    assert completed.items() >= {**common, "success": True, "status": "success", "turn_count": 2, **usage}.items()
    assert completed["duration_ms"] >= 0


async def test_a_child_goes_on(world: Any) -> None:
    """With a session id that child is asked again, told nothing twice, and the log says resumed."""
    await world.open()
    await world.coordinator.mount("context", Context("earlier"))
    result = await world.call(session_id=CHILD, instruction="and the tests?")
    assert world.resumed == [(CHILD, "and the tests?")]
    assert (result.output["session_id"], result.output["agent"]) == (CHILD, "amplifier-explorer")
    assert world.names == ["delegate:agent_resumed", "delegate:agent_completed"]
    assert all(data.items() >= {**IDS, "sub_session_id": CHILD}.items() for _, data in world.events)
    await world.call(session_id=CHILD, instruction="again", context_depth="all")
    assert "earlier" in world.resumed[1][1]


async def test_a_child_goes_on_under_the_name_that_is_on_record(world: Any) -> None:
    """Its id holds no colon, and a model may name anybody: events and result have the agent that the app knows."""
    await world.open()
    resume = Recorded(world)
    world.coordinator.register_capability("session.resume", resume)
    result = await world.call(session_id=CHILD, agent="amplifier:reviewer", instruction="and the tests?")
    assert result.output["agent"] == "amplifier:explorer"
    assert [data["agent"] for _, data in world.events] == ["amplifier:explorer"] * 2
    resume.agent = None
    result = await world.call(session_id=CHILD, agent="amplifier:reviewer", instruction="and now?")
    assert result.output["agent"] == "amplifier:reviewer"


class Recorded:
    """Resume children as the app of a world does, and know the agents of them."""

    def __init__(self, world: Any) -> None:
        self._world = world
        self.agent: str | None = "amplifier:explorer"

    async def __call__(self, sub_session_id: str, instruction: str) -> Any:
        return await self._world.resume(sub_session_id, instruction)

    def agent_of(self, session_id: str) -> str | None:
        return self.agent


class Context:
    """Be a context that holds one question."""

    def __init__(self, text: str) -> None:
        self._messages = [{"role": "user", "content": text}]

    async def get_messages(self) -> list[dict[str, Any]]:
        return self._messages


async def test_context_is_told_as_wanted(world: Any) -> None:
    """By default the last turns are told before the task; with none, or switched off, only the task."""
    await world.open()
    await world.coordinator.mount("context", Context("what was said"))
    await world.call(agent="explorer", instruction="go")
    told = world.spawned[0]["instruction"]
    assert "USER: what was said" in told
    assert told.endswith("[YOUR TASK]\ngo")
    await world.call("call-2", agent="explorer", instruction="go", context_depth="none")
    assert world.spawned[1]["instruction"] == "go"


async def test_a_context_that_cannot_be_read(world: Any) -> None:
    """What the tool itself needs and does not get is a failure that the model reads, and an event."""

    class Broken:
        async def get_messages(self) -> Any:
            raise OSError("the disk is gone")

    await world.open()
    await world.coordinator.mount("context", Broken())
    result = await world.call(agent="explorer", instruction="go")
    assert (result.error["code"], world.spawned, world.names) == ("delegation_failed", [], ["delegate:error"])
    assert "the disk is gone" in result.output


async def test_turns_are_capped(world: Any) -> None:
    """More turns than the plan allows are cut to what it allows."""
    await world.open({"features": {"context_inheritance": {"max_turns": 2}}})
    context = Context("one")
    context._messages += [{"role": "user", "content": text} for text in ("two", "three")]
    await world.coordinator.mount("context", context)
    await world.call(agent="explorer", instruction="go", context_turns=9)
    assert "one" not in world.spawned[0]["instruction"]
    assert "two" in world.spawned[0]["instruction"]


async def test_missing_capability(world: Any) -> None:
    """Without an app that runs children the model is told so, and so is the log."""
    await world.open(has_app=False)
    for given, name in (({"agent": "explorer"}, "session.spawn"), ({"session_id": CHILD}, "session.resume")):
        result = await world.call(instruction="x", **given)
        assert not result.success
        assert f"{name} capability not available" in result.output
        assert result.error["code"] == "capability_missing"
        assert world.events[-1][0] == "delegate:error"


@pytest.mark.parametrize(
    ("given", "code", "words"),
    [
        ({}, "invalid_input", "'instruction' is missing"),
        ({"instruction": "  "}, "invalid_input", "'instruction' is missing"),
        ({"instruction": 3}, "invalid_input", "'instruction' must be text"),
        ({"instruction": "x"}, "invalid_input", "'agent' is missing; there are: amplifier:explorer"),
        ({"instruction": "x", "agent": "explorr"}, "unknown_agent", "did you mean 'amplifier:explorer'?"),
        ({"instruction": "x", "agent": "explorer", "context_depth": "some"}, "invalid_input", "'context_depth' must"),
        ({"instruction": "x", "agent": "explorer", "context_scope": 1}, "invalid_input", "'context_scope' must"),
        ({"instruction": "x", "agent": "explorer", "context_turns": 0}, "invalid_input", "'context_turns' must"),
        ({"instruction": "x", "session_id": "../../etc"}, "invalid_input", "is not the id of a session"),
        ({"instruction": "x", "agent": "explorer", "model_role": "fast"}, "invalid_input", "has no roles"),
        ({"instruction": "x", "agent": "explorer", "provider_preferences": {}}, "invalid_input", "must be a list"),
        ({"instruction": "x", "agent": "explorer", "provider_preferences": [{}]}, "invalid_input", "[0]'.provider"),
    ],
)
async def test_what_is_wrong_with_the_input(world: Any, given: dict[str, Any], code: str, words: str) -> None:
    """No child is started; the model reads why, and the log has an error with the ids of the call."""
    await world.open()
    result = await world.call(**given)
    assert (result.success, result.error["code"], world.spawned) == (False, code, [])
    assert words in result.output
    [(name, data)] = world.events
    assert name == "delegate:error"
    assert data.items() >= IDS.items()
    assert data["error"]["type"] == code


async def test_input_that_is_not_an_object(world: Any) -> None:
    """A model that sends anything but an object reads what is missing."""
    await world.open()
    assert "'instruction' is missing" in (await world.tool.execute(["x"])).output


class BudgetGone(Exception):
    """Be an error with a code, as those of the foundation are."""

    code = "budget_exhausted"


class Unspeakable(Exception):
    """Be an error that cannot even say what it is."""

    def __str__(self) -> str:
        raise RuntimeError("no words")


async def raises(error: BaseException) -> Any:
    raise error


@pytest.mark.parametrize(
    ("error", "code", "words"),
    [
        (ValueError("no such thing"), "child_failed", "ValueError: no such thing"),
        (BudgetGone("no money left"), "budget_exhausted", "no money left"),
        (Unspeakable(), "child_failed", "Unspeakable"),
        (RuntimeError("x" * 99_999), "child_failed", "x" * 1000),
    ],
)
async def test_a_child_that_raises(world: Any, error: Exception, code: str, words: str) -> None:
    """The model reads what the child's error says, in bounded length; the log has the error; the tool goes on."""
    await world.open()
    world.behaviour = lambda: raises(error)
    result = await world.call(agent="explorer", instruction="x")
    assert (result.success, result.error["code"]) == (False, code)
    assert words in result.output
    assert len(result.output) <= 4_000
    assert world.names == ["delegate:agent_spawned", "delegate:error"]
    world.behaviour = lambda: {"output": "fine"}
    assert (await world.call("call-2", agent="explorer", instruction="x")).success


@pytest.mark.parametrize(
    ("answer", "success", "end"),
    [
        ({"output": "half", "status": "incomplete"}, True, "delegate:agent_completed"),
        ({"output": "stopped", "status": "cancelled"}, False, "delegate:agent_cancelled"),
        ({"output": "", "status": "error"}, False, "delegate:error"),
        ({"output": "", "status": "error", "error": {"message": "no model"}}, False, "delegate:error"),
        ({"output": "so far", "status": "budget_exhausted", "metadata": {"reason": "usd"}}, False, "delegate:error"),
        ("just text", True, "delegate:agent_completed"),
        (None, True, "delegate:agent_completed"),
        ({"output": {"a": 1}, "turn_count": True, "status": 7, "metadata": []}, True, "delegate:agent_completed"),
    ],
)
async def test_how_a_child_may_end(world: Any, answer: Any, success: bool, end: str) -> None:
    """Every status has one end in the log and one readable result; an answer of an odd shape is text."""
    await world.open()
    world.behaviour = lambda: answer
    result = await world.call(agent="explorer", instruction="x")
    assert result.success is success
    assert world.names == ["delegate:agent_spawned", end]
    assert json.loads(json.dumps(world.events[-1][1]))["success"] is (success and "half" not in str(answer))
    assert isinstance(result.output["response"] if success else result.output, str)


async def test_a_flood_is_cut(world: Any) -> None:
    """An endless answer is cut, and says where all of it is."""
    await world.open({"settings": {"response_limit": 1000}})
    world.behaviour = lambda: {"output": "y" * 1_000_000}
    response = (await world.call(agent="explorer", instruction="x")).output["response"]
    assert response.count("y") == 1000
    assert CHILD in response


async def test_parallel_calls_keep_apart(world: Any) -> None:
    """Calls side by side have children, ids and ends of their own."""
    await world.open()
    gate = asyncio.Event()

    async def wait() -> Any:
        await gate.wait()
        return {"output": "done"}

    world.behaviour = wait
    calls = [asyncio.create_task(world.call(f"c{n}", agent="explorer", instruction=str(n))) for n in range(10)]
    for _ in range(10):
        await world.starts.get()
    gate.set()
    results = await asyncio.gather(*calls)
    assert len({result.output["session_id"] for result in results}) == 10
    for number in range(10):
        mine = [(name, data) for name, data in world.events if data["tool_call_id"] == f"c{number}"]
        assert [name for name, _ in mine] == ["delegate:agent_spawned", "delegate:agent_completed"]
        assert {data["sub_session_id"] for _, data in mine} == {results[number].output["session_id"]}


async def test_a_call_without_ids(world: Any) -> None:
    """A tool that is called by hand has a child of a new id, and events that say that no call is known."""
    await world.open()
    first = await world.call(None, agent="explorer", instruction="x")
    second = await world.call(None, agent="explorer", instruction="x")
    assert first.output["session_id"] != second.output["session_id"]
    assert all(data["tool_call_id"] is None for _, data in world.events)
    world.coordinator._tool_dispatch_context = {"tool_call_id": "old", "parallel_group_id": "way"}
    await world.call(None, agent="explorer", instruction="x")
    assert world.events[-1][1]["tool_call_id"] == "old"


async def test_the_short_contract(world: Any) -> None:
    """An app that offers only `(agent_name, task, parent_session)` is asked that way."""
    asked = []

    async def spawn(agent_name: str, task: str, parent_session: Any = None) -> dict[str, Any]:
        asked.append((agent_name, task, parent_session))
        return {"output": "short"}

    await world.open()
    world.coordinator.register_capability("session.spawn", spawn)
    result = await world.call(agent="explorer", instruction="x", context_depth="none")
    assert asked == [("amplifier:explorer", "x", world.coordinator.session)]
    assert result.output["response"] == "short"


async def test_the_app_may_name_the_child(world: Any) -> None:
    """An app that knows calls whose id came before says which child is meant, and the log says the same."""

    class Spawn:
        async def __call__(self, **given: Any) -> dict[str, Any]:
            return {"output": given["sub_session_id"]}

        def child_id(self, agent: str, tool_call_id: str | None, instruction: str) -> str:
            return f"named-{tool_call_id}_{agent}-{instruction}"

    await world.open()
    world.coordinator.register_capability("session.spawn", Spawn())
    result = await world.call(agent="explorer", instruction="x", context_depth="none")
    assert result.output["response"] == "named-call-1_amplifier:explorer-x"
    assert {data["sub_session_id"] for _, data in world.events} == {result.output["session_id"]}


@pytest.mark.parametrize("told", [{"cost_usd": "0.5"}, {"cost_usd": "2.5", "call_cost_usd": "0.5"}])
async def test_cost_of_a_child_that_failed(world: Any, told: dict[str, str]) -> None:
    """A child that has no answer has a cost: what the session was told of this call stands in the end in the log."""
    await world.open()

    async def spend_and_fail() -> Any:
        world.coordinator.register_contributor("session.cost", f"delegate:{CHILD}", lambda: told)
        raise RuntimeError("broken")

    world.behaviour = spend_and_fail
    await world.call(agent="explorer", instruction="x")
    assert world.events[-1][1]["cost_usd"] == "0.5"


async def test_a_deadline_inside_a_child_is_not_its_timeout(world: Any) -> None:
    """A child that fails by a deadline of its own has failed, also when the tool has no timeout."""
    await world.open({"settings": {"timeout": None}})

    async def fail() -> None:
        raise DeadlineExceeded("timeout after 3 s")

    world.behaviour = fail
    result = await world.call(agent="explorer", instruction="x")
    assert "failed: DeadlineExceeded: timeout after 3 s" in str(result.error)
    assert world.names == ["delegate:agent_spawned", "delegate:error"]


async def test_a_child_that_panics(world: Any) -> None:
    """An exception that is no Exception ends the child, and neither the call nor the session."""

    class Panic(BaseException):
        pass

    async def panic() -> None:
        raise Panic("index out of bounds")

    await world.open()
    world.behaviour = panic
    result = await world.call(agent="explorer", instruction="x")
    assert "Panic: index out of bounds" in result.output
    assert world.names == ["delegate:agent_spawned", "delegate:error"]
