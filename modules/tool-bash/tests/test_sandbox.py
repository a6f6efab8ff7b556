"""Commands run in the sandbox unless the plan says otherwise, with all that is promised of commands."""

from __future__ import annotations

import asyncio
import os
import shutil
import signal
import socket
import stat
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import wait_for
from amplifier_kit.guard.sandbox.config import SandboxConfig
from amplifier_kit.guard.sandbox.sandbox import MISSING, Sandbox
from amplifier_module_tool_bash import BashTool, mount, on_session_ready

MakeTool = Callable[..., BashTool]
Naps = Callable[[], list[int]]
Events = list[tuple[str, dict[str, Any]]]


@pytest.fixture(autouse=True)
def bubblewrap() -> None:
    """Skip where there is no sandbox to test; the Makefile installs it where it can."""
    status = Sandbox(SandboxConfig(), Path(__file__).parent).status
    if not status.is_active:
        pytest.skip(f"there is no sandbox on this machine: {status.reason}")


@pytest.fixture
def events(coordinator: Any) -> Events:
    """Return the events about the sandbox, as they come."""
    seen: Events = []
    for name in ("sandbox:status", "sandbox:blocked"):
        coordinator.hooks.register(name, lambda event, data: seen.append((event, data)), name=f"seen-{name}")
    return seen


@pytest.fixture
def listener() -> Iterator[int]:
    """Return the port of a server on this machine."""
    with socket.create_server(("127.0.0.1", 0)) as server:
        yield server.getsockname()[1]


async def _run(tool: BashTool, command: str, **more: Any) -> dict[str, Any]:
    result = await tool.execute({"command": command, **more})
    assert isinstance(result.output, dict), result.output
    return result.output


async def test_only_the_project_can_be_written(tool: BashTool, events: Events, tmp_path: Path) -> None:
    """What goes to the project stays; elsewhere nothing can be written, and the result says why and what to do."""
    (tmp_path / "outside").mkdir()
    assert (await _run(tool, "echo text > made"))["returncode"] == 0
    assert (tmp_path / "project" / "made").read_text(encoding="utf-8") == "text\n"
    output = await _run(tool, "echo text > /usr/share/made")
    assert output["message"].startswith("The sandbox blocked it: everything outside of the project is read-only")
    assert "`sandbox: {writable: [FOLDER]}` in the config of tool-bash" in output["message"]
    assert events[-1][0] == "sandbox:blocked"
    assert events[-1][1]["kind"] == "filesystem"
    assert events[-1][1]["command"] == "echo text > /usr/share/made"
    await _run(tool, f"mkdir -p '{tmp_path}/outside'; echo text > '{tmp_path}/outside/made'")
    assert list((tmp_path / "outside").iterdir()) == []


async def test_there_is_no_network(make_tool: MakeTool, events: Events, listener: int) -> None:
    """A server of the host cannot be reached until the config allows it, and the result tells how."""
    command = f"exec 3<>/dev/tcp/127.0.0.1/{listener} && echo reached"
    output = await _run(make_tool(safety_profile="unrestricted", timeout=60), command)
    assert (output["returncode"], output["stdout"]) == (1, "")
    assert "`sandbox: {network: true}`" in output["message"]
    assert [data["kind"] for event, data in events if event == "sandbox:blocked"] == ["network"]
    allowed = make_tool(sandbox={"network": True}, safety_profile="unrestricted", timeout=60)
    assert (await _run(allowed, command))["stdout"] == "reached\n"


async def test_names_are_not_resolved(tool: BashTool) -> None:
    """A command that looks for a host is told that there is no network."""
    output = await _run(tool, "getent hosts example.com || { echo 'Could not resolve host: example.com' >&2; exit 6; }")
    assert output["message"].startswith("The sandbox blocked it: there is no network inside.")


async def test_required_refuses(
    make_tool: MakeTool, events: Events, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Without bubblewrap nothing is run where it is required, in the foreground and the background, and it is said."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    tool = make_tool(sandbox="required", timeout=60)
    for background in (False, True):
        result = await tool.execute({"command": "/bin/touch made", "run_in_background": background})
        assert result.error is not None
        assert result.error["code"] == "sandbox_required"
        assert MISSING in result.output
        assert "apt install bubblewrap" in result.output
    assert not (tmp_path / "project" / "made").exists()
    assert [event for event, _ in events] == ["sandbox:status", "sandbox:blocked", "sandbox:blocked"]
    assert events[0][1]["status"] == "absent"
    assert events[1][1] == {**events[1][1], "kind": "required", "tool": "bash", "command": "/bin/touch made"}


async def test_auto_says_loudly_that_there_is_none(
    make_tool: MakeTool,
    events: Events,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    caplog: pytest.LogCaptureFixture,
) -> None:
    """Without bubblewrap commands run free, which is in the log of the session and of the program."""
    monkeypatch.setenv("PATH", str(tmp_path / "empty"))
    tool = make_tool(timeout=60)
    assert (await _run(tool, "/bin/echo ran"))["stdout"] == "ran\n"
    assert [(event, data["status"], data["reason"]) for event, data in events] == [
        ("sandbox:status", "absent", MISSING)
    ]
    assert "sandbox: NOT AVAILABLE, commands can do whatever you can" in caplog.text


async def test_off(make_tool: MakeTool, events: Events, listener: int) -> None:
    """What is off is off, and the log says so; YAML's false is the word off."""
    for config in ("off", False):
        tool = make_tool(sandbox=config, safety_profile="unrestricted", timeout=60)
        assert (await _run(tool, f"exec 3<>/dev/tcp/127.0.0.1/{listener} && echo reached"))["stdout"] == "reached\n"
    assert [data["status"] for _, data in events] == ["off", "off"]


async def test_a_module_cannot_switch_off_what_the_session_requires(make_tool: MakeTool, coordinator: Any) -> None:
    """The session's word counts, and the tool's description tells the model of the sandbox."""
    coordinator.config["session"]["sandbox"] = "required"
    tool = make_tool(sandbox={"mode": "off", "network": True, "writable": ["/var"]}, timeout=60)
    assert (await _run(tool, "ls /proc/sys/net/ipv4/conf"))["stdout"].split() == ["all", "default", "lo"]
    assert "run in a sandbox" in tool.description


async def test_a_wrong_config_is_named(coordinator: Any) -> None:
    """What means nothing keeps the module from mounting, in its own config and in the session's."""
    with pytest.raises(ValueError, match=r"tool-bash: config key 'sandbox\.network' must be true or false"):
        await mount(coordinator, {"sandbox": {"network": "yes"}})
    coordinator.config["session"]["sandbox"] = "sometimes"
    with pytest.raises(ValueError, match="config key 'sandbox' must be one of required, auto, off"):
        await mount(coordinator, {})


async def test_the_status_is_said_at_the_start(coordinator: Any, events: Events) -> None:
    """When the session is ready the log says what commands run in, once, also when none is run."""
    cleanup = await mount(coordinator, {})
    await on_session_ready(coordinator)
    await on_session_ready(coordinator)
    await cleanup()
    assert [event for event, _ in events] == ["sandbox:status"]
    said = {key: events[0][1][key] for key in ("tool", "status", "mode", "backend", "network", "reason")}
    assert said == {
        "tool": "bash",
        "status": "active",
        "mode": "auto",
        "backend": "bubblewrap",
        "network": False,
        "reason": "",
    }


async def test_endings_are_the_command_s_own(tool: BashTool, nap: str, naps: Naps) -> None:
    """Exit codes, signals, deadlines and what is left behind are told as they are without a sandbox."""
    assert (await _run(tool, "exit 139"))["returncode"] == 139
    assert (await _run(tool, "kill -SEGV $$"))["returncode"] == -signal.SIGSEGV
    assert "left a process behind" in (await _run(tool, f"setsid -f {nap}"))["message"]
    for seconds in (1, 8, 64):  # more than once only on a machine that is very busy
        result = await tool.execute({"command": f"echo begun; setsid -f {nap}; {nap}", "timeout": seconds})
        if result.output["stdout"]:
            break
    assert result.error is not None
    assert (result.error["code"], result.output["stdout"]) == ("timeout", "begun\n")
    assert naps() == []


async def test_a_command_may_clean_up_at_its_deadline(tool: BashTool, tmp_path: Path) -> None:
    """It gets SIGTERM and a moment, before all of it is killed."""
    command = "trap ': > tidy; exit' TERM; echo on; while :; do sleep 0.05; done"
    for seconds in (1, 8, 64):  # more than once only on a machine that is very busy
        await tool.execute({"command": command, "timeout": seconds})
        if (tmp_path / "project" / "tidy").exists():
            break
    assert (tmp_path / "project" / "tidy").exists()


async def test_cancelled(tool: BashTool, nap: str, naps: Naps) -> None:
    """A call that is cancelled is over when everything it started is gone."""
    task = asyncio.create_task(tool.execute({"command": f"env -i setsid -f {nap}; nohup {nap} & {nap}; true"}))
    assert await wait_for(lambda: len(naps()) >= 4, timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert naps() == []


async def test_long_output_can_be_read_by_the_next_command(make_tool: MakeTool) -> None:
    """The file that the result names is there inside, to be read and not to be changed."""
    tool = make_tool(max_output_bytes=1000, timeout=60)
    path = Path((await _run(tool, "seq 10000"))["stdout_file"])
    assert (await _run(tool, f"tail -1 '{path}'"))["stdout"] == "10000\n"
    assert (await _run(tool, f"echo more >> '{path}'"))["returncode"] == 1
    assert stat.S_IMODE(path.stat().st_mode) == 0o600


async def test_jobs_have_numbers_of_their_own(tool: BashTool, nap: str, naps: Naps) -> None:
    """Inside, all have the same number; the tool's is one that can be told from others."""
    pids = [(await _run(tool, nap, run_in_background=True))["pid"] for _ in range(3)]
    assert len(set(pids)) == 3
    assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
    await tool.execute({"command": "kill", "job": pids[1]})
    states = [(await tool.execute({"command": "status", "job": pid})).output["status"] for pid in pids]
    assert states == ["running", "ended", "running"]


async def test_a_job_that_was_stopped_says_so(tool: BashTool, events: Events) -> None:
    """What the sandbox stopped in the background is said when somebody looks."""
    pid = (await _run(tool, "touch /usr/x", run_in_background=True))["pid"]
    status: dict[str, Any] = {}
    while status.get("status") != "ended":
        await asyncio.sleep(0.05)
        status = await _run(tool, "status", job=pid)
    assert status["message"].startswith("The sandbox blocked it: ")
    assert [data["kind"] for event, data in events if event == "sandbox:blocked"] == ["filesystem"]


async def test_nothing_stays_in_the_project(tool: BashTool, nap: str, tmp_path: Path) -> None:
    """What keeps `.amplifier` and the like from being made is gone when the last command that needs it is."""
    project = tmp_path / "project"
    pid = (await _run(tool, nap, run_in_background=True))["pid"]
    await _run(tool, "true")
    assert sorted(path.name for path in project.iterdir()) == [".agents", ".amplifier", ".claude", ".mcp.json"]
    assert (await _run(tool, "mkdir .amplifier/x"))["returncode"] == 1
    await tool.execute({"command": "kill", "job": pid})
    assert list(project.iterdir()) == []


async def test_a_folder_outside_of_the_project(make_tool: MakeTool, tmp_path: Path) -> None:
    """It can be read, not written; one that has half the machine in it is refused."""
    elsewhere = tmp_path / "else where"
    elsewhere.mkdir()
    (elsewhere / "file").write_text("text", encoding="utf-8")
    tool = make_tool(working_dir=str(elsewhere), timeout=60)
    output = await _run(tool, "cat file; echo > made")
    assert (output["stdout"], output["returncode"]) == ("text", 1)
    assert not (elsewhere / "made").exists()
    result = await make_tool(working_dir="/", timeout=60).execute({"command": "ls"})
    assert result.error is not None
    assert result.error["code"] == "working_dir_outside"


async def test_a_sandbox_that_cannot_be_set_up(make_tool: MakeTool, coordinator: Any, tmp_path: Path) -> None:
    """When bubblewrap fails although it could do it before, nothing is run, and its own words are the reason."""
    fake = tmp_path / "bin" / "bwrap"
    fake.parent.mkdir()
    broken = f'[ -e {tmp_path}/broken ] && {{ echo "bwrap: out of luck" >&2; exit 1; }}'
    fake.write_text(f'#!/bin/sh\n{broken}\nexec {shutil.which("bwrap")} "$@"\n', encoding="utf-8")
    fake.chmod(0o755)
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("PATH", f"{fake.parent}{os.pathsep}{os.environ['PATH']}")
        tool = make_tool(timeout=60)
        assert (await _run(tool, "echo ran"))["stdout"] == "ran\n"
        (tmp_path / "broken").touch()
        for background in (False, True):
            result = await tool.execute({"command": "touch made", "run_in_background": background})
            assert result.error is not None
            assert result.error["code"] == "sandbox_failed"
            assert "bwrap: out of luck" in result.output
    assert not (tmp_path / "project" / "made").exists()
