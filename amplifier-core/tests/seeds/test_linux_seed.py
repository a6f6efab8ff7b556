"""Amplifier as a Linux kernel: drivers, events, the log, capabilities, scheduling and memory."""

from __future__ import annotations

import ast
import json
from pathlib import Path
from typing import Any

import pytest

import amplifier_core
from amplifier_core import AmplifierSession, events

LOGGING_TOOL = """
from amplifier_core import ToolResult
from amplifier_core.coordinator import get_context


class Writer:
    name = "write"
    description = "Say something in the log"
    input_schema = {"type": "object", "properties": {}}

    async def execute(self, input):
        context = get_context()
        facts = {"component": "tool", "module": "tool-writer", "status": "ok", "duration_ms": 3}
        context.log("INFO", "about to write", **facts, **input)
        return ToolResult(success=True, output="written")


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Writer(), name="write")
"""

GUARDED_TOOL = """
from amplifier_core import ToolResult


class Guarded:
    name = "save"
    description = "Write a file, if that is allowed"
    input_schema = {"type": "object", "properties": {}}

    def __init__(self, coordinator):
        self.coordinator = coordinator

    async def execute(self, input):
        verdict = await self.coordinator.authorize("filesystem.write", {"path": input["path"]})
        return ToolResult(success=verdict.granted, output="saved" if verdict else verdict.reason)


async def mount(coordinator, config=None):
    await coordinator.mount("tools", Guarded(coordinator), name="save")
"""

POLICY_HOOK = """
async def mount(coordinator, config=None):
    async def decide(action, details):
        return config["verdict"], "by the rules"

    coordinator.register_policy("rules", decide)
"""

#: The events as the metaphor writes them.
CANONICAL = (
    "session:start/end, prompt:submit/complete, plan:start/end, provider:request/response/error, tool:pre/post/error, "
    "context:pre_compact/post_compact, artifact:write/read, policy:violation, approval:required/granted/denied"
)


def canonical_events() -> list[str]:
    names = []
    for group in CANONICAL.split(", "):
        namespace, _, actions = group.partition(":")
        names += [f"{namespace}:{action}" for action in actions.split("/")]
    return names


# -- design notes --


@pytest.mark.parametrize(
    ("plan", "message"),
    [
        ({}, "Configuration is required"),
        ({"session": {"context": "c"}}, "Configuration must specify session.orchestrator"),
        ({"session": {"orchestrator": "o"}}, "Configuration must specify session.context"),
    ],
)
def test_no_defaults_in_the_kernel(plan: dict[str, Any], message: str) -> None:
    """Plans come from the app: what is missing is an error in plain text, never a guess."""
    with pytest.raises(ValueError, match=f"^{message}$"):
        AmplifierSession(plan)


async def test_no_silent_fallback(bench: Any) -> None:
    """A module that cannot be had is named in the error; no other takes its place."""
    plan = bench.plan(session={"orchestrator": {"module": "loop-nowhere"}})
    with pytest.raises(RuntimeError, match=r"Cannot initialize without orchestrator: .*'loop-nowhere' not found"):
        await bench.session(plan).initialize()


def test_kernel_writes_no_file_and_prints_nothing() -> None:
    """No line of the kernel prints, opens a file for writing, makes a folder or names a place in a home directory."""
    forbidden = {"print", "input", "open", "write_text", "write_bytes", "mkdir", "unlink", "home", "expanduser"}
    found = []
    for path in Path(amplifier_core.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text(encoding="utf-8"))):
            if isinstance(node, ast.Call):
                name = getattr(node.func, "id", None) or getattr(node.func, "attr", None)
                if name in forbidden:
                    found.append(f"{path.name}:{node.lineno} {name}()")
            elif isinstance(node, ast.Constant) and isinstance(node.value, str) and "~/" in node.value:
                found.append(f"{path.name}:{node.lineno} {node.value!r}")
    assert found == []


# -- drivers --


async def test_driver_needs_the_protocol_only(bench: Any) -> None:
    """A driver that imports nothing of the kernel is a full citizen."""
    bench.install_greeter()
    async with bench.session(bench.plan(tools=["tool-greeter"])) as session:
        assert await session.execute('greet {"who": "you"}') == "hello you"


async def test_driver_cannot_crash_the_kernel(bench: Any, record: Any) -> None:
    """A driver that fails at work is an event, and the next turn runs."""
    bench.install_greeter()
    session = bench.session(bench.plan(tools=["tool-greeter"]))
    heard = record(session)
    async with session:
        assert await session.execute("greet {}") == "tool failed: 'who'"
        assert heard.data("tool:error")[0]["error"] == "'who'"
        assert await session.execute('greet {"who": "you"}') == "hello you"


@pytest.mark.parametrize("name", canonical_events())
def test_canonical_event_has_a_constant(name: str) -> None:
    """Every event the metaphor names is canonical, under a constant of its own name."""
    constant = name.replace(":", "_").upper()
    assert getattr(events, constant) == name
    assert name in events.ALL_EVENTS


@pytest.mark.parametrize("point", ["orchestrator", "providers", "tools", "context", "hooks"])
def test_mount_points_are_stable(point: str) -> None:
    """Every kind of driver has its mount point."""
    assert point in amplifier_core.ModuleCoordinator().mount_points


# -- the log --


async def test_context_log_reaches_the_apps_sink(bench: Any, tmp_path: Path) -> None:
    """A driver logs through context.log alone; one line of schema v1 arrives, its keys in order, redacted before."""
    bench.install("tool-writer", LOGGING_TOOL)
    log = tmp_path / "events.jsonl"

    def redact(line: dict[str, Any]) -> dict[str, Any]:
        line["data"]["token"] = "[REDACTED]"
        return line

    def sink(line: dict[str, Any]) -> None:
        with log.open("a", encoding="utf-8") as file:
            file.write(json.dumps(line) + "\n")

    async with bench.session(bench.plan(tools=["tool-writer"]), session_id="s", parent_id="p") as session:
        session.coordinator.add_log_processor(redact)
        session.coordinator.add_log_sink(sink)
        await session.execute('write {"token": "hunter2", "error": {"message": "disk full"}}')
    text = log.read_text(encoding="utf-8")
    (line,) = [json.loads(entry) for entry in text.splitlines()]
    assert "hunter2" not in text
    ids = ["session_id", "parent_id", "trace_id", "turn_id", "span_id"]
    facts = ["component", "module", "status", "duration_ms"]
    assert list(line) == ["ts", "lvl", "schema", "event", *ids, *facts, "data", "error"]
    assert line["schema"] == {"name": "amplifier.log", "ver": "1.0.0"}
    assert (line["lvl"], line["event"]) == ("ERROR", "log:entry")
    assert (line["session_id"], line["parent_id"], line["component"]) == ("s", "p", "tool")
    assert line["data"] == {"message": "about to write", "token": "[REDACTED]"}
    assert line["error"] == {"message": "disk full"}


async def test_nothing_is_logged_unredacted(bench: Any) -> None:
    """When redaction fails the line is lost rather than leaked, and without a sink nothing happens at all."""
    lines: list[Any] = []

    def broken(line: dict[str, Any]) -> dict[str, Any]:
        raise RuntimeError("redaction broke")

    async with bench.session() as session:
        session.coordinator.log("INFO", "to nobody")
        session.coordinator.add_log_processor(broken)
        session.coordinator.add_log_sink(lines.append)
        session.coordinator.log("INFO", "a secret")
    assert lines == []


# -- capabilities, scheduling, memory --


@pytest.mark.parametrize(
    ("verdict", "answer", "told"),
    [
        (None, "no policy allows it", ["approval:denied"]),
        ("allow", "saved", ["approval:granted"]),
        ("deny", "by the rules", ["policy:violation", "approval:denied"]),
    ],
)
async def test_deny_by_default(bench: Any, record: Any, verdict: str | None, answer: str, told: list[str]) -> None:
    """A tool asks for a capability, policy modules decide, the kernel denies what none allows and says so as events."""
    bench.install("tool-guarded", GUARDED_TOOL)
    bench.install("hooks-policy", POLICY_HOOK)
    hooks = [{"module": "hooks-policy", "config": {"verdict": verdict}}] if verdict else []
    session = bench.session(bench.plan(tools=["tool-guarded"], hooks=hooks))
    heard = record(session)
    async with session:
        assert await session.execute('save {"path": "/etc/passwd"}') == answer
    decided = [name for name in heard.names if name.startswith(("policy:", "approval:"))]
    assert decided == told
    outcome = heard.data(told[-1])[0]
    assert (outcome["action"], outcome["details"]) == ("filesystem.write", {"path": "/etc/passwd"})
    assert {"reason", "source"} <= set(outcome)


async def test_scheduling_is_replaced_by_replacing_the_orchestrator(bench: Any) -> None:
    """Another strategy is another orchestrator in the plan, and nothing else changes."""
    bench.install(
        "loop-parallel-seed",
        """
        import asyncio

        class Parallel:
            async def execute(self, prompt, context, providers, tools, hooks, **_):
                calls = [p.complete([{"content": prompt}]) for p in providers.values() for _ in range(2)]
                return " | ".join(await asyncio.gather(*calls))

        async def mount(coordinator, config=None):
            await coordinator.mount("orchestrator", Parallel())
        """,
    )
    plan = bench.plan(session={"orchestrator": {"module": "loop-parallel-seed"}})
    async with bench.session() as basic, bench.session(plan) as parallel:
        assert await basic.execute("x") == "echo: x"
        assert await parallel.execute("x") == "echo: x | echo: x"


async def test_compaction_is_observed_without_interference(bench: Any, record: Any) -> None:
    """Hooks hear context:pre_compact and post_compact; what they do to the data changes nothing."""
    bench.install(
        "context-compacting",
        """
        from amplifier_module_context_seed import Context

        class Compacting(Context):
            def __init__(self, coordinator):
                super().__init__()
                self.coordinator = coordinator

            async def get_messages_for_request(self, token_budget=None, provider=None):
                kept = {"messages": self.messages[-1:]}
                await self.coordinator.hooks.emit("context:pre_compact", {"messages": self.messages})
                await self.coordinator.hooks.emit("context:post_compact", kept)
                return kept["messages"]

        async def mount(coordinator, config=None):
            await coordinator.mount("context", Compacting(coordinator))
        """,
    )

    def meddle(event: str, data: dict[str, Any]) -> None:
        data["messages"].clear()
        raise RuntimeError("and a bug")

    async with bench.session(bench.plan(session={"context": {"module": "context-compacting"}})) as session:
        heard = record(session)
        for event in ("context:pre_compact", "context:post_compact"):
            session.coordinator.hooks.register(event, meddle, priority=-2000)
        context = session.coordinator.get("context")
        await context.set_messages([{"content": "a"}, {"content": "b"}])
        assert await context.get_messages_for_request() == [{"content": "b"}]
        assert await context.get_messages() == [{"content": "a"}, {"content": "b"}]
        assert [len(data["messages"]) for _, data in heard.events] == [2, 1]
