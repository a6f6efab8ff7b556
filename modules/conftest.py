"""Fixtures that the tests of several modules share."""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable, Iterator, Sequence
from itertools import count
from pathlib import Path
from types import ModuleType
from typing import Any, ClassVar, NamedTuple

import pytest

from amplifier_core import AmplifierSession
from amplifier_kit.engine.loop.turn import Turn, TurnLoop
from amplifier_testing.llm import ModelServer, Said
from amplifier_testing.loop.fakes import ListContext, ScriptedProvider, call, say


@pytest.fixture
def server() -> Iterator[ModelServer]:
    """Return a running server of models."""
    with ModelServer() as running:
        yield running


class TodoSession(NamedTuple):
    """What a session of two turns left behind: the first calls a tool twice in parallel, the second answers."""

    messages: list[dict[str, Any]]
    cost: dict[str, Any]
    events: list[tuple[str, dict[str, Any]]]


@pytest.fixture
def todo_session(server: ModelServer) -> Callable[..., Awaitable[TodoSession]]:
    """Return a function that runs a session with two instances of a provider, of which `instance` is to answer.

    Asserts what holds for every provider: the answer, the messages, the streamed text, and that nothing failed.
    """

    async def run(wire: Any, module: str, *, address: str, instance: str, config: dict[str, Any]) -> TodoSession:
        calls = (("t1", "todo", {"action": "list"}), ("t2", "todo", {"action": "list"}))
        first = wire.reply(Said(("Let me see.",), ("Hm.",), calls=calls))
        server.answers(first, wire.reply(Said(("All", " done."))), path="/one")
        plan: dict[str, Any] = {
            "session": {"orchestrator": "loop-streaming", "context": "context-simple"},
            "orchestrator": {"config": {"extended_thinking": True}},
            "providers": [
                {"module": module, "config": {address: f"{server.url}/two"}},
                {
                    "module": module,
                    "instance_id": instance,
                    "config": {address: f"{server.url}/one", "priority": 1, **config},
                },
            ],
            "tools": [{"module": "tool-todo"}],
        }
        events: list[tuple[str, dict[str, Any]]] = []
        async with AmplifierSession(plan) as session:
            session.coordinator.register_policy("all", lambda action, details: "allow", 1)
            session.coordinator.hooks.register("*", lambda event, data: events.append((event, data)))
            assert await session.execute("what is to do?") == "All done."
            messages = await session.coordinator.get("context").get_messages()
            [cost] = await session.coordinator.collect_contributions("session.cost")
        assert [message["role"] for message in messages] == ["user", "assistant", "tool", "tool", "assistant"]
        assert [block["type"] for block in messages[1]["content"]] == ["thinking", "text", "tool_call", "tool_call"]
        deltas = [data for event, data in events if event == "llm:stream_block_delta"]
        text = "".join(data["text"] for data in deltas if data["block_type"] == "text")
        assert text == "Let me see.All done."
        assert [data for event, data in events if event in ("provider:error", "tool:error")] == []
        return TodoSession(messages, cost, events)

    return run


class ScriptedTurn(Turn):
    name: ClassVar[str] = "loop-scripted"


class ScriptedLoop(TurnLoop):
    turn_type: ClassVar[type[Turn]] = ScriptedTurn


@pytest.fixture
def scripted_session(monkeypatch: pytest.MonkeyPatch) -> Callable[..., AmplifierSession]:
    """Give `scripted_session(*answers, tools=(), hooks=(), mounted=(), session=None, loop=..., **options)`.

    The model gives the answers one after the other, each a text, a list of tools to call with their arguments, or a
    function of the request, and fails when there are no more. Calls are numbered: `call-1`, `call-2`. `tools` and
    `hooks` are entries of the plan and `session` keys of its section, `mounted` are tools as they are, and the options
    are those of AmplifierSession.
    """
    numbers = count(1)

    def module(point: str, *parts: Any) -> dict[str, Any]:
        """Make a module that mounts these parts; return its entry in a plan."""

        async def mount(coordinator: Any, config: Any) -> None:
            for part in parts:
                await coordinator.mount(point, part, name=getattr(part, "name", None))

        number = next(numbers)
        made = ModuleType(f"amplifier_module_scripted_{number}")
        made.mount = mount  # type: ignore[attr-defined]
        monkeypatch.setitem(sys.modules, made.__name__, made)
        return {"module": f"scripted-{number}"}

    def make(
        *answers: str | list[tuple[str, dict[str, Any]]] | Callable[..., Any],
        tools: Sequence[dict[str, Any]] = (),
        hooks: Sequence[dict[str, Any]] = (),
        mounted: Sequence[Any] = (),
        session: dict[str, Any] | None = None,
        loop: type[TurnLoop] = ScriptedLoop,
        **options: Any,
    ) -> AmplifierSession:
        ids = count(1)
        script: list[Any] = []
        for answer in answers:
            if isinstance(answer, list):
                script.append(call(*((f"call-{next(ids)}", name, arguments) for name, arguments in answer)))
            else:
                script.append(say(answer) if isinstance(answer, str) else answer)
        provider = ScriptedProvider(*script, AssertionError("the script has no more answers"))
        parts = {"orchestrator": module("orchestrator", loop()), "context": module("context", ListContext())}
        plan = {
            "session": {**parts, **(session or {})},
            "providers": [module("providers", provider)],
            "tools": [*([module("tools", *mounted)] if mounted else []), *tools],
            "hooks": list(hooks),
        }
        return AmplifierSession(plan, **options)

    return make


@pytest.fixture
def requests_of() -> Callable[[AmplifierSession], list[list[dict[str, Any]]]]:
    """Give `requests_of(session)`: the messages of every request that the model of a scripted session got."""

    def read(session: AmplifierSession) -> list[list[dict[str, Any]]]:
        requests = session.coordinator.get("providers")["scripted"].requests
        return [[message.model_dump(exclude_none=True) for message in request.messages] for request in requests]

    return read


@pytest.fixture
def imported_by_mounting() -> Callable[..., list[str]]:
    """Return a function that tells which of some modules are imported once a module's package has been mounted."""

    def find(package: str, config: dict[str, Any], *names: str) -> list[str]:
        code = (
            "import asyncio, sys\n"
            "from amplifier_core.testing import MockCoordinator\n"
            f"from {package} import mount\n"
            f"asyncio.run(mount(MockCoordinator(), {config!r}))\n"
            f"print(*(name for name in {names!r} if name in sys.modules))"
        )
        return subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True).stdout.split()

    return find


#: The smallest orchestrator and provider.
_LOOP = '''
"""Ask the context for a request and the provider for an answer, once."""

__amplifier_module_type__ = "orchestrator"


class Loop:
    async def execute(self, prompt, context, providers, tools, hooks, **kwargs):
        provider = next(iter(providers.values()))
        await context.add_message({"role": "user", "content": prompt})
        answer = await provider.complete(await context.get_messages_for_request(provider=provider))
        await context.add_message({"role": "assistant", "content": answer})
        return answer


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
'''

_PROVIDER = '''
"""Answer with the number of messages, and remember them."""

from amplifier_core import ProviderInfo

__amplifier_module_type__ = "provider"


class Counting:
    name = "counting"

    def __init__(self):
        self.requests = []

    def get_info(self):
        return ProviderInfo(id="counting", display_name="Counting")

    async def list_models(self):
        return []

    async def complete(self, request, **kwargs):
        self.requests.append(request)
        return f"{len(request)} messages"

    def parse_tool_calls(self, response):
        return []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Counting(), name="counting")
'''


@pytest.fixture
def counting_plan(make_module: Callable[[str, str], Path]) -> dict[str, Any]:
    """Return a plan with an orchestrator that asks once and a provider that counts messages; the context is missing."""
    make_module("loop-once", _LOOP)
    make_module("provider-counting", _PROVIDER)
    return {"session": {"orchestrator": {"module": "loop-once"}}, "providers": [{"module": "provider-counting"}]}


_NO_CONTEXT = """
class Context:
    async def add_message(self, message): pass
    async def get_messages_for_request(self, token_budget=None, provider=None): return []
    async def get_messages(self): return []
    async def set_messages(self, messages): pass
    async def clear(self): pass

async def mount(coordinator, config):
    await coordinator.mount("context", Context())
"""
_QUIET_PROVIDER = """
from amplifier_core import ProviderInfo

class Provider:
    name = "quiet"
    def get_info(self): return ProviderInfo(id="quiet", display_name="Quiet")
    async def list_models(self): return []
    async def complete(self, request, **kwargs): return None
    def parse_tool_calls(self, response): return []

async def mount(coordinator, config):
    await coordinator.mount("providers", Provider(), name="quiet")
"""


@pytest.fixture
def make_quiet_plan(make_module: Callable[[str, str], Path]) -> Callable[..., dict[str, Any]]:
    """Give `make_quiet_plan(session, **sections)`: a plan whose context keeps nothing and whose model says nothing."""
    make_module("context-none", _NO_CONTEXT)
    make_module("provider-quiet", _QUIET_PROVIDER)

    def make(session: dict[str, Any], **sections: Any) -> dict[str, Any]:
        whole = {"context": "context-none", **session}
        return {"session": whole, "providers": [{"module": "provider-quiet"}], **sections}

    return make


_README_PARTS = {
    "context_list": ("ListContext", "context"),
    "provider_scripted_here": ("ScriptedProvider", "providers"),
}
_README_PART = """
from amplifier_testing.loop.fakes import {part}

async def mount(coordinator, config=None):
    await coordinator.mount({point!r}, {part}(), name="here")
"""


@pytest.fixture
def readme_plan(request: pytest.FixtureRequest, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> dict[str, Any]:
    """Return the plan that the README of an orchestrator shows, completed with a context and a provider."""
    for name, (part, point) in _README_PARTS.items():
        package = tmp_path / f"amplifier_module_{name}"
        package.mkdir()
        (package / "__init__.py").write_text(_README_PART.format(part=part, point=point), encoding="utf-8")
    monkeypatch.syspath_prepend(str(tmp_path))
    readme = (request.path.parents[1] / "README.md").read_text(encoding="utf-8")
    [block] = re.findall(r"^```json\n(.*?)^```", readme, flags=re.MULTILINE | re.DOTALL)
    shown: dict[str, Any] = json.loads(block)
    shown["session"]["context"] = "context-list"
    return {**shown, "providers": [{"module": "provider-scripted-here"}]}
