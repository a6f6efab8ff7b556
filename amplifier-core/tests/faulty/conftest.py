"""Put one faulty module into a session of steady ones, beside a session that must never notice."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable
from textwrap import dedent, indent
from typing import Any

import pytest

from amplifier_core import AmplifierSession

LOOP = '''
import json


class Loop:
    """Run the tool that the prompt names (`name {json}`), else ask the steady provider; tell every step."""

    async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **_):
        await hooks.emit("prompt:submit", {"prompt": prompt})
        await context.add_message({"role": "user", "content": prompt})
        name, _, arguments = prompt.partition(" ")
        if name in tools:
            try:
                result = await tools[name].execute(json.loads(arguments or "{}"))
            except Exception as error:
                await hooks.emit("tool:error", {"tool_name": name, "error": error})
                answer = f"tool failed: {error}"
            else:
                await hooks.emit("tool:post", {"tool_name": name, "result": result})
                answer = getattr(result, "output", result)
        else:
            answer = await providers["steady"].complete(prompt)
        await hooks.emit("prompt:complete", {"response": answer})
        return answer


async def mount(coordinator, config=None):
    await coordinator.mount("orchestrator", Loop())
'''

PROVIDER = """
from amplifier_core import ProviderInfo


class Steady:
    name = "steady"

    def get_info(self):
        return ProviderInfo(id="steady", display_name="Steady")

    async def list_models(self):
        return []

    async def complete(self, request, **kwargs):
        return f"steady: {request}"

    def parse_tool_calls(self, response):
        return []


async def mount(coordinator, config=None):
    await coordinator.mount("providers", Steady(), name="steady")
"""

TOOL = """
from amplifier_core import ToolResult


class Steady:
    name = "steady"
    description = "Give back the input"
    input_schema = {"type": "object"}

    async def execute(self, input):
        return ToolResult(success=True, output=input)


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Steady(), name="steady")
"""

HOOK = """
import json


async def mount(coordinator, config=None):
    lines = []

    async def write(event, data):
        # strict JSON in strict UTF-8: what a log needs of every event
        lines.append(json.dumps({"event": event, "data": data}, allow_nan=False).encode("utf-8"))

    coordinator.hooks.register("*", write, priority=50, name="steady-log")
    coordinator.register_capability("steady.lines", lines)
    coordinator.register_contributor("observability.events", "hooks-steady", lambda: ["steady:event"])
"""

#: What a module of each kind does right, for a fault to be put before or after it.
INSTALL = {
    "tool": (
        "from amplifier_module_tool_steady import Steady",
        'await coordinator.mount("tools", Steady(), name="faulty")',
    ),
    "provider": (
        "from amplifier_module_provider_steady import Steady",
        'await coordinator.mount("providers", Steady(), name="faulty")',
    ),
    "hooks": ("", 'coordinator.hooks.register("prompt:submit", lambda event, data: None, name="faulty")'),
    "context": (
        "from amplifier_module_context_steady import Context",
        'await coordinator.mount("context", Context())',
    ),
    "loop": ("from amplifier_module_loop_steady import Loop", 'await coordinator.mount("orchestrator", Loop())'),
}

FAULTY = """
import asyncio
import sys

{imports}


async def mount(coordinator, config=None):
{before}
    {install}
{after}


{ready}
"""

STEADY = {
    "loop-steady": LOOP,
    "provider-steady": PROVIDER,
    "tool-steady": TOOL,
    "hooks-steady": HOOK,
}


def snapshot(session: AmplifierSession) -> dict[str, Any]:
    """Say what a session has, by identity where that matters."""
    coordinator = session.coordinator
    points = coordinator.mount_points
    return {
        "points": {p: dict(v) if isinstance(v, dict) else v for p, v in points.items()},
        "handlers": coordinator.hooks.list_handlers(),
        "capabilities": coordinator.to_dict()["capabilities"],
        "channels": {name: list(entries) for name, entries in coordinator.channels.items()},
        "cancelled": coordinator.cancellation.is_cancelled,
        "plan": json.dumps(session.config, default=repr),
    }


class World:
    """Hold the bystander and start sessions with faulty modules in them."""

    def __init__(self, make_module: Callable[[str, str], Any], bystander: AmplifierSession) -> None:
        self.make_module = make_module
        self.bystander = bystander
        self.before = snapshot(bystander)
        self.sessions: list[AmplifierSession] = []

    def faulty(self, kind: str, *, before: str = "", after: str = "", ready: str = "") -> str:
        """Write a module of `kind` that does its duty with statements before and after it, and return its id.

        `ready` is the body of an on_session_ready().
        """
        imports, install = INSTALL[kind]
        callback = f"async def on_session_ready(coordinator):\n{indent(dedent(ready), '    ')}" if ready else ""
        before, after = (indent(dedent(part).strip("\n"), "    ") for part in (before, after))
        source = FAULTY.format(imports=imports, before=before, install=install, after=after, ready=callback)
        self.make_module(f"{kind}-faulty", source)
        return f"{kind}-faulty"

    def session(self, *faulty: str, **options: Any) -> AmplifierSession:
        """Return a session with faulty modules before and between the steady ones; `options` go to its plan."""
        session = AmplifierSession(plan(faulty, **options), loader=self.bystander.loader)
        self.sessions.append(session)
        return session

    async def started(self, *faulty: str, refused: bool = False, **options: Any) -> AmplifierSession:
        """Return such a session, initialised; fail unless a module was refused when that is expected, and only then."""
        session = self.session(*faulty, **options)
        failures: list[str] = []
        session.coordinator.hooks.register("module:load_failed", lambda event, data: failures.append(data["error"]))
        await session.initialize()
        assert bool(failures) is refused, failures
        return session

    async def check(self, session: AmplifierSession | None = None) -> None:
        """Fail unless `session`, the bystander and a new session all work as if nothing had happened."""
        if session is not None:
            await works(session)
        await works(self.bystander)
        assert snapshot(self.bystander) == self.before
        fresh = await self.started()
        await works(fresh)


def plan(faulty: tuple[str, ...], **options: Any) -> dict[str, Any]:
    def listed(kind: str) -> list[dict[str, Any]]:
        return [{"module": module_id} for module_id in faulty if module_id.startswith(kind)]

    def required(kind: str, section: str) -> dict[str, Any]:
        return {"module": next((module_id for module_id in faulty if module_id.startswith(kind)), f"{kind}-steady")}

    return {
        "session": {
            "orchestrator": required("loop", "orchestrator"),
            "context": required("context", "context"),
            **options,
        },
        "providers": [*listed("provider"), {"module": "provider-steady"}],
        "tools": [*listed("tool"), {"module": "tool-steady"}],
        "hooks": [*listed("hooks"), {"module": "hooks-steady"}],
    }


async def works(session: AmplifierSession) -> None:
    """Fail unless a turn with the provider, one with the tool, the log, and the contributions all work."""
    lines = session.coordinator.get_capability("steady.lines")
    lines.clear()
    assert await session.execute("hello") == "steady: hello"
    assert await session.execute('steady {"a": 1}') == {"a": 1}
    written = [json.loads(line) for line in lines]
    submitted = [line["data"] for line in written if line["event"] == "prompt:submit"]
    assert [data["prompt"] for data in submitted] == ["hello", 'steady {"a": 1}']
    assert {data["session_id"] for data in submitted} == {session.session_id}
    contributions = await session.coordinator.collect_contributions("observability.events")
    assert ["steady:event"] in contributions


@pytest.fixture
async def world(make_module: Callable[[str, str], Any], context_source: str) -> AsyncIterator[World]:
    """Give a world with a bystander in it; all of its sessions are cleaned up afterwards."""
    for module_id, source in {**STEADY, "context-steady": context_source}.items():
        make_module(module_id, source)
    bystander = AmplifierSession(plan(()))
    await bystander.initialize()
    made = World(make_module, bystander)
    await works(bystander)
    made.before = snapshot(bystander)
    yield made
    for session in [*made.sessions, bystander]:
        await session.cleanup()
