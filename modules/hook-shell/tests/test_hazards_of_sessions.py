"""Hazards of a session's life: hooks on its start and its end, and hooks that should be gone."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for

Group = Callable[..., list[dict[str, Any]]]


def _lines(path: Path) -> list[str]:
    return path.read_text(encoding="utf-8").splitlines() if path.exists() else []


async def test_blocking_stop_hook_is_bounded(make_rig: Any, group: Group, project: Path) -> None:
    """A hook that blocks the end of every turn runs once in each, and the model hears of it with the next prompt."""
    command = 'cat >>"$AMPLIFIER_PROJECT_DIR/stops"; echo "the tests are missing" >&2; exit 2'
    rig = await make_rig({"Stop": group(command)}, ["one", "two"])
    assert await rig.run("first") == "one"
    facts = [json.loads(line) for line in _lines(project / "stops")]
    assert [fact["stop_hook_active"] for fact in facts] == [False]
    assert len(rig.provider.requests) == 1
    assert "the tests are missing" in rig.display.shown[0][1]
    assert await rig.run("second") == "two"
    assert len(_lines(project / "stops")) == 2
    texts = await rig.texts("user")
    assert [text for text in texts if "the tests are missing" in text] == [texts[1]]
    assert (texts[0], texts[2]) == ("first", "second")


@pytest.mark.parametrize("is_resumed", [False, True])
async def test_session_start_once_per_session(make_rig: Any, group: Group, project: Path, is_resumed: bool) -> None:
    """Start hooks run once, also when the session goes on with an old one and when a loop says start in every turn."""
    command = 'cat >>"$AMPLIFIER_PROJECT_DIR/starts"; echo "remember the style"'
    rig = await make_rig({"SessionStart": group(command)}, ["one", "two"], is_resumed=is_resumed)
    await rig.run("first")
    await rig.session.coordinator.hooks.emit("session:start", {"prompt": "second"})
    await rig.session.coordinator.hooks.emit("session:start", {})
    await rig.run("second")
    [facts] = [json.loads(line) for line in _lines(project / "starts")]
    assert facts["source"] == ("resume" if is_resumed else "startup")
    texts = await rig.texts("user")
    assert [("remember the style" in text) for text in texts] == [True, False, False]


@pytest.mark.parametrize("matcher", ["startup", "resume"])
async def test_start_hooks_choose_by_source(make_rig: Any, group: Group, project: Path, matcher: str) -> None:
    """A matcher on the start names where the session comes from."""
    rig = await make_rig({"SessionStart": group('touch "$AMPLIFIER_PROJECT_DIR/started"', matcher=matcher)}, ["one"])
    await rig.run()
    assert (project / "started").exists() == (matcher == "startup")


async def _ends_by_itself(rig: Any) -> None:
    await rig.session.cleanup()


async def _ends_after_a_turn(rig: Any) -> None:
    await rig.run()
    await rig.session.cleanup()


async def _ends_by_an_error(rig: Any) -> None:
    with pytest.raises(ZeroDivisionError):
        async with rig.session:
            raise ZeroDivisionError


async def _ends_after_a_stop(rig: Any) -> None:
    await rig.run()
    await rig.session.coordinator.request_cancel(immediate=True)
    await rig.session.cleanup()


async def _ends_by_cancellation(rig: Any) -> None:
    began = asyncio.Event()

    async def work() -> None:
        async with rig.session:
            began.set()
            await asyncio.Event().wait()

    task = asyncio.create_task(work())
    await began.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "end", [_ends_by_itself, _ends_after_a_turn, _ends_by_an_error, _ends_after_a_stop, _ends_by_cancellation]
)
async def test_session_end_fires_on_every_exit_path(make_rig: Any, group: Group, project: Path, end: Any) -> None:
    """However a session ends, its end hooks run once and to their end, not only until the session is gone."""
    command = 'cat >>"$AMPLIFIER_PROJECT_DIR/ends"; sleep 0.3; echo done >>"$AMPLIFIER_PROJECT_DIR/ends"'
    rig = await make_rig({"SessionEnd": group(command)})
    await end(rig)
    await rig.session.cleanup()
    facts, done = _lines(project / "ends")
    assert json.loads(facts)["hook_event_name"] == "SessionEnd"
    assert done == "done"


async def test_the_end_of_a_turn_is_not_the_end_of_a_session(make_rig: Any, group: Group, project: Path) -> None:
    """A loop that says session:end after each turn does not make the end hooks run."""
    rig = await make_rig({"SessionEnd": group('touch "$AMPLIFIER_PROJECT_DIR/ended"')})
    await rig.session.coordinator.hooks.emit("session:end", {"response": "one"})
    assert not (project / "ended").exists()


async def test_a_child_starts_and_stops_as_a_child(make_rig: Any, group: Group, project: Path) -> None:
    """In a session that another one started, hooks for the start, stop and end of the whole are not run."""
    names = ("SessionStart", "SubagentStart", "Stop", "SubagentStop", "SessionEnd")
    command = 'echo "$AMPLIFIER_HOOK_EVENT" >>"$AMPLIFIER_PROJECT_DIR/events"'
    rig = await make_rig({name: group(command) for name in names}, ["one"], parent_id="the-parent")
    await rig.run()
    await rig.session.cleanup()
    assert _lines(project / "events") == ["SubagentStart", "SubagentStop"]


async def test_unmount_removes_handlers(make_rig: Any, group: Group, project: Path) -> None:
    """A module that is taken out runs no hook any more, judges no call, and leaves no file behind."""
    import tempfile

    from amplifier_module_hook_shell import mount

    rig = await make_rig(plan={"hooks": []})
    coordinator = rig.session.coordinator
    before = coordinator.hooks.list_handlers()
    config = {"hooks": {"PreToolUse": group('echo "$AMPLIFIER_ENV_FILE" >>"$AMPLIFIER_PROJECT_DIR/ran"; exit 2')}}
    take_away = await mount(coordinator, config)
    await coordinator.hooks.emit("tool:pre", {"tool_name": "bash", "tool_input": {}})
    [env_file] = _lines(project / "ran")
    assert Path(env_file).parent == Path(tempfile.gettempdir())
    take_away()
    assert not Path(env_file).exists()
    await rig.run()
    assert len(_lines(project / "ran")) == 1
    assert len(rig.tools["bash"].inputs) == 1
    assert {event: names for event, names in coordinator.hooks.list_handlers().items() if names} == {
        event: names for event, names in before.items() if names
    }


@pytest.mark.parametrize("hook_event", ["PreToolUse", "UserPromptSubmit"])
async def test_a_stop_at_once_ends_a_hook(make_rig: Any, group: Group, project: Path, hook_event: str) -> None:
    """A session that is to stop at once waits for no hook, and what the hook was to judge does not happen."""
    rig = await make_rig({hook_event: group('touch "$AMPLIFIER_PROJECT_DIR/began"; sleep 600', timeout=500)})
    turn = asyncio.create_task(rig.run())
    await wait_for((project / "began").exists, timeout=60)
    await rig.session.coordinator.request_cancel(immediate=True)
    async with asyncio.timeout(60):
        await turn
    assert rig.tools["bash"].inputs == []
    if hook_event == "UserPromptSubmit":  # a call is dropped by the loop itself
        assert rig.provider.requests == []
        assert rig.reports() == [("hook-shell:failed", "cancelled", "deny")]


async def test_a_hook_may_end_the_turn(make_rig: Any, group: Group) -> None:
    """`continue: false` refuses the call and ends the turn after it."""
    answer = json.dumps({"continue": False, "stopReason": "enough"})
    rig = await make_rig({"PreToolUse": group(f"echo '{answer}'")})
    await rig.run()
    assert rig.tools["bash"].inputs == []
    assert len(rig.provider.requests) == 1
    assert "enough" in (await rig.texts("tool"))[0]
