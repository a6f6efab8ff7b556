"""What hangs, floods, dies or is cancelled leaves a clear answer and no process."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any

import pytest

from amplifier_core import ToolResult
from amplifier_module_tool_search import output, ripgrep, search

Call = Callable[..., Awaitable[ToolResult]]
Write = Callable[[Mapping[str, str | bytes]], None]
MakeTools = Callable[..., Awaitable[dict[str, Any]]]

HANGING = "(a+)+$"
BAIT = "a" * 60 + "!\n"


def searching(folder: Path) -> list[str]:
    """Return the command lines of processes that work in a folder."""
    found = []
    for pid in filter(str.isdecimal, os.listdir("/proc")):
        try:
            if int(pid) != os.getpid() and os.readlink(f"/proc/{pid}/cwd").startswith(str(folder)):
                found.append(Path(f"/proc/{pid}/cmdline").read_bytes().replace(b"\0", b" ").decode("utf-8", "replace"))
        except OSError:
            continue  # ended meanwhile
    return found


async def comes(condition: Callable[[], bool]) -> bool:
    """Wait until something is so; return False when it never is."""
    for _ in range(3000):
        if condition():
            return True
        await asyncio.sleep(0.01)
    return False


@pytest.fixture
def fake_rg(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Callable[[str], None]:
    """Give `fake_rg(script)`: a shell script that stands for ripgrep; it gets the version right by itself."""

    def make(script: str, version: str = "ripgrep 14.1.0") -> None:
        folder = tmp_path / "bin"
        folder.mkdir(exist_ok=True)
        program = folder / "rg"
        program.write_text(
            f'#!/bin/sh\nif [ "$1" = --version ]; then echo "{version}"; exit; fi\n{script}\n', encoding="utf-8"
        )
        program.chmod(0o755)
        monkeypatch.setattr(ripgrep, "_OWN_PROGRAMS", "")
        monkeypatch.setenv("PATH", f"{folder}{os.pathsep}{os.environ['PATH']}")

    return make


linux = pytest.mark.skipif(sys.platform != "linux", reason="processes are looked for in /proc")


@linux
async def test_a_regular_expression_that_takes_for_ever(make_tools: MakeTools, write: Write, project: Path) -> None:
    """Python's engine backtracks; it is killed in time, and nothing found is not an empty answer."""
    write({"a": BAIT})
    tools = await make_tools({"engine": "python", "grep": {"timeout": 0.5}})
    result = await tools["grep"].execute({"pattern": HANGING})
    assert result.error is not None
    assert result.error["code"] == "timeout"
    assert await comes(lambda: searching(project) == [])


async def test_what_was_found_in_time_is_the_answer(make_tools: MakeTools, write: Write, fake_rg: Any) -> None:
    """A search that is stopped tells what it had found, and that there may be more."""
    write({"a": ""})
    fake_rg(r"printf './a\0'; sleep 600")
    for seconds in (0.5, 60):  # twice only on a machine that is very busy
        tools = await make_tools({"engine": "rg", "grep": {"timeout": seconds}})
        result = await tools["grep"].execute({"pattern": "x"})
        if result.error is None:
            break
    assert result.output["files"] == ["a"]
    assert result.output["results_capped"] is True
    assert f"stopped after {seconds:g} s" in result.output["notes"][0]


@linux
@pytest.mark.parametrize("name", ["grep", "glob"])
async def test_cancelling_kills_everything(
    make_tools: MakeTools, write: Write, project: Path, fake_rg: Any, name: str
) -> None:
    """A call that is cancelled leaves no process behind, nor any that it started."""
    write({"a": ""})
    fake_rg("sleep 1000 & sleep 1000")
    tools = await make_tools({"engine": "rg"})
    task = asyncio.create_task(tools[name].execute({"pattern": "*x"[name == "grep" :]}))
    assert await comes(lambda: any("sleep" in line for line in searching(project)))
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await task
    assert await comes(lambda: searching(project) == [])


@linux
async def test_cancelling_at_any_moment(make_tools: MakeTools, write: Write, project: Path) -> None:
    """However early or late a call is cancelled, it ends as cancelled or done, and nothing stays."""
    write({"a": BAIT})
    tools = await make_tools({"engine": "python"})
    for step in range(12):
        task = asyncio.create_task(tools["grep"].execute({"pattern": HANGING}))
        for _ in range(step * step):
            await asyncio.sleep(0)
        await asyncio.sleep(0.01 * step)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await task
    assert await comes(lambda: searching(project) == [])


@linux
async def test_a_regular_expression_that_takes_much_memory(
    make_tools: MakeTools, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A file that the memory does not suffice for is noted, and the others are searched."""
    write({"large": "a" * 5_000_000, "small": "aab\n"})
    monkeypatch.setattr("amplifier_module_tool_search.search.MAX_MEMORY", 200 * 1024**2)
    tools = await make_tools({"engine": "python"})
    result = await tools["grep"].execute({"pattern": "(a|a)*b"})
    assert result.success, result.output
    assert result.output["files"] == ["small"]
    assert result.output["notes"] == ["cannot be read: large (Cannot allocate memory)"]


@linux
async def test_a_search_whose_session_died_ends_by_itself(write: Write, project: Path) -> None:
    """The process that searches without ripgrep has a deadline of its own."""
    write({"a": BAIT})
    asked = {
        "seconds": -4,
        "paths": ["a"],
        "pattern": HANGING,
        **dict.fromkeys(("ignore_case", "multiline"), False),
        **dict.fromkeys(("before", "after"), 0),
        **dict.fromkeys(("max_file_size", "memory"), 2**30),
    }
    argv = [sys.executable, "-I", "-S", search._FALLBACK]
    done = await asyncio.to_thread(
        subprocess.run, argv, input=json.dumps(asked).encode(), cwd=project, capture_output=True, check=False
    )
    assert done.returncode == -signal.SIGALRM, done.stderr


async def test_a_glob_that_is_late(make_tools: MakeTools, write: Write, fake_rg: Any) -> None:
    """A listing that takes too long tells what it has; with nothing it fails."""
    write({"a": "", "b": ""})
    fake_rg(r"printf 'a\0b\0'; exec sleep 600")
    for seconds in (1, 60):  # twice only on a machine that is very busy
        tools = await make_tools({"engine": "rg", "glob": {"timeout": seconds}})
        result = await tools["glob"].execute({"pattern": "*"})
        if result.error is None:
            break
    assert sorted(match["path"] for match in result.output["matches"]) == ["a", "b"]
    assert result.output["results_capped"] is True
    fake_rg("exec sleep 600")
    tools = await make_tools({"engine": "rg", "glob": {"timeout": 1}})
    result = await tools["glob"].execute({"pattern": "*"})
    assert result.error is not None
    assert result.error["code"] == "timeout"


async def test_a_flood_is_stopped(
    make_tools: MakeTools, write: Write, engine: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """More matches than anyone can read are not read; the answer says so."""
    write({f"{number}": "foo\n" * 1000 for number in range(200)})
    monkeypatch.setattr(output, "MAX_BYTES", 100_000)
    tools = await make_tools({"engine": engine})
    result = await tools["grep"].execute({"pattern": "foo", "output_mode": "content", "head_limit": 5})
    assert result.output["matches_count"] == 5
    assert result.output["total_matches"] < 200_000
    assert result.output["results_capped"] is True
    assert "too much" in result.output["notes"][0]


async def test_a_pipe_in_place_of_the_rules(make_tools: MakeTools, write: Write, engine: str, project: Path) -> None:
    """A .gitignore that never ends is no rules, or is stopped in time; it holds nobody up."""
    write({"a": "foo\n"})
    os.mkfifo(project / ".gitignore")
    tools = await make_tools({"engine": engine, "grep": {"timeout": 60 if engine == "python" else 1}})
    result = await tools["grep"].execute({"pattern": "foo"})
    if engine == "python":
        assert result.output["files"] == ["a"]
    else:
        assert result.error is None or result.error["code"] == "timeout"


@pytest.mark.parametrize("version", ["ripgrep 12.1.1", "rg 0.2 - another program", "", "ripgrep"])
async def test_a_program_that_is_not_ripgrep_is_not_used(
    make_tools: MakeTools, write: Write, fake_rg: Any, version: str
) -> None:
    """A program of that name that is too old, or something else, is passed over."""
    write({"a": "foo\n"})
    fake_rg("echo nonsense; exit 0", version)
    tools = await make_tools()
    assert (await tools["grep"].execute({"pattern": "foo"})).output["files"] == ["a"]
    tools = await make_tools({"engine": "rg"})
    result = await tools["grep"].execute({"pattern": "foo"})
    assert result.error is not None
    assert result.error["code"] == "no_engine"


async def test_without_ripgrep(make_tools: MakeTools, write: Write, monkeypatch: pytest.MonkeyPatch) -> None:
    """Where there is no ripgrep, or only one by a relative path, both tools work all the same."""
    write({"a": "foo\n"})
    for path in ("", "."):
        monkeypatch.setenv("PATH", path)
        tools = await make_tools()
        assert (await tools["grep"].execute({"pattern": "foo"})).output["files"] == ["a"]
        assert (await tools["glob"].execute({"pattern": "*"})).output["count"] == 1


@pytest.mark.parametrize("folder", [".", "bin", "", "{project}", "{project}/bin", "{tools}"])
async def test_a_ripgrep_that_commands_can_write_is_not_run(
    coordinator: Any,
    make_tools: MakeTools,
    write: Write,
    project: Path,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    folder: str,
) -> None:
    """One in the project, or in another folder that the sandbox opens for writing, is never started."""
    tools_folder = tmp_path / "tools"
    write({"a": "foo\n", "bin/keep": ""})
    for place in (project, project / "bin", tools_folder):
        place.mkdir(exist_ok=True)
        script = f"#!/bin/sh\ntouch '{tmp_path}/planted'\necho 'ripgrep 14.1.0'\n"
        (place / "rg").write_text(script, encoding="utf-8")
        (place / "rg").chmod(0o755)
    coordinator.config["session"] = {"sandbox": {"writable": [str(tools_folder)]}}
    monkeypatch.chdir(project)
    first = folder.format(project=project, tools=tools_folder)
    monkeypatch.setenv("PATH", f"{first}{os.pathsep}{os.environ['PATH']}")
    tools = await make_tools()
    assert (await tools["grep"].execute({"pattern": "foo"})).output["files"] == ["a"]
    assert (await tools["glob"].execute({"pattern": "a"})).output["count"] == 1
    assert not (tmp_path / "planted").exists()


@pytest.mark.parametrize(
    ("script", "code"),
    [
        ("echo 'rg: something is wrong' >&2; exit 2", "search_failed"),
        ("kill -9 $$", "search_failed"),
        ("echo 'regex parse error: x' >&2; exit 2", "invalid_pattern"),
    ],
)
async def test_a_ripgrep_that_fails(make_tools: MakeTools, fake_rg: Any, script: str, code: str) -> None:
    """A search that failed is a failure, never an empty answer."""
    fake_rg(script)
    tools = await make_tools({"engine": "rg"})
    result = await tools["grep"].execute({"pattern": "x"})
    assert result.error is not None
    assert result.error["code"] == code
    listed = await tools["glob"].execute({"pattern": "*"})
    assert not listed.success


async def test_settings_of_the_machine_do_not_count(
    make_tools: MakeTools, write: Write, engine: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A config file of ripgrep, other ignore files here and above, and git's own settings change nothing."""
    (tmp_path / "rc").write_text("--invert-match\n--max-count=1\n", encoding="utf-8")
    monkeypatch.setenv("RIPGREP_CONFIG_PATH", str(tmp_path / "rc"))
    monkeypatch.setenv("PYTHONSTARTUP", "/nowhere")
    write({"a": "foo\nbar\n", ".ignore": "a\n", ".rgignore": "a\n", ".git/info/exclude": "a\n", "json.py": "raise 1"})
    write({"below/a": "foo\n", "off/b": "foo\n"})
    (tmp_path / ".rgignore").write_text("off/\n", encoding="utf-8")
    tools = await make_tools({"engine": engine})
    for path, files in (("", ["a", "below/a", "off/b"]), ("below", ["below/a"])):
        result = await tools["grep"].execute({"pattern": "foo", "output_mode": "content", "path": path})
        assert [entry["file"] for entry in result.output["results"]] == files
        result = await tools["glob"].execute({"pattern": "**/[ab]", "path": path})
        assert sorted(match["path"] for match in result.output["matches"]) == files
