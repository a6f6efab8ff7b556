"""A call gives the published result, and whatever goes wrong is one too."""

from __future__ import annotations

import asyncio
import os
import signal
import stat
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from amplifier_core.testing import MockCoordinator, wait_for
from amplifier_module_tool_bash import BashTool
from amplifier_module_tool_bash.config import BashConfig

MakeTool = Callable[..., BashTool]
Naps = Callable[[], list[int]]


async def test_the_published_result(tool: BashTool) -> None:
    """Output, errors and exit code, and nothing else when there is nothing else to say."""
    result = await tool.execute({"command": "echo out; echo err >&2"})
    assert result.success
    assert result.output == {"stdout": "out\n", "stderr": "err\n", "returncode": 0}
    assert result.error is None


async def test_failure(tool: BashTool) -> None:
    """An exit code other than 0 is no success, and the output is there all the same."""
    result = await tool.execute({"command": "echo out; exit 3"})
    assert not result.success
    assert result.output == {"stdout": "out\n", "stderr": "", "returncode": 3}
    assert result.error == {"message": "Command failed with exit code 3.", "code": "exit_code"}


async def test_command_not_found(tool: BashTool) -> None:
    """bash says so itself."""
    result = await tool.execute({"command": "no-such-command-here"})
    assert result.output["returncode"] == 127
    assert "command not found" in result.output["stderr"]


async def test_signal(tool: BashTool) -> None:
    """A command that is killed says by which signal."""
    result = await tool.execute({"command": "kill -SEGV $$"})
    assert result.output["returncode"] == -signal.SIGSEGV
    assert result.error == {"message": "Command was ended by signal 11 (SIGSEGV).", "code": "signal"}
    assert result.output["message"] == result.error["message"]


async def test_timeout_is_not_a_refusal(tool: BashTool, nap: str, naps: Naps) -> None:
    """At the deadline the result has what was written by then, and says what happened and what to do."""
    for seconds in (1, 8, 64):  # more than once only on a machine that is very busy
        result = await tool.execute({"command": f"echo begun; setsid -f {nap}; {nap}", "timeout": seconds})
        if result.output["stdout"]:
            break
    assert not result.success
    assert result.output["stdout"] == "begun\n"
    assert result.error is not None
    assert result.error["code"] == "timeout"
    assert result.output["message"].startswith(f"Command timed out after {seconds} seconds and was stopped")
    assert naps() == []


async def test_what_a_command_leaves_is_stopped(tool: BashTool, nap: str, naps: Naps) -> None:
    """The command is a success, and the model learns that what it left does not run."""
    result = await tool.execute({"command": f"setsid -f {nap}; echo done"})
    assert result.success
    assert result.output["stdout"] == "done\n"
    assert result.output["message"].startswith(
        "The command left a process behind, stopped now; use `run_in_background`"
    )
    assert naps() == []


async def test_cancelled(tool: BashTool, nap: str, naps: Naps) -> None:
    """A call that is cancelled is over when everything it started is gone."""
    task = asyncio.create_task(tool.execute({"command": f"env -i setsid -f {nap}; {nap}; true"}))
    assert await wait_for(lambda: len(naps()) >= 3, timeout=60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert naps() == []


async def test_closed_while_a_command_runs(tool: BashTool, nap: str, naps: Naps) -> None:
    """A session that ends takes its running commands with it."""
    task = asyncio.create_task(tool.execute({"command": f"trap '' TERM; {nap}; {nap}"}))
    assert await wait_for(lambda: len(naps()) >= 2, timeout=60)
    await tool.close()
    assert naps() == []
    with pytest.raises(asyncio.CancelledError):
        await task


async def test_a_command_that_kills_its_supervisor(tool: BashTool, nap: str, naps: Naps) -> None:
    """It is over with it, and the result says that nobody knows how far it came."""
    result = await tool.execute({"command": f"kill -KILL $PPID; {nap}"})
    assert result.error is not None
    assert result.error["code"] == "lost"
    assert result.output["returncode"] is None
    assert naps() == []


async def test_long_output(make_tool: MakeTool, tmp_path: Path) -> None:
    """The published keys tell the sizes, and the whole is in a file of the session that only its owner reads."""
    tool = make_tool(max_output_bytes=1000, timeout=60)
    result = await tool.execute({"command": "seq 1 10000; seq 5 >&2"})
    output = result.output
    assert result.success
    assert output["truncated"] is True
    assert (output["stdout_total_bytes"], output["stderr_total_bytes"]) == (48894, 10)
    assert output["stdout"].startswith("1\n2\n3\n")
    assert output["stdout"].endswith("\n9999\n10000\n")
    assert output["stderr"] == "1\n2\n3\n4\n5\n"
    path = Path(output["stdout_file"])
    assert path.parent == tmp_path / "session" / "command-output"
    assert path.read_text(encoding="utf-8") == "".join(f"{number}\n" for number in range(1, 10001))
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    assert "stderr_file" not in output
    await tool.close()
    assert path.exists()


async def test_long_output_without_a_session_folder() -> None:
    """Where the session has no folder, the file is temporary and goes with the session."""
    tool = BashTool(MockCoordinator(), BashConfig(max_output_bytes=100, timeout=60))
    result = await tool.execute({"command": "seq 1000"})
    path = Path(result.output["stdout_file"])
    assert path.exists()
    await tool.close()
    assert not path.parent.exists()


async def test_binary_output(tool: BashTool) -> None:
    """What is no text is named, and can be had from its file."""
    result = await tool.execute({"command": "head -c 5000 /bin/bash"})
    assert result.output["stdout"].startswith("[binary output, 5,000 bytes; the whole output is in ")
    assert Path(result.output["stdout_file"]).read_bytes() == Path("/bin/bash").read_bytes()[:5000]
    assert result.get_serialized_output()


async def test_a_full_disk(make_tool: MakeTool) -> None:
    """A command that has no room to write fails with the system's reason."""
    tool = make_tool(safety_profile="unrestricted", timeout=60)
    result = await tool.execute({"command": "echo text > /dev/full"})
    assert result.output["returncode"] == 1
    assert "No space left on device" in result.output["stderr"]


async def test_no_room_for_the_rest(make_tool: MakeTool, tmp_path: Path) -> None:
    """When the rest of the output cannot be kept, the result says so and is otherwise whole."""
    (tmp_path / "session").write_text("a file in place of the folder", encoding="utf-8")
    tool = make_tool(max_output_bytes=100, timeout=60)
    result = await tool.execute({"command": "seq 1000"})
    assert result.success
    assert result.output["truncated"] is True
    assert "they could not be kept: " in result.output["stdout"]
    assert "stdout_file" not in result.output


async def test_working_dir(make_tool: MakeTool, tmp_path: Path) -> None:
    """It is the session's, or what the config says, which may be relative to that."""
    project = tmp_path / "project"
    (project / "deep \u00e4").mkdir()
    for given, expected in ((None, project), ("deep \u00e4", project / "deep \u00e4"), (str(tmp_path), tmp_path)):
        tool = make_tool(working_dir=given, timeout=60)
        assert (await tool.execute({"command": "pwd"})).output["stdout"] == f"{expected}\n"


async def test_a_working_dir_that_was_removed(tool: BashTool, tmp_path: Path) -> None:
    """Nothing is run anywhere else."""
    (tmp_path / "project").rmdir()
    result = await tool.execute({"command": "touch ran"})
    assert result.error is not None
    assert result.error["code"] == "working_dir_missing"
    assert str(tmp_path / "project") in result.output
    (tmp_path / "project").mkdir()
    assert (await tool.execute({"command": "ls"})).output["stdout"] == ""


async def test_our_own_folder_was_removed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A session without a folder of its own has none then, which is a result."""
    gone = tmp_path / "gone"
    gone.mkdir()
    monkeypatch.chdir(gone)
    gone.rmdir()
    result = await BashTool(MockCoordinator(), BashConfig()).execute({"command": "true"})
    assert result.error is not None
    assert result.error["code"] == "working_dir_missing"
    monkeypatch.undo()


async def test_secrets_are_not_passed_on(tool: BashTool, monkeypatch: pytest.MonkeyPatch) -> None:
    """Commands see the environment without what is named like a secret."""
    monkeypatch.setenv("ANTHROPIC_API_KEY", "sk-secret-value")
    monkeypatch.setenv("PLAIN_SETTING", "plain-value")
    result = await tool.execute({"command": "env"})
    assert "PLAIN_SETTING=plain-value" in result.output["stdout"]
    assert "sk-secret-value" not in result.output["stdout"]


@pytest.mark.parametrize(
    ("given", "said"),
    [
        ({}, "`command` must be a text"),
        ({"command": "  \n"}, "`command` must be a text"),
        ({"command": 5}, "`command` must be a text"),
        ({"command": "echo a\0b"}, "null bytes"),
        ({"command": "echo \ud800"}, "half characters"),
        ({"command": "true", "timeout": 0}, "`timeout` must be a number of seconds"),
        ({"command": "true", "timeout": "5"}, "`timeout` must be"),
        ({"command": "true", "timeout": True}, "`timeout` must be"),
        ({"command": "true", "timeout": float("nan")}, "`timeout` must be"),
        ({"command": "true", "timeout": 1e9}, "from 1 to 3600"),
        ({"command": "true", "run_in_background": "yes"}, "`run_in_background` must be"),
        ({"command": "status", "job": "5"}, "`job` must be"),
        ({"command": "rm x", "job": 5}, 'with `job`, `command` must be "status" or "kill"'),
    ],
)
async def test_input_that_means_nothing(tool: BashTool, given: dict[str, Any], said: str) -> None:
    """It is answered with what is wrong, and nothing is run."""
    result = await tool.execute(given)
    assert not result.success
    assert result.error is not None
    assert result.error["code"] == "invalid_input"
    assert said in result.output


async def test_a_command_that_is_too_long(tool: BashTool) -> None:
    """What the system would not take is refused with a way out, and what it just takes is run."""
    result = await tool.execute({"command": "echo " + "x" * 131072})
    assert result.error is not None
    assert result.error["code"] == "too_long"
    result = await tool.execute({"command": ": " + "x" * 131000})
    assert result.success


@pytest.mark.parametrize("command", ["-x 2>/dev/null; echo ran", "--help 2>/dev/null; echo ran", "# only\necho ran"])
async def test_odd_beginnings(tool: BashTool, command: str) -> None:
    """A command that begins like an option is a command all the same."""
    assert (await tool.execute({"command": command})).output["stdout"] == "ran\n"


async def test_a_hundred_at_once(make_tool: MakeTool) -> None:
    """A hundred calls side by side each get their own result."""
    tool = make_tool(timeout=500)
    results = await asyncio.gather(*(tool.execute({"command": f"echo {number}"}) for number in range(100)))
    assert [result.output["stdout"] for result in results] == [f"{number}\n" for number in range(100)]


async def test_max_concurrent(make_tool: MakeTool, tmp_path: Path) -> None:
    """No more than that many commands run at a time; the others wait for theirs, and a cancelled one makes room."""
    tool = make_tool(max_concurrent=2, timeout=60)
    command = "own=$(mktemp XXXXXX.run); ls *.run | wc -l; sleep 0.2; rm $own"
    calls = [asyncio.create_task(tool.execute({"command": command})) for _ in range(7)]
    await asyncio.sleep(0)
    calls.pop().cancel()
    results = await asyncio.gather(*calls)
    assert max(int(result.output["stdout"]) for result in results) <= 2
    assert all(result.success for result in results)


async def test_no_shell(tool: BashTool, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """Without bash nothing can be run, and the result says so."""
    monkeypatch.setattr("amplifier_module_tool_bash.tool._SHELL", str(tmp_path / "no-bash"))
    monkeypatch.setenv("PATH", str(tmp_path))
    result = await tool.execute({"command": "true"})
    assert result.error is not None
    assert result.error["code"] == "no_shell"


async def test_no_files_stay_open(tool: BashTool, nap: str) -> None:
    """Neither results nor timeouts nor refusals cost a file descriptor."""
    before = set(os.listdir("/proc/self/fd"))
    await tool.execute({"command": "true"})
    await tool.execute({"command": nap, "timeout": 1})
    await tool.execute({"command": "sudo true"})
    assert set(os.listdir("/proc/self/fd")) <= before
