"""Sessions of an app's own bundles: prepared, created, asked, resumed, and their children."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.module_sources import ModuleNotFoundError
from amplifier_foundation import Bundle, ProviderPreference
from amplifier_foundation.bundle import BundleModuleResolver, BundleModuleSource
from amplifier_foundation.children.errors import SpawnError
from amplifier_foundation.modules import ModuleActivationError, ModuleActivator
from amplifier_foundation.sessions.store import SessionIdError

Make = Callable[..., Bundle]
Write = Callable[..., Path]
ECHO = {"name": "echo", "arguments": {"text": "hi"}}


def scripted(folder: Path, *turns: dict[str, Any]) -> list[dict[str, Any]]:
    """Return a model that answers by a script."""
    path = folder / "scenario.json"
    path.write_text(json.dumps({"turns": list(turns)}), encoding="utf-8")
    return [{"module": "provider-mock", "config": {"scenario": str(path)}}]


def calling(folder: Path) -> list[dict[str, Any]]:
    """Return a model that calls the tool of the test's own module."""
    return scripted(folder, {"tool_calls": [ECHO]}, {"text": "Done."})


class Asked:
    """An approval system as published apps have one."""

    def __init__(self, answer: str) -> None:
        self.answer = answer
        self.prompts: list[str] = []

    async def request_approval(self, prompt: str, options: list[str], timeout: float, default: str) -> str:
        self.prompts.append(prompt)
        return self.answer


async def _results(session: AmplifierSession) -> list[str]:
    messages = await session.coordinator.get("context").get_messages()
    return [str(message["content"]) for message in messages if message["role"] == "tool"]


async def test_inline_bundles_run(app_home: Path, answering: Make) -> None:
    """Inline bundles are composed, prepared without installing, and answer."""
    base = Bundle("base", session=answering().session, instruction="You help.")
    prepared = await base.compose(Bundle("model", providers=answering("Hi.").providers)).prepare(install_deps=False)
    session = await prepared.create_session()
    assert isinstance(session, AmplifierSession)
    assert session.initialized
    async with session:
        assert await session.execute("Hello") == "Hi."
        sent = await session.coordinator.get("context").get_messages_for_request()
        assert sent[0] == {"role": "system", "content": "You help."}
    assert not session.initialized


async def test_a_session_is_kept_like_any_other(app_home: Path, answering: Make) -> None:
    """The session of an app is in the user's home, with its log, and works in the folder that it was given."""
    prepared = await answering("Hi.").prepare()
    folder = app_home.parent / "elsewhere"
    folder.mkdir()
    async with await prepared.create_session(session_id="abc", parent_id="above", session_cwd=folder) as session:
        assert session.coordinator.get_capability("session.working_dir") == str(folder)
        assert session.parent_id == "above"
        await session.execute("Hello")
    (kept,) = app_home.glob("projects/*/sessions/abc")
    assert {"events.jsonl", "transcript.jsonl", "metadata.json"} <= {path.name for path in kept.iterdir()}
    facts = json.loads((kept / "metadata.json").read_text())
    assert (facts["parent_id"], facts["working_dir"], facts["turn_count"]) == ("above", str(folder), 1)
    with pytest.raises(SessionIdError, match="cannot be the name of a folder"):
        await prepared.create_session(session_id="../abc")


async def test_a_tool_without_a_rule_is_asked_through_the_apps_approval_system(
    app_home: Path, answering: Make, tmp_path: Path, write_module: Write
) -> None:
    """A call that no rule allows runs when the app's approval system says so, and is denied otherwise."""
    tools = [{"module": "tool-echo", "source": str(write_module(tmp_path / "module"))}]
    prepared = await answering(providers=calling(tmp_path), tools=tools).prepare()
    for answer, expected in (("Allow", "1 hi"), ("Deny", "denied")):
        system = Asked(answer)
        async with await prepared.create_session(approval_system=system) as session:
            await session.execute("Call it")
            assert expected in (await _results(session))[0].lower()
        assert len(system.prompts) == 1
        assert "echo" in system.prompts[0]


async def test_without_an_approval_system_the_call_is_denied_with_the_reason(
    app_home: Path, answering: Make, tmp_path: Path, write_module: Write
) -> None:
    """Nobody to ask means no, and the answer says that nobody could be asked."""
    tools = [{"module": "tool-echo", "source": str(write_module(tmp_path / "module"))}]
    prepared = await answering(providers=calling(tmp_path), tools=tools).prepare()
    async with await prepared.create_session() as session:
        assert await session.execute("Call it") == "Done."
        (result,) = await _results(session)
    assert result == "Denied: approval needed, but no approval system is there to ask"


async def test_rules_of_an_inline_bundle_do_not_allow(
    app_home: Path, answering: Make, tmp_path: Path, write_module: Write
) -> None:
    """A bundle cannot allow by itself what the user's rules would ask for, whatever it configures."""
    tools = [{"module": "tool-echo", "source": str(write_module(tmp_path / "module"))}]
    hooks = [{"module": "hooks-approval", "config": {"default_action": "continue", "rules": []}}]
    prepared = await answering(providers=calling(tmp_path), tools=tools, hooks=hooks).prepare()
    async with await prepared.create_session() as session:
        await session.execute("Call it")
        assert "1 hi" not in (await _results(session))[0]


async def test_apps_may_change_the_plan_and_the_resolver(
    app_home: Path, answering: Make, tmp_path: Path, write_module: Write
) -> None:
    """What an app puts into the plan, or in place of the resolver, counts for the next session."""
    prepared = await answering("Hi.").prepare()
    source = str(write_module(tmp_path / "module"))
    asked: list[str] = []

    class Own:
        async def async_resolve(self, module_id: str, source_hint: Any = None, profile_hint: Any = None) -> Any:
            asked.append(module_id)
            return await own.async_resolve(module_id, source_hint, profile_hint)

    own, prepared.resolver = prepared.resolver, Own()
    prepared.mount_plan.setdefault("tools", []).append({"module": "tool-echo", "source": source})
    async with await prepared.create_session() as session:
        assert "echo" in session.coordinator.get("tools")
    assert "tool-echo" in asked


async def test_modules_are_fetched_from_where_the_app_says(
    app_home: Path, answering: Make, upstream: Any, write_module: Write
) -> None:
    """Modules come from repositories, `source_resolver` may name other ones, and progress is reported."""
    write_module(upstream.folder)
    upstream.commit({})
    steps: list[tuple[str, str]] = []
    bundle = answering("Hi.", tools=[{"module": "tool-echo", "source": "git+https://example.invalid/x@main"}])
    prepared = await bundle.prepare(
        source_resolver=lambda module, source: upstream.uri if module == "tool-echo" else source,
        progress_callback=lambda action, detail: steps.append((action, detail)),
    )
    assert ("activating", "tool-echo") in steps
    assert any(action == "fetching" for action, _ in steps)
    assert prepared.mount_plan["tools"][0]["source"] == upstream.uri
    assert prepared.resolver.get_module_source("tool-echo").startswith(str(app_home / "cache"))
    async with await prepared.create_session() as session:
        assert "echo" in session.coordinator.get("tools")


async def test_a_module_that_fails_is_left_out_unless_strict(
    app_home: Path, answering: Make, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A missing module is a warning and the session runs without it; strict names every failure."""
    tools = [{"module": name, "source": str(tmp_path / name)} for name in ("tool-one", "tool-two")]
    bundle = answering("Hi.", tools=tools)
    prepared = await bundle.prepare()
    assert "tool-one" in caplog.text
    async with await prepared.create_session() as session:
        assert await session.execute("Hello") == "Hi."
    with pytest.raises(ModuleActivationError) as error:
        await bundle.prepare(strict=True)
    assert "tool-one" in str(error.value)
    assert "tool-two" in str(error.value)


async def test_a_resumed_session_goes_on_with_the_messages_that_the_app_restores(
    app_home: Path, answering: Make
) -> None:
    """With `is_resumed` the log goes on and the conversation is the app's to restore, each message once."""
    hooks = [{"module": "hooks-logging"}]
    prepared = await answering("One.", hooks=hooks).prepare()
    async with await prepared.create_session(session_id="abc") as session:
        await session.execute("First")
        messages = await session.coordinator.get("context").get_messages()
    resumed = await (await answering("Two.", hooks=hooks).prepare()).create_session(session_id="abc", is_resumed=True)
    async with resumed:
        context = resumed.coordinator.get("context")
        assert await context.get_messages() == []
        await context.set_messages(messages)
        assert await resumed.execute("Second") == "Two."
    (kept,) = app_home.glob("projects/*/sessions/abc")
    lines = [json.loads(line) for line in (kept / "transcript.jsonl").read_text().splitlines()]
    assert [line["role"] for line in lines] == ["user", "assistant", "user", "assistant"]
    events = [json.loads(line)["event"] for line in (kept / "events.jsonl").read_text().splitlines()]
    assert "session:start" in events
    assert "session:resume" in events
    async with await prepared.create_session(is_resumed=True) as fresh:
        assert fresh.is_resumed


async def test_a_child_runs_another_bundle_over_this_one(app_home: Path, answering: Make) -> None:
    """`spawn` composes the child's bundle over the parent's and returns the published five keys."""
    prepared = await answering("From the parent's model.").prepare()
    child = Bundle("helper", instruction="You are the helper.")
    async with await prepared.create_session() as session:
        result = await prepared.spawn(child, "Do it.", parent_session=session)
        assert sorted(result) == ["metadata", "output", "session_id", "status", "turn_count"]
        assert (result["output"], result["status"], result["turn_count"]) == ("From the parent's model.", "success", 1)
    (kept,) = app_home.glob(f"projects/*/sessions/{result['session_id']}")
    assert json.loads((kept / "metadata.json").read_text())["parent_id"] == session.session_id
    assert json.loads((kept / "record.json").read_text())["instruction"] == "You are the helper."


async def test_a_child_may_stand_alone(app_home: Path, answering: Make) -> None:
    """Without composing, and without a parent session, the child is its own bundle and nothing else."""
    prepared = await answering("Parent.").prepare()
    alone = await prepared.spawn(answering("Child.", name="kid"), "Do it.", compose=False)
    assert (alone["output"], alone["status"]) == ("Child.", "success")
    with pytest.raises(ValueError, match="Configuration is required"):
        await prepared.spawn(Bundle("empty"), "Do it.", compose=False)
    with pytest.raises(SpawnError, match="instruction"):
        await prepared.spawn(Bundle("kid"), "")


async def test_a_child_gets_what_its_caller_gives(app_home: Path, answering: Make, tmp_path: Path) -> None:
    """Messages, provider, settings of the loop, folder, depth and id reach the child, with and without a parent."""
    two = [
        {
            "module": "provider-mock",
            "id": "one",
            "instance_id": "one",
            "config": {"responses": ["One."], "priority": 1},
        },
        {
            "module": "provider-mock",
            "id": "two",
            "instance_id": "two",
            "config": {"responses": ["Two."], "priority": 2},
        },
    ]
    prepared = await answering(providers=two).prepare()
    tools = [{"module": "tool-spy", "source": str(_spy(tmp_path))}]
    child = Bundle("kid", tools=tools)
    for number, parent in enumerate((None, await prepared.create_session())):
        result = await prepared.spawn(
            child,
            "Do it.",
            parent_session=parent,
            session_id=f"0000000000000000-{number:016x}_kid",
            orchestrator_config={"max_iterations": 7},
            parent_messages=[{"role": "user", "content": "Before."}],
            session_cwd=tmp_path,
            provider_preferences=[ProviderPreference("two", "m1")],
            self_delegation_depth=2,
        )
        assert result["session_id"] == f"0000000000000000-{number:016x}_kid"
        assert result["output"] == "Two."
        spied = json.loads((tmp_path / "spied.json").read_text())
        assert spied["depth"] == 2
        assert spied["working_dir"] == str(tmp_path)
        assert spied["loop"] == {"max_iterations": 7}
        assert spied["messages"][0] == "Before."
        if parent is not None:
            await parent.cleanup()


def _spy(folder: Path) -> Path:
    """Write a module that notes what its session has when the loop asks for a request."""
    package = folder / "spy" / "amplifier_module_tool_spy"
    package.mkdir(parents=True)
    (package / "__init__.py").write_text(
        f"""
import json
import pathlib

__amplifier_module_type__ = "tool"


class Spy:
    name = "spy"
    description = "Nothing."
    input_schema = {{"type": "object", "properties": {{}}}}

    async def execute(self, input):
        raise NotImplementedError


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Spy(), name="spy")

    async def note(event, data):
        messages = await coordinator.get("context").get_messages()
        facts = {{
            "depth": coordinator.get_capability("self_delegation_depth"),
            "working_dir": coordinator.get_capability("session.working_dir"),
            "loop": coordinator.config["session"]["orchestrator"].get("config"),
            "messages": [message["content"] for message in messages],
        }}
        pathlib.Path({str(folder / "spied.json")!r}).write_text(json.dumps(facts))

    coordinator.hooks.register("provider:request", note, name="spy")
""",
        encoding="utf-8",
    )
    (folder / "spy" / "pyproject.toml").write_text('[project]\nname = "amplifier-module-tool-spy"\nversion = "1"\n')
    return folder / "spy"


async def test_a_child_keeps_to_the_rules_of_its_parent(
    app_home: Path, answering: Make, tmp_path: Path, write_module: Write
) -> None:
    """What the user's rules deny stays denied in a child, whatever its bundle says."""
    (app_home / "policy.yaml").write_text("rules:\n  - {action: tool.echo, verdict: deny}\n")
    tools = [{"module": "tool-echo", "source": str(write_module(tmp_path / "module"))}]
    prepared = await answering("Parent.").prepare()
    child = Bundle("kid", tools=tools, providers=calling(tmp_path))
    system = Asked("Allow always")
    async with await prepared.create_session(approval_system=system) as session:
        result = await prepared.spawn(child, "Call it.", parent_session=session)
        (kept,) = app_home.glob(f"projects/*/sessions/{result['session_id']}")
    assert "1 hi" not in (kept / "transcript.jsonl").read_text()
    assert system.prompts == []


async def test_a_resolver_knows_folders_and_fetches_by_source(
    app_home: Path, tmp_path: Path, write_module: Write
) -> None:
    """A known module is resolved at once, one that names a source is fetched, any other is the kernel's error."""
    folder = write_module(tmp_path / "module")
    known = BundleModuleResolver({"tool-known": folder})
    assert known.resolve("tool-known").resolve() == folder
    assert known.get_module_source("tool-known") == str(folder)
    assert known.get_module_source("tool-echo") is None
    assert BundleModuleSource(folder).resolve() == folder
    with pytest.raises(ModuleNotFoundError):
        await known.async_resolve("tool-echo", source_hint=str(folder))
    lazy = BundleModuleResolver({}, ModuleActivator())
    assert (await lazy.async_resolve("tool-echo", source_hint=str(folder))).resolve() == folder
    assert lazy.resolve("tool-echo").resolve() == folder
    assert lazy.module_paths == {"tool-echo": folder}
    with pytest.raises(ModuleNotFoundError):
        await lazy.async_resolve("tool-other")
    with pytest.raises(ModuleActivationError, match="tool-missing"):
        await lazy.async_resolve("tool-missing", source_hint=str(tmp_path / "missing"))


async def test_an_activator_makes_modules_and_packages_ready(
    app_home: Path, tmp_path: Path, write_module: Write
) -> None:
    """Several modules are activated at once, into the cache that is given; bundles may be packages themselves."""
    folder = write_module(tmp_path / "module")
    activator = ModuleActivator(tmp_path / "own-cache", install_deps=False, base_path=tmp_path)
    found = await activator.activate_all([{"module": "tool-echo", "source": "./module"}, {"module": "tool-none"}])
    assert found == {"tool-echo": folder}
    assert folder in await activator.activate_bundle_package(folder)
    assert not (app_home / "cache").exists()
