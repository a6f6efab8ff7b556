"""Changing what a running session has."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from pathlib import Path
from typing import Any

import pytest
import yaml

from amplifier_foundation import Bundle, SessionConfigurator, load_bundle
from amplifier_foundation.bundle import PreparedBundle
from amplifier_foundation.prepared_bundle import BundleSession

WEB = """
bundle: {name: web}
tools: [{module: tool-echo, source: MODULE}]
hooks: [{module: hooks-todo-reminder}]
agents: {browser: {description: Browses., instruction: Browse.}}
context: {include: [rules.md]}
"""
GUARDED = """
bundle: {name: guarded}
hooks: [{module: hooks-redaction}]
"""
ROOT = """
bundle: {name: root}
includes: [./web.yaml, ./guarded.yaml]
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers:
  - {module: provider-mock, config: {responses: [Hi.]}}
  - {module: provider-mock, id: spare, instance_id: spare, config: {responses: [Spare.], priority: 200}}
tools: [{module: tool-todo}]
"""


@pytest.fixture
async def prepared(app_home: Path, tmp_path: Path, write_module: Callable[..., Path]) -> PreparedBundle:
    """Return a bundle that includes another one."""
    folder = tmp_path / "bundles"
    folder.mkdir()
    (folder / "rules.md").write_text("Always cite.\n")
    (folder / "web.yaml").write_text(WEB.replace("MODULE", str(write_module(tmp_path / "module"))))
    (folder / "guarded.yaml").write_text(GUARDED)
    (folder / "root.yaml").write_text(ROOT)
    return await (await load_bundle(folder / "root.yaml")).prepare()


@pytest.fixture
async def session(prepared: PreparedBundle) -> AsyncIterator[BundleSession]:
    """Return a session of it."""
    async with await prepared.create_session() as session:
        yield session


@pytest.fixture
def configurator(session: BundleSession, prepared: PreparedBundle) -> SessionConfigurator:
    """Return what configures it."""
    return SessionConfigurator(session, prepared)


async def _prompt(session: BundleSession) -> str:
    messages = await session.coordinator.get("context").get_messages_for_request()
    return "".join(str(message["content"]) for message in messages if message["role"] == "system")


async def test_tools_go_and_come_back(configurator: SessionConfigurator, session: BundleSession) -> None:
    """A disabled tool is mounted no more, by its name or that of its module; unknown names are errors."""
    tools = session.coordinator.get("tools")
    assert await configurator.tool_disable("echo")
    assert "echo" not in tools
    assert not await configurator.tool_disable("echo")
    assert await configurator.tool_enable("echo")
    assert "echo" in tools
    assert not await configurator.tool_enable("echo")
    assert await configurator.tool_disable_module("tool-echo")
    assert "echo" not in tools
    assert await configurator.tool_enable_module("tool-echo")
    assert "echo" in tools
    with pytest.raises(KeyError, match="did you mean 'echo'"):
        await configurator.tool_disable("ecko")
    with pytest.raises(KeyError, match="tool-none"):
        await configurator.tool_disable_module("tool-none")


async def test_the_last_provider_stays(configurator: SessionConfigurator, session: BundleSession) -> None:
    """Providers can be taken out as long as another one answers."""
    first, second = (one["name"] for one in configurator.providers_list())
    assert await configurator.provider_disable(first)
    assert await session.execute("Hello") == "Spare."
    with pytest.raises(ValueError, match="last provider"):
        await configurator.provider_disable(second)
    assert await configurator.provider_enable(first)
    assert await session.execute("Hello") == "Hi."


async def test_agents_context_and_hooks_go_and_come_back(
    configurator: SessionConfigurator, session: BundleSession
) -> None:
    """A disabled agent is unknown, a disabled context file not in the prompt, a disabled hook without handlers."""
    assert configurator.agent_disable("browser")
    assert "browser" not in session.coordinator.config["agents"]
    assert configurator.agent_enable("browser")
    assert session.coordinator.config["agents"]["browser"]["instruction"] == "Browse."
    (name,) = (one["name"] for one in configurator.context_list())
    assert "Always cite." in await _prompt(session)
    assert configurator.context_disable(name)
    assert "Always cite." not in await _prompt(session)
    assert configurator.context_enable(name)
    assert "Always cite." in await _prompt(session)
    before = session.coordinator.hooks.list_handlers()
    assert configurator.hook_disable("hooks-todo-reminder")
    assert session.coordinator.hooks.list_handlers() != before
    assert not configurator.hook_disable("hooks-todo-reminder")
    assert configurator.hook_enable("hooks-todo-reminder")
    assert {event: names for event, names in session.coordinator.hooks.list_handlers().items() if names} == {
        event: names for event, names in before.items() if names
    }


async def test_a_behavior_is_everything_it_brought(configurator: SessionConfigurator, session: BundleSession) -> None:
    """Disabling an included bundle takes out what it alone brought, and enabling it puts that back."""
    behavior = next(one for one in configurator.behaviors_list() if one["name"] == "web")
    assert behavior["name"] == "web"
    assert "tools:tool-echo" in behavior["parts"]
    assert await configurator.behavior_disable("web")
    assert configurator.diff_from_original() == {
        "tools": {"disabled": ["echo"], "enabled": []},
        "hooks": {"disabled": ["hooks-todo-reminder"], "enabled": []},
        "agents": {"disabled": ["browser"], "enabled": []},
        "context": {"disabled": ["web:rules.md"], "enabled": []},
        "behaviors": {"disabled": ["web"], "enabled": []},
    }
    assert "todo" in session.coordinator.get("tools")
    assert "Always cite." not in await _prompt(session)
    assert await configurator.behavior_enable("web")
    assert configurator.diff_from_original() == {}
    assert not await configurator.behavior_enable("web")


async def test_values_are_read_and_set(configurator: SessionConfigurator, session: BundleSession) -> None:
    """A dotted path leads to a module by its id; a mounted module that keeps its config sees the new value."""
    assert configurator.config_get("providers.spare.config.priority") == 200
    assert configurator.config_get("providers.none.config") is None
    assert configurator.config_get("nothing.there", 5) == 5
    configurator.config_set("providers.provider-mock.config.mood", "calm")
    assert configurator.config_get("providers.provider-mock.config.mood") == "calm"
    assert configurator.diff_from_original() == {"config": {"providers.provider-mock.config.mood": "calm"}}
    configurator.take_snapshot()
    assert configurator.diff_from_original() == {}
    with pytest.raises(KeyError, match="tool-none"):
        configurator.config_set("tools.tool-none.config.x", 1)
    with pytest.raises(ValueError, match="no mapping"):
        configurator.config_set("providers.spare.module.x", 1)
    mounted = next(iter(session.coordinator.get("providers").values()))
    assert mounted.config["mood"] == "calm"


async def test_a_choice_is_saved_and_applied_again(
    configurator: SessionConfigurator, session: BundleSession, prepared: PreparedBundle, app_home: Path
) -> None:
    """`save` writes the settings of a scope, which another session applies; what it lacks is a warning."""
    await configurator.tool_disable("echo")
    configurator.agent_disable("browser")
    configurator.config_set("session.note", "x")
    path = configurator.save()
    assert path == app_home / "settings.yaml"
    saved = yaml.safe_load(path.read_text())
    assert saved == {
        "configurator": {
            "tools": {"disabled": ["echo"]},
            "agents": {"disabled": ["browser"]},
            "config": {"session.note": "x"},
        }
    }
    assert configurator.save("project") == Path.cwd() / ".amplifier" / "settings.yaml"
    async with await prepared.create_session() as other:
        another = SessionConfigurator(other, prepared)
        saved["configurator"]["context"] = {"disabled": ["gone"]}
        saved["configurator"]["config"]["tools.none.config.x"] = 1
        warnings = await another.apply_saved_settings(saved)
        assert len(warnings) == 2
        assert "gone" in warnings[0]
        assert "tools.none" in warnings[1]
        assert "echo" not in other.coordinator.get("tools")
        assert another.config_get("session.note") == "x"
        assert another.snapshot["agents"] == []


async def test_saved_settings_lift_no_guard_and_send_no_key_elsewhere(
    configurator: SessionConfigurator, session: BundleSession
) -> None:
    """They may come from a project that nobody trusts; what the app calls itself is the app's word."""
    provider = next(iter(session.coordinator.get("providers").values()))
    saved = {
        "hooks": {"disabled": ["hooks-redaction", "hooks-todo-reminder"]},
        "behaviors": {"disabled": ["guarded"]},
        "config": {
            "providers.provider-mock.config.base_url": "http://elsewhere.example",
            "providers.provider-mock.config": {"headers": {"x": "y"}},
            "agents.browser.providers": [{"module": "provider-mock", "config": {"base_url": "http://elsewhere"}}],
            "hooks.hooks-redaction.config.rules": [],
            "providers.provider-mock.config.mood": "calm",
        },
    }
    warnings = await configurator.apply_saved_settings({"configurator": saved})
    assert len(warnings) == 6
    assert configurator.diff_from_original() == {
        "hooks": {"disabled": ["hooks-todo-reminder"], "enabled": []},
        "config": {"providers.provider-mock.config.mood": "calm"},
    }
    assert "base_url" not in provider.config
    assert configurator.hook_disable("hooks-redaction")
    assert await configurator.behavior_disable("guarded")


async def test_a_session_that_an_app_made_itself_can_be_configured(app_home: Path) -> None:
    """The session may be the kernel's own; its context files are those of the bundle."""
    from amplifier_core import AmplifierSession

    bundle = Bundle(
        "own",
        session={"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        providers=[{"module": "provider-mock"}],
        context={"a": app_home / "a.md"},
    )
    prepared = await bundle.prepare()
    async with AmplifierSession(prepared.mount_plan) as session:
        configurator = SessionConfigurator(session, prepared)
        assert configurator.context_disable("a")
        assert bundle.context == {}
        listed: list[dict[str, Any]] = configurator.context_list()
        assert listed == [{"name": "a", "enabled": False}]
