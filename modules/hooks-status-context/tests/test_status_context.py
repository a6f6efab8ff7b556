"""What the model is told about its surroundings, and how it reaches the request."""

from __future__ import annotations

import os
import platform
import re
from collections.abc import Callable
from datetime import UTC, datetime, timedelta, timezone
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator
from amplifier_module_hooks_status_context import mount
from amplifier_module_hooks_status_context.config import StatusConfig
from amplifier_module_hooks_status_context.status_context import StatusContext

#: Real git on a busy machine may take its time; only the tests about the deadline want a short one.
PATIENT = {"git_timeout": 60}
HOOKS = [{"module": "hooks-status-context", "config": PATIENT}]
OPENING, CLOSING = '<system-reminder source="hooks-status-context">\n', "\n</system-reminder>"


async def told(config: dict[str, Any] | None = None, working_dir: Path | str | None = None) -> list[str]:
    """Return the lines that a request of a session with this config would get."""
    coordinator = MockCoordinator()
    if working_dir is not None:
        coordinator.register_capability("session.working_dir", str(working_dir))
    await mount(coordinator, {**PATIENT, **(config or {})})
    result = await coordinator.hooks.emit("provider:request", {"provider": "p", "iteration": 1})
    assert result.context_injection is not None
    lines: list[str] = result.context_injection.splitlines()
    return lines


def value(lines: list[str], name: str) -> str | None:
    """Return what stands behind `name:`, None when no line starts so."""
    found = [line.removeprefix(f"{name}: ") for line in lines if line.startswith(f"{name}: ")]
    return found[0] if found else None


async def test_the_last_message_of_every_request_is_the_description(
    make_session: Callable[..., Any], requests_of: Callable[[Any], Any], repository: Any
) -> None:
    """It comes as a user message, in every request anew, in a wrapper that names its source, and is never stored."""
    async with make_session([None, "done"], HOOKS, repository.path) as session:
        await session.execute("go")
        asked = requests_of(session)
        stored = await session.coordinator.get("context").get_messages()
    assert [[message["role"] for message in messages] for messages in asked] == [
        ["user", "user"],
        ["user", "assistant", "tool", "user"],
    ]
    for messages in asked:
        assert messages[-1]["content"].startswith(OPENING)
        assert messages[-1]["content"].endswith(CLOSING)
    assert "Git status: clean" in asked[0][-1]["content"]
    assert "?? touched" in asked[1][-1]["content"]
    assert "system-reminder" not in str(stored)


async def test_the_verdict_is_an_ephemeral_injection_of_the_user_role() -> None:
    """The loops are asked for exactly that, and not to glue it to a tool result."""
    coordinator = MockCoordinator()
    await mount(coordinator, {"include_git": False})
    result = await coordinator.hooks.emit("provider:request", {})
    assert (result.action, result.context_injection_role) == ("inject_context", "user")
    assert (result.ephemeral, result.append_to_last_tool_result) == (True, False)


async def test_session_and_parent_are_named(
    make_session: Callable[..., Any], requests_of: Callable[[Any], Any], tmp_path: Path
) -> None:
    """A child session tells its own id and that of its parent."""
    async with make_session(["done"], HOOKS, tmp_path, session_id="s-2_helper", parent_id="s-1") as session:
        await session.execute("go")
        lines = requests_of(session)[0][-1]["content"].splitlines()
    assert (value(lines, "Session"), value(lines, "Parent session")) == ("s-2_helper", "s-1")


async def test_a_root_session_has_no_parent(tmp_path: Path) -> None:
    """Only what there is has a line, and `include_session: false` leaves out both."""
    lines = await told({}, tmp_path)
    assert (value(lines, "Session"), value(lines, "Parent session")) == ("test-session", None)
    assert value(await told({"include_session": False}, tmp_path), "Session") is None


async def test_platform() -> None:
    """The platform is that of the machine."""
    line = value(await told({"include_git": False}), "Platform")
    assert line == f"{platform.system()} {platform.release()} ({platform.machine()})"


async def test_everything_but_the_folder_can_be_switched_off(tmp_path: Path) -> None:
    """With session, date and git off, folder and platform are left."""
    lines = await told({"include_session": False, "include_datetime": False, "include_git": False}, tmp_path)
    names = [line.partition(":")[0] for line in lines[3:-1]]
    assert names == ["Working directory", "Platform"]


# The folder


async def test_the_configured_folder_comes_first_then_the_sessions_then_the_current_one(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """`working_dir`, capability `session.working_dir`, current folder: the first that is there."""
    monkeypatch.chdir(tmp_path)
    elsewhere = str(tmp_path / "elsewhere")
    off = {"include_git": False}
    assert value(await told(off), "Working directory") == os.getcwd()
    assert value(await told(off, elsewhere), "Working directory") == elsewhere
    assert value(await told({**off, "working_dir": "/other"}, elsewhere), "Working directory") == "/other"


async def test_a_relative_folder_is_meant_from_the_sessions(tmp_path: Path) -> None:
    """A relative `working_dir` starts at the session's folder."""
    lines = await told({"include_git": False, "working_dir": "a/../b"}, tmp_path)
    assert value(lines, "Working directory") == str(tmp_path / "b")


async def test_a_deleted_current_folder_is_said(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where the current folder is gone the request goes on, and git is not asked."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    lines = await told()
    assert value(lines, "Working directory") == "not known (the current folder was deleted)"
    assert not [line for line in lines if line.startswith("Git")]


async def test_a_deleted_current_folder_does_not_hide_the_sessions(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, repository: Any
) -> None:
    """A session that knows its folder is described as ever, git included."""
    folder = tmp_path / "gone"
    folder.mkdir()
    monkeypatch.chdir(folder)
    folder.rmdir()
    lines = await told({}, repository.path)
    assert value(lines, "Working directory") == str(repository.path)
    assert value(lines, "Git branch") == "main"


# The date


class Clock:
    """Be a minute later every time somebody looks."""

    def __init__(self, zone: timezone = UTC) -> None:
        self._time = datetime(2025, 2, 28, 23, 58, 30, tzinfo=zone)

    def __call__(self) -> datetime:
        self._time += timedelta(minutes=1)
        return self._time


async def test_the_date_stays_the_same_through_a_turn(
    make_session: Callable[..., Any], requests_of: Callable[[Any], Any], tmp_path: Path
) -> None:
    """All requests of a turn have the same date, to the letter; the next turn looks at the clock again."""
    async with make_session([None, None, "done", "again"], [], tmp_path) as session:
        surroundings = StatusContext(session.coordinator, StatusConfig(include_git=False), Clock())
        session.coordinator.hooks.register("provider:request", surroundings.on_provider_request)
        await session.execute("first")
        await session.execute("second")
        dates = [value(asked[-1]["content"].splitlines(), "Date") for asked in requests_of(session)]
    assert dates == ["Friday 2025-02-28 23:59"] * 3 + ["Saturday 2025-03-01 00:00"]


async def test_a_description_that_did_not_change_is_the_same_text(
    make_session: Callable[..., Any], requests_of: Callable[[Any], Any], repository: Any
) -> None:
    """Within a turn two requests differ only by what really changed."""
    repository.write("touched")
    async with make_session([None, None, "done"], HOOKS, repository.path) as session:
        await session.execute("go")
        texts = {asked[-1]["content"] for asked in requests_of(session)}
    assert len(texts) == 1


async def test_outside_a_turn_the_clock_is_read_each_time() -> None:
    """A request that belongs to no turn has nothing to keep the date for."""
    coordinator = MockCoordinator()
    surroundings = StatusContext(coordinator, StatusConfig(include_git=False), Clock())
    coordinator.hooks.register("provider:request", surroundings.on_provider_request)
    texts = [(await coordinator.hooks.emit("provider:request", {})).context_injection for _ in range(2)]
    assert texts[0] != texts[1]


@pytest.mark.parametrize(
    ("hours", "shown"), [(0, "UTC+00:00"), (5.5, "UTC+05:30"), (-8, "UTC-08:00")], ids=["utc", "india", "pacific"]
)
async def test_the_time_zone_is_told_when_asked_for(hours: float, shown: str) -> None:
    """`datetime_include_timezone` adds the distance to UTC."""
    settings = StatusConfig(datetime_include_timezone=True, include_git=False)
    surroundings = StatusContext(MockCoordinator(), settings, Clock(timezone(timedelta(hours=hours))))
    result = await surroundings.on_provider_request("provider:request", {})
    assert result is not None
    assert f"Date: Friday 2025-02-28 23:59 {shown}\n" in str(result.context_injection)


async def test_the_real_clock_is_the_local_one() -> None:
    """Without a clock of a test the date is today's, by default with a time and without a zone, or none at all."""
    before = datetime.now().replace(second=0, microsecond=0)
    date = value(await told({"include_git": False}), "Date")
    after = datetime.now()
    assert date is not None
    assert re.fullmatch(r"[A-Z][a-z]+day \d{4}-\d\d-\d\d \d\d:\d\d", date)
    assert before <= datetime.fromisoformat(date.partition(" ")[2]) <= after
    assert value(await told({"include_git": False, "include_datetime": False}), "Date") is None


# Limits and order


async def test_the_description_stays_within_the_sessions_limit(repository: Any) -> None:
    """An injection over `session.injection_size_limit` would be refused, so the text is cut, its wrapper kept."""
    for number in range(15):
        repository.write(f"a-file-with-a-rather-long-name-{number:02}")
    coordinator = MockCoordinator()
    coordinator.config["session"]["injection_size_limit"] = 500
    coordinator.register_capability("session.working_dir", str(repository.path))
    await mount(coordinator, PATIENT)
    result = await coordinator.hooks.emit("provider:request", {})
    text = str(result.context_injection)
    assert len(text) == 500
    assert text.startswith(OPENING)
    assert text.endswith(f"\n(cut here){CLOSING}")
    assert (await coordinator.process_hook_result(result, "provider:request", "test")).action == "inject_context"


async def test_a_limit_smaller_than_the_wrapper_means_silence() -> None:
    """Where not even the wrapper fits, nothing is injected."""
    coordinator = MockCoordinator()
    coordinator.config["session"]["injection_size_limit"] = 30
    await mount(coordinator, {"include_git": False})
    assert (await coordinator.hooks.emit("provider:request", {})).action == "continue"


async def test_priority_and_cleanup() -> None:
    """The handler runs at 0 unless the config says otherwise, and the cleanup takes it away."""
    coordinator = MockCoordinator()
    for priority in (-1, 1):
        coordinator.hooks.register("provider:request", lambda e, d: None, priority=priority, name=f"at {priority}")
    cleanup = await mount(coordinator, {})
    handlers = coordinator.hooks.list_handlers
    assert handlers("provider:request") == {"provider:request": ["at -1", "hooks-status-context", "at 1"]}
    cleanup()
    assert handlers("provider:request") == {"provider:request": ["at -1", "at 1"]}
    await mount(coordinator, {"priority": 7})
    assert handlers("provider:request") == {"provider:request": ["at -1", "at 1", "hooks-status-context"]}


async def test_a_working_dir_that_leads_out_is_not_used(
    repository: Any, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A link in the project to a folder outside of it shows nothing of that; one that stays inside is followed."""
    project = tmp_path / "untrusted"
    (project / "inner").mkdir(parents=True)
    (project / "out").symlink_to(repository.path)
    (project / "in").symlink_to("inner")
    lines = await told({"working_dir": "out"}, project)
    assert value(lines, "Working directory") == str(project)
    assert "Git: this folder is not in a repository" in lines
    assert "working_dir is not used" in caplog.text
    assert value(await told({"working_dir": "in"}, project), "Working directory") == str(project / "inner")
    assert value(await told({"working_dir": str(repository.path)}, project), "Git branch") is not None
