"""Agent steps start child sessions through the app, with the models, limits and permissions that they name."""

from __future__ import annotations

import asyncio
from typing import Any

AGENT = "steps: [{id: a, agent: reviewer, prompt: 'look at {{file}}', output: out%s}]"


async def test_an_agent_gets_its_prompt_and_the_recipe_its_answer(world: Any) -> None:
    """The app's `session.spawn` gets the keywords that published apps take."""
    world.agent = lambda given: {"output": 'Found: {"bugs": 2}'}
    recipe = "orchestrator: {config: {max_iterations: 3}}\n" + AGENT % ", mode: REVIEW, parse_json: true, timeout: 60"
    done = await world.run(recipe, file="a.py")
    assert done["summary"]["final_output"] == {"bugs": 2}
    [given] = world.spawned
    assert given["agent_name"] == "team:reviewer"
    assert given["instruction"] == "MODE: REVIEW\n\nlook at a.py"
    assert given["orchestrator_config"] == {"max_iterations": 3}
    assert given["parent_session"] is world.session
    assert set(given) >= {"agent_configs", "sub_session_id", "provider_preferences", "session_metadata"}
    assert "use_subprocess" not in given
    names = [event for event, _ in world.events if event.startswith("recipe:agent")]
    assert names == ["recipe:agent_spawned", "recipe:agent_completed"]


async def test_an_agent_needs_permission(world: Any) -> None:
    """Without `session.spawn` no agent is started, and the failure is not repeated."""
    world.verdicts["session.spawn"] = "deny"
    failed = await world.run(AGENT % ", retry: {max_attempts: 3, initial_delay: 0}", file="a")
    assert failed["code"] == "denied"
    assert world.spawned == []


async def test_models_of_agents(world: Any) -> None:
    """A provider, preferences or the first role with models are passed on; roles without a resolver are ignored."""
    await world.run(AGENT % ", provider: mock, model: 'm-{{file}}'", file="a")
    await world.run(AGENT % ", provider_preferences: [{provider: p, model: m, config: {effort: high}}]", file="a")
    await world.run(AGENT % ", model_role: [coding, fast]", file="a")

    class Preference:
        def to_dict(self) -> dict[str, Any]:
            return {"provider": "small"}

    class Resolver:
        async def resolve(self, role: str) -> list[Any]:
            return [Preference()] if role == "fast" else []

    world.session.coordinator.register_capability("model_role_resolver", Resolver())
    await world.run(AGENT % ", model_role: [coding, fast]", file="a")
    assert [given["provider_preferences"] for given in world.spawned] == [
        [{"provider": "mock", "model": "m-a"}],
        [{"provider": "p", "model": "m", "config": {"effort": "high"}}],
        None,
        [{"provider": "small"}],
    ]


async def test_a_failing_agent_is_tried_again(world: Any) -> None:
    """Each attempt is a child of its own."""
    answers = iter([RuntimeError("overloaded"), {"output": "fine"}])

    def agent(given: dict[str, Any]) -> Any:
        answer = next(answers)
        if isinstance(answer, Exception):
            raise answer
        return answer

    world.agent = agent
    done = await world.run(AGENT % ", retry: {max_attempts: 2, initial_delay: 0}", file="a")
    assert done["summary"]["final_output"] == "fine"
    first, second = (given["sub_session_id"] for given in world.spawned)
    assert first != second


async def test_an_agent_that_takes_too_long_is_stopped(world: Any) -> None:
    """The timeout of the step is that of its child."""
    world.agent = lambda given: asyncio.sleep(600)
    assert (await world.run(AGENT % ", timeout: 0.05", file="a"))["code"] == "timeout"


async def test_at_most_so_many_agents_work_at_once(world: Any) -> None:
    """`max_concurrent_llm` holds for parallel iterations too."""
    working, most = 0, 0

    async def agent(given: dict[str, Any]) -> Any:
        nonlocal working, most
        working += 1
        most = max(most, working)
        await asyncio.sleep(0.01)
        working -= 1
        return {"output": "ok"}

    world.agent = agent
    done = await world.run(
        "context: {l: [1, 2, 3, 4, 5, 6]}\nrate_limiting: {max_concurrent_llm: 2}\n"
        "steps: [{id: a, agent: reviewer, prompt: p, foreach: '{{l}}', parallel: true, collect: all}]"
    )
    assert done["summary"]["final_output"] == ["ok"] * 6
    assert most == 2


async def test_rate_limits_slow_agents_down(world: Any) -> None:
    """After a rate limit the next agents start later, until enough of them succeed."""
    from amplifier_module_tool_recipes.recipe import Backoff, RateLimiting
    from amplifier_module_tool_recipes.work import Pace, StepError

    backoff = Backoff(initial_delay_ms=4, max_delay_ms=6, reset_after_success=2)
    pace = Pace(RateLimiting(backoff=backoff))

    async def fail() -> None:
        raise StepError("rate_limited", "429")

    async def succeed() -> str:
        return "ok"

    delays = []
    for work in (fail, fail, fail, succeed, succeed):
        try:
            await pace.run(work)
        except StepError:
            pass  # it is what the pace reacts to
        delays.append(pace._delay_ms)
    assert delays == [4, 6, 6, 6, 0]
