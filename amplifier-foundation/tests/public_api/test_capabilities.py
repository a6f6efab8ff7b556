"""Capabilities as published apps and modules provide and call them."""

from __future__ import annotations

import asyncio
import inspect
import json
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation import Bundle, ProviderPreference
from amplifier_foundation.prepared_bundle import BundleSession

Make = Callable[..., Bundle]

AGENT = {"description": "Finds things.", "instruction": "You find things."}
#: Two models of one kind, which answer with their names.
PROVIDERS = [
    {
        "module": "provider-mock",
        "id": name,
        "instance_id": name,
        "config": {"responses": [f"From {name}."], "priority": priority, "default_model": f"{name}-model"},
    }
    for name, priority in (("one", 1), ("two", 2))
]


@asynccontextmanager
async def _session(bundle: Bundle, **options: Any) -> AsyncIterator[BundleSession]:
    async with await (await bundle.prepare()).create_session(**options) as session:
        yield session


class Roles:
    """A resolver as hooks-routing provides it: asynchronous, with preferences as objects."""

    name = "routing"
    known_roles = ("general", "fast")

    def __init__(self) -> None:
        self.asked: list[Any] = []

    async def resolve(self, role: str | Sequence[str]) -> list[ProviderPreference]:
        await asyncio.sleep(0)
        self.asked.append(role)
        wanted = [role] if isinstance(role, str) else role
        return [ProviderPreference("two", "two-model")] if "fast" in wanted else []


async def test_values_are_there_before_modules_mount(app_home: Path, answering: Make, tmp_path: Path) -> None:
    """The folder is text, the resolver of mentions synchronous, and the depth absent where nothing was delegated."""
    (tmp_path / "rules.md").write_text("Rules.\n")
    bundle = answering("Hi.", name="team", base_path=tmp_path)
    async with _session(bundle) as session:
        get = session.coordinator.get_capability
        assert get("session.working_dir") == str(Path.cwd())
        assert get("bundle_package_paths") == []
        assert get("self_delegation_depth") is None
        assert get("mention_deduplicator") is not None
        resolver = get("mention_resolver")
        assert resolver.resolve("@team:rules.md") == tmp_path / "rules.md"
        assert resolver.resolve("@team:gone.md") is None
        assert resolver.bundles["team"].base_path == tmp_path
        assert resolver.bundles["team"].source_base_paths == {"team": tmp_path}


async def test_children_are_spawned_and_resumed_with_the_published_keywords(app_home: Path, answering: Make) -> None:
    """All thirteen keywords, and unknown ones, are taken; results have the five published keys."""
    bundle = answering(providers=PROVIDERS, agents={"explorer": AGENT})
    async with _session(bundle) as session:
        spawn = session.coordinator.get_capability("session.spawn")
        assert inspect.iscoroutinefunction(type(spawn).__call__)
        result = await spawn(
            agent_name="explorer",
            instruction="Find it.",
            parent_session=session,
            agent_configs={"explorer": AGENT},
            sub_session_id=None,
            tool_inheritance={"exclude_tools": ["tool-delegate"]},
            hook_inheritance={},
            orchestrator_config={"max_iterations": 3},
            parent_messages=[{"role": "user", "content": "Before."}],
            provider_preferences=[ProviderPreference("two", "two-*"), ProviderPreference("two", "two-model")],
            self_delegation_depth=1,
            session_metadata={"agent_name": "explorer", "recipe": "review"},
            use_subprocess=False,
            invented_later=True,
        )
        assert sorted(result) == ["metadata", "output", "session_id", "status", "turn_count"]
        assert (result["output"], result["status"]) == ("From two.", "success")
        resume = session.coordinator.get_capability("session.resume")
        again = await resume(result["session_id"], "And now?")
        assert again["session_id"] == result["session_id"]
        assert sorted(again) == sorted(result)


async def test_a_preference_with_a_pattern_chooses_a_model(app_home: Path, answering: Make) -> None:
    """A pattern is resolved with the provider's own list of models."""
    async with _session(answering("Hi.", agents={"explorer": AGENT})) as session:
        spawn = session.coordinator.get_capability("session.spawn")
        result = await spawn("explorer", "Find it.", session, provider_preferences=[ProviderPreference("mock", "m*")])
        assert sorted(result) == ["metadata", "output", "session_id", "status", "turn_count"]
        assert result["metadata"]["model"].startswith("provider-mock/m")


async def test_a_resolver_of_a_module_decides_about_roles(app_home: Path, answering: Make) -> None:
    """The models of an agent's role, one or a list, come from the resolver that a module has put in place."""
    agents = {"explorer": {**AGENT, "model_role": ["unheard of", "fast"]}, "writer": {**AGENT, "model_role": "slow"}}
    async with _session(answering(providers=PROVIDERS, agents=agents)) as session:
        roles = Roles()
        session.coordinator.register_capability("model_role_resolver", roles)
        spawn = session.coordinator.get_capability("session.spawn")
        assert (await spawn("explorer", "Find it.", session))["output"] == "From two."
        assert (await spawn("writer", "Write it.", session))["output"] == "From one."
        assert (await spawn("writer", "Write more.", session, model_role="fast"))["output"] == "From two."
        assert roles.asked == [["unheard of", "fast"], "slow", "fast"]


async def test_a_resolver_that_fails_costs_no_answer(app_home: Path, answering: Make) -> None:
    """A role is a wish: the child runs with its parent's model, and the caller reads why."""

    class Broken:
        async def resolve(self, role: str) -> list[ProviderPreference]:
            raise OSError("no matrix")

    agents = {"explorer": {**AGENT, "model_role": "fast"}}
    async with _session(answering("Hi.", agents=agents)) as session:
        session.coordinator.register_capability("model_role_resolver", Broken())
        result = await session.coordinator.get_capability("session.spawn")("explorer", "Find it.", session)
        assert result["output"] == "Hi."
        assert "no matrix" in result["metadata"]["warnings"][0]


@pytest.mark.parametrize("is_published", [False, True])
async def test_delegate_takes_roles_from_either_resolver(
    app_home: Path, answering: Make, tmp_path: Path, is_published: bool
) -> None:
    """The tool `delegate` awaits the resolver, whichever it is, and hands on what it returns."""
    call = {"name": "delegate", "arguments": {"agent": "explorer", "instruction": "Find it.", "model_role": "fast"}}
    script = tmp_path / "scenario.json"
    script.write_text(json.dumps({"turns": [{"tool_calls": [call]}, {"text": "Done."}]}))
    calling = {
        "module": "provider-mock",
        "id": "main",
        "instance_id": "main",
        "config": {"scenario": str(script), "priority": 1},
    }
    bundle = answering(
        providers=[calling, PROVIDERS[1]], tools=[{"module": "tool-delegate"}], agents={"explorer": AGENT}
    )
    (app_home / "policy.yaml").write_text("rules:\n  - {action: session.spawn, verdict: allow}\n")
    (app_home / "settings.yaml").write_text(
        "routing: {overrides: {fast: {candidates: [{provider: two, model: two-model}]}}}\n"
    )
    async with _session(bundle) as session:
        if is_published:
            session.coordinator.register_capability("model_role_resolver", Roles())
        schema = session.coordinator.get("tools")["delegate"].input_schema
        assert "fast" in schema["properties"]["model_role"]["enum"]
        assert await session.execute("Go") == "Done."
        messages = await session.coordinator.get("context").get_messages()
        (result,) = [str(message["content"]) for message in messages if message["role"] == "tool"]
        assert "From two." in result


async def test_delegate_offers_no_roles_without_a_resolver(app_home: Path, answering: Make) -> None:
    """Where no one knows roles, the schema of `delegate` has none."""
    bundle = answering("Hi.", tools=[{"module": "tool-delegate"}], agents={"explorer": AGENT})
    async with _session(bundle) as session:
        session.coordinator.register_capability("model_role_resolver", None)
        assert "model_role" not in session.coordinator.get("tools")["delegate"].input_schema["properties"]


async def test_an_app_may_register_a_spawn_of_its_own(app_home: Path, answering: Make) -> None:
    """What an app registers takes the place of what the library offers, and gets preferences with attributes."""
    seen: dict[str, Any] = {}

    async def spawn(**given: Any) -> dict[str, Any]:
        seen.update(given)
        return {"output": "Own.", "session_id": "x", "status": "success", "turn_count": 1, "metadata": {}}

    bundle = answering("Hi.", tools=[{"module": "tool-delegate"}], agents={"explorer": AGENT})
    (app_home / "policy.yaml").write_text("rules:\n  - {action: session.spawn, verdict: allow}\n")
    async with _session(bundle) as session:
        session.coordinator.register_capability("session.spawn", spawn)
        tool = session.coordinator.get("tools")["delegate"]
        preference = {"provider": "mock", "model": "m1"}
        result = await tool.execute(
            {"agent": "explorer", "instruction": "Find it.", "provider_preferences": [preference]}
        )
        assert result.output["response"] == "Own."
        (chosen,) = seen["provider_preferences"]
        assert (chosen.provider, chosen.model, chosen.config, chosen.to_dict()) == ("mock", "m1", {}, preference)


CONTEXT = '''
__amplifier_module_type__ = "context"


class Context:
    """A context whose setter is a coroutine function, and which awaits the factory."""

    def __init__(self):
        self.messages, self.factory = [], None

    async def set_system_prompt_factory(self, factory):
        self.factory = factory

    async def add_message(self, message):
        self.messages.append(message)

    async def get_messages(self):
        return list(self.messages)

    async def get_messages_for_request(self, token_budget=None, provider=None):
        return [{"role": "system", "content": await self.factory()}, *self.messages]

    async def set_messages(self, messages):
        self.messages = list(messages)

    async def clear(self):
        self.messages = []


async def mount(coordinator, config=None):
    await coordinator.mount("context", Context())
'''


def _context_module(folder: Path) -> Path:
    package = folder / "context" / "amplifier_module_context_awaited"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(CONTEXT)
    (folder / "context" / "pyproject.toml").write_text(
        '[project]\nname = "amplifier-module-context-awaited"\nversion = "1"\n'
    )
    return folder / "context"


async def test_a_context_with_an_async_setter_gets_the_prompt(app_home: Path, answering: Make, tmp_path: Path) -> None:
    """`set_system_prompt_factory` is awaited where it is a coroutine function."""
    session_part = {
        "orchestrator": {"module": "loop-basic"},
        "context": {"module": "context-awaited", "source": str(_context_module(tmp_path))},
    }
    bundle = Bundle("app", session=session_part, providers=answering("Hi.").providers, instruction="You help.")
    async with _session(bundle) as session:
        context = session.coordinator.get("context")
        assert await context.factory() == "You help."
        assert await session.execute("Hello") == "Hi."


@pytest.mark.parametrize("module", ["context-simple", "context-persistent"])
async def test_our_contexts_can_be_awaited(app_home: Path, answering: Make, module: str) -> None:
    """Published callers await `set_system_prompt_factory` of our contexts and give asynchronous factories."""
    parts = {"orchestrator": {"module": "loop-basic"}, "context": {"module": module}}
    async with _session(answering("Hi.", session=parts)) as session:

        async def factory() -> str:
            return "From the factory."

        context = session.coordinator.get("context")
        await context.set_system_prompt_factory(factory)
        sent = await context.get_messages_for_request()
        assert sent[0] == {"role": "system", "content": "From the factory."}


async def test_settings_decide_about_lists_of_roles(app_home: Path, answering: Make) -> None:
    """Without a resolver of a module, the first role of an agent's list that the settings know gives its model."""
    (app_home / "settings.yaml").write_text(
        "routing: {overrides: {coding: {candidates: [{provider: two, model: two-model}]}}}\n"
    )
    agents = {"builder": {**AGENT, "model_role": ["unheard of", "coding", "general"]}}
    async with _session(answering(providers=PROVIDERS, agents=agents)) as session:
        result = await session.coordinator.get_capability("session.spawn")("builder", "Build it.", session)
        assert result["output"] == "From two."
        assert "'unheard of' is unknown" in result["metadata"]["warnings"][0]


RECIPES = """
from amplifier_core import ToolResult
from amplifier_foundation import ProviderPreference
from amplifier_foundation.spawn_utils import is_glob_pattern

__amplifier_module_type__ = "tool"


class Recipes:
    name, description = "recipes", "Run steps."
    input_schema = {"type": "object", "properties": {"agent": {"type": "string"}}}

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        self.coordinator.display_system.show_message("step 1", "info", source="recipe")
        preference = ProviderPreference(provider="two", model="two-model", config={})
        result = await self.coordinator.get_capability("session.spawn")(
            agent_name=input["agent"],
            instruction="Do step 1.",
            parent_session=self.coordinator.session,
            agent_configs=self.coordinator.config.get("agents", {}),
            sub_session_id=None,
            orchestrator_config=None,
            provider_preferences=[preference] if not is_glob_pattern(preference.model) else None,
            session_metadata={"recipe": "review"},
            use_subprocess=False,
        )
        return ToolResult(output={"status": "completed", "final_output": result["output"]})


async def mount(coordinator, config=None):
    known = coordinator.get_capability("observability.events") or []
    coordinator.register_capability("observability.events", [*known, "recipe:start"])
    coordinator.mount_points["tools"]["recipes"] = Recipes(coordinator)
    return {"name": "tool-recipes", "version": "1"}
"""
ROUTING = """
from amplifier_core import HookResult

__amplifier_module_type__ = "hook"


class Resolver:
    name = "routing"
    known_roles = ("coding", "general")

    async def resolve(self, role):
        from amplifier_foundation.spawn_utils import ProviderPreference

        wanted = [role] if isinstance(role, str) else role
        return [ProviderPreference("two", "two-model")] if "coding" in wanted else []


async def mount(coordinator, config=None):
    resolver = Resolver()
    coordinator.register_capability("model_role_resolver", resolver)

    async def at_start(event, data):
        for agent in coordinator.config.get("agents", {}).values():
            if role := agent.get("model_role"):
                found = await resolver.resolve(role)
                agent["provider_preferences"] = [preference.to_dict() for preference in found]
        return HookResult(action="continue")

    async def list_roles(event, data):
        roles = "Roles: coding, general"
        return HookResult(action="inject_context", context_injection=roles, ephemeral=True)

    coordinator.hooks.register("session:start", at_start, priority=5, name="routing")
    coordinator.hooks.register("provider:request", list_roles, priority=15, name="routing-roles")
"""


def _stand_in(folder: Path, name: str, text: str) -> str:
    """Write a module as the published ones are written and return its folder."""
    package = folder / name / f"amplifier_module_{name.replace('-', '_')}"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(text)
    (folder / name / "pyproject.toml").write_text(f'[project]\nname = "amplifier-module-{name}"\nversion = "1"\n')
    return str(folder / name)


class Shown:
    """A display system as published apps have one."""

    def __init__(self) -> None:
        self.messages: list[tuple[str, str, str]] = []

    def show_message(self, message: str, level: str, source: str = "hook") -> None:
        self.messages.append((message, level, source))


async def test_a_module_like_the_published_recipes_runs(app_home: Path, answering: Make, tmp_path: Path) -> None:
    """It imports the foundation when it is loaded, puts its tool into the mount points, and spawns as it does."""
    tools = [{"module": "tool-like-recipes", "source": _stand_in(tmp_path, "tool-like-recipes", RECIPES)}]
    display = Shown()
    bundle = answering(providers=PROVIDERS, tools=tools, agents={"explorer": AGENT})
    async with _session(bundle, display_system=display) as session:
        tool = session.coordinator.get("tools")["recipes"]
        result = await tool.execute({"agent": "explorer"})
        assert result.output == {"status": "completed", "final_output": "From two."}
    assert ("step 1", "info", "recipe") in display.messages


async def test_a_module_like_the_published_routing_decides(app_home: Path, answering: Make, tmp_path: Path) -> None:
    """What it writes into the agents when the session starts counts for their children; its role list is sent."""
    hooks = [{"module": "hooks-like-routing", "source": _stand_in(tmp_path, "hooks-like-routing", ROUTING)}]
    agents = {"builder": {**AGENT, "model_role": ["coding", "general"]}, "writer": {**AGENT, "model_role": "general"}}
    async with _session(answering(providers=PROVIDERS, hooks=hooks, agents=agents)) as session:
        assert await session.execute("Hello") == "From one."
        live = session.coordinator.config["agents"]["builder"]
        assert live["provider_preferences"] == [{"provider": "two", "model": "two-model"}]
        spawn = session.coordinator.get_capability("session.spawn")
        assert (await spawn("builder", "Build it.", session))["output"] == "From two."
        assert (await spawn("writer", "Write it.", session))["output"] == "From one."
