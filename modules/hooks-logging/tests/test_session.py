"""Whole sessions, by the real loader, and what is on disk afterwards."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import AmplifierSession
from amplifier_core.session import fork_session, get_session
from amplifier_kit.log.reader import read_log
from amplifier_kit.log.record import schema
from amplifier_kit.log.verify import verify_log
from amplifier_kit.log.writer import SessionLog

Plan = Callable[..., dict[str, Any]]
MakeModule = Callable[[str, str], None]

DELEGATE = [
    f"delegate:{name}" for name in ("agent_spawned", "agent_resumed", "agent_completed", "agent_cancelled", "error")
]


def log_of(home: Path, session_id: str) -> Path:
    [path] = home.rglob(f"{session_id}/events.jsonl")
    return path


async def test_the_seeds_check(home: Path, plan: Plan) -> None:
    """After a run, grep finds session:start, prompt:submit and session:end in events.jsonl."""
    async with AmplifierSession(plan(), session_id="e2e") as session:
        await session.execute("hello")
    path = log_of(home, "e2e")
    for event in ("session:start", "prompt:submit", "session:end"):
        grep = await asyncio.create_subprocess_exec("grep", "-q", f'"event": "{event}"', str(path))
        assert await grep.wait() == 0
    assert [line.event for line in read_log(path)] == [
        "session:start",
        "prompt:submit",
        "prompt:complete",
        "session:end",
    ]
    assert verify_log(path).ok


async def test_an_app_with_a_sink(tmp_path: Path, home: Path, plan: Plan) -> None:
    """The app's own log gets every event, once, and there is no other."""
    session = AmplifierSession(plan(), session_id="app")
    with SessionLog(tmp_path / "app") as log:
        session.coordinator.add_log_sink(log.write)
        async with session:
            await session.execute("hello")
    events = [line.event for line in read_log(tmp_path / "app")]
    assert events == ["session:start", "prompt:submit", "prompt:complete", "session:end"]
    assert not home.exists()


async def test_every_line_is_valid(home: Path, plan: Plan) -> None:
    """Whatever the events carry, the lines are of the published schema."""
    jsonschema = pytest.importorskip("jsonschema")
    session = AmplifierSession(plan(), session_id="valid")
    async with session:
        session.coordinator.session_state["events"] = [
            ("tool:error", {"error": {"type": "E", "msg": "m"}, "status": "error", "duration_ms": 1.5}),
            ("llm:request", {"messages": [{"role": "user", "content": "word " * 50} for _ in range(50)]}),
            ("tool:post", {"result": {"output": "x" * 9000, "success": True}}),
            ("odd", {"status": 7, "session_id": 9, "error": ["list"], "lvl": "LOUD", "timestamp": "never", "seq": 1}),
        ]
        await session.execute("hello")
    validator = jsonschema.Draft202012Validator(schema())
    lines = list(read_log(log_of(home, "valid")))
    assert len(lines) == 8
    for line in lines:
        validator.validate(line.record)


async def test_delegate_events_contributed_by_a_late_module(home: Path, plan: Plan, make_module: MakeModule) -> None:
    """A module that is mounted when the session runs, and contributes its names then, has them all in the log."""
    make_module(
        "tool-late",
        f"""
        class Tool:
            name = "late"
            description = "Delegate"
            input_schema = {{"type": "object"}}
            async def execute(self, input):
                return None

        async def mount(coordinator, config):
            coordinator.register_contributor("observability.events", "tool-late", lambda: {DELEGATE!r})
            await coordinator.mount("tools", Tool(), name="late")
        """,
    )
    session = AmplifierSession(plan(), session_id="late")
    async with session:
        from amplifier_core.coordinator import mount

        await mount("tools", "tool-late", {}, session_id="late")
        session.coordinator.session_state["events"] = [(event, {"agent": "a"}) for event in DELEGATE]
        await session.execute("hello")
    text = log_of(home, "late").read_text(encoding="utf-8")
    for event in DELEGATE:
        assert f'"event": "{event}"' in text


async def test_failures_of_other_modules_are_in_the_log(home: Path, plan: Plan, make_module: MakeModule) -> None:
    """An on_session_ready that raises after ours is an event, and so in the log."""
    make_module(
        "hooks-broken",
        """
        async def mount(coordinator, config):
            pass

        async def on_session_ready(coordinator):
            raise RuntimeError("broken on purpose")
        """,
    )
    hooks = [{"module": "hooks-logging"}, {"module": "hooks-broken"}]
    async with AmplifierSession(plan(hooks=hooks), session_id="broken"):
        pass
    first = next(iter(read_log(log_of(home, "broken"))))
    assert first.event == "module:on_session_ready_failed"
    assert first.error == {"message": "broken on purpose"}


async def test_many_sessions_at_once(home: Path, plan: Plan) -> None:
    """A hundred sessions that start together each have their own log, with their own config."""

    async def run(number: int) -> None:
        config = {"exclude_events": ["noise"] if number % 2 else []}
        session = AmplifierSession(plan(config), session_id=f"session-{number}")
        async with session:
            session.coordinator.session_state["events"] = [("mine", {"number": number})] * 3 + [("noise", {})]
            await session.execute("hello")

    await asyncio.gather(*(run(number) for number in range(100)))
    for number in range(100):
        lines = list(read_log(log_of(home, f"session-{number}")))
        assert ("noise" in [line.event for line in lines]) is (number % 2 == 0)
        assert [line.data["number"] for line in lines if line.event == "mine"] == [number] * 3
        assert {line.session_id for line in lines} == {f"session-{number}"}
        assert [line.seq for line in lines] == list(range(1, len(lines) + 1))


async def test_a_child_has_a_log_of_its_own_and_its_roots_blobs(home: Path, plan: Plan) -> None:
    """Parent and child each have their lines; a large value of both is stored once, with the root."""
    root = AmplifierSession(plan(), session_id="root")
    async with root:
        root.coordinator.session_state["events"] = [("tool:post", {"result": "x" * 9000})]
        await root.execute("hello")
        child_id = await fork_session("root")
        child = get_session(child_id)
        child.coordinator.session_state["events"] = [("tool:post", {"result": "x" * 9000})]
        await child.execute("hello")
        await child.cleanup()
    sessions = log_of(home, "root").parent.parent
    assert (sessions / child_id / "blobs").resolve() == sessions / "root" / "blobs"
    assert len([path for path in (sessions / "root" / "blobs").rglob("*") if path.is_file()]) == 1
    lines = list(read_log(sessions / child_id))
    assert lines[0].event == "session:fork"
    assert lines[0].get("parent_id") == "root"
    assert all(line.session_id == child_id for line in lines)
    assert verify_log(sessions / child_id).ok


async def test_a_resumed_session_goes_on(home: Path, plan: Plan) -> None:
    """The second run of a session continues its numbers in the same file."""
    for resumed in (False, True):
        async with AmplifierSession(plan(), session_id="again", is_resumed=resumed) as session:
            await session.execute("hello")
    lines = list(read_log(log_of(home, "again")))
    assert [line.seq for line in lines] == list(range(1, 9))
    assert [lines[0].event, lines[4].event] == ["session:start", "session:resume"]


async def test_a_second_process_on_one_session(home: Path, plan: Plan, caplog: pytest.LogCaptureFixture) -> None:
    """Without an app to refuse it, the second session runs unlogged, and says whose log it is."""
    async with AmplifierSession(plan(), session_id="same") as first:
        failed: list[dict[str, Any]] = []
        second = AmplifierSession(plan(), session_id="same")
        second.coordinator.hooks.register("module:on_session_ready_failed", lambda e, d: failed.append(d))
        async with second:
            assert await second.execute("hello") == "done"
        await first.execute("hello")
    assert failed[0]["module_id"] == "hooks-logging"
    assert "is being written by this process" in failed[0]["error"]
    assert [line.seq for line in read_log(log_of(home, "same"))] == [1, 2, 3, 4]


async def test_a_failed_start_leaves_the_log_free(home: Path, plan: Plan, make_module: MakeModule) -> None:
    """When initialize fails after the module was ready, the log is closed, and a second try works."""
    make_module(
        "hooks-fatal",
        """
        import asyncio

        tries = []

        async def mount(coordinator, config):
            pass

        async def on_session_ready(coordinator):
            tries.append(1)
            if len(tries) == 1:
                raise KeyboardInterrupt
        """,
    )
    session = AmplifierSession(plan(hooks=[{"module": "hooks-logging"}, {"module": "hooks-fatal"}]), session_id="twice")
    with pytest.raises(KeyboardInterrupt):
        await session.initialize()
    async with session:
        await session.execute("hello")
    assert [line.event for line in read_log(log_of(home, "twice"))] == [
        "session:start",
        "prompt:submit",
        "prompt:complete",
        "session:end",
    ]
