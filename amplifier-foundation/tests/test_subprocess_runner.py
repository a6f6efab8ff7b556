"""The published function that runs a session in a process of its own."""

from __future__ import annotations

import asyncio
import json
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from amplifier_foundation import run_session_in_subprocess
from amplifier_foundation.paths import Home
from amplifier_foundation.plan.prepared import Prepared
from amplifier_foundation.policy.modes import RUNNING, RunPermissions
from amplifier_foundation.policy.rule_text import parse_rule
from amplifier_foundation.sessions.runtime import SessionRuntime
from amplifier_foundation.subprocess_runner import process_environment

_PARENT = "0b6c4a3e-9f3c-4b53-8f5e-4a1d2c3b4a5e"


@pytest.fixture
def home(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Home:
    """Return the home of the user, which the process finds by its variable."""
    monkeypatch.setenv("AMPLIFIER_HOME", str(tmp_path / "home"))
    return Home.find()


@pytest.fixture
def project(tmp_path: Path) -> Path:
    """Return the folder of a project."""
    (tmp_path / "project").mkdir()
    return tmp_path / "project"


def _plan(**provider: Any) -> dict[str, Any]:
    return {
        "session": {"orchestrator": {"module": "loop-basic"}, "context": {"module": "context-simple"}},
        "providers": [{"module": "provider-mock", "config": provider}],
        "hooks": [{"module": "hooks-logging"}],
    }


def _waiting(project: Path) -> dict[str, Any]:
    """Return the plan of a session whose command says that it has started, and waits."""
    command = f"touch {project}/started; sleep 600"
    turns = [{"tool_calls": [{"name": "bash", "arguments": {"command": command}}]}, {"text": "Done."}]
    scenario = project / "scenario.json"
    scenario.write_text(json.dumps({"turns": turns}), encoding="utf-8")
    return {**_plan(scenario=str(scenario)), "tools": [{"module": "tool-bash", "config": {"sandbox": "off"}}]}


def _allow_commands(home: Home) -> None:
    home.path.mkdir()
    (home.path / "policy.yaml").write_text("rules: [{action: process.exec, verdict: allow}]", encoding="utf-8")


async def _started(project: Path) -> None:
    while not (project / "started").exists():  # noqa: ASYNC110
        await asyncio.sleep(0.02)


def _processes(project: Path) -> list[str]:
    """Return the command lines of running processes that name the project."""
    found: list[str] = []
    for path in Path("/proc").glob("[0-9]*/cmdline"):
        with suppress(OSError):
            line = path.read_text(encoding="utf-8", errors="replace")
            found += [line] if str(project) in line else []
    return found


async def test_the_answer_of_the_session_is_returned(home: Home, project: Path) -> None:
    """The session is a child of its parent, with a folder of its own."""
    plan = _plan(responses=["The answer."])
    answer = await run_session_in_subprocess(plan, "Go.", _PARENT, project, session_id="the-child")
    assert answer == "The answer."
    folder = home.sessions(project) / "the-child"
    metadata = json.loads((folder / "metadata.json").read_text(encoding="utf-8"))
    assert (metadata["parent_id"], metadata["turn_count"]) == (_PARENT, 1)
    with pytest.raises(ValueError, match="exists already"):
        await run_session_in_subprocess(plan, "Go.", _PARENT, project, session_id="the-child")


async def test_a_session_that_fails_is_an_error(home: Home, project: Path) -> None:
    """The error names what went wrong in the process."""
    plan = {**_plan(responses=["."]), "tools": [{"module": "tool-absent"}]}
    with pytest.raises(RuntimeError, match="tool-absent"):
        await run_session_in_subprocess(plan, "Go.", _PARENT, str(project))


async def test_a_process_that_dies_is_an_error(home: Home, project: Path) -> None:
    """The error has the exit code and the last output of the process, which may print."""
    package = project / "modules" / "amplifier_module_tool_dies"
    package.mkdir(parents=True)
    text = "import os\n\nprint('last words', flush=True)\nos._exit(7)\n"
    (package / "__init__.py").write_text(text, encoding="utf-8")
    plan = {**_plan(responses=["."]), "tools": [{"module": "tool-dies"}]}
    with pytest.raises(RuntimeError, match=r"exit code 7.*last words"):
        await run_session_in_subprocess(
            plan, "Go.", _PARENT, project, module_paths={"tool-dies": str(project / "modules")}
        )


@pytest.mark.parametrize("config", [None, {}, [], {"session": {"orchestrator": "loop-basic"}}, {**_plan(x={1, 2})}])
async def test_an_invalid_config_is_refused(home: Home, project: Path, config: Any) -> None:
    """Nothing is started for a plan that is incomplete or that JSON cannot carry."""
    with pytest.raises(ValueError):
        await run_session_in_subprocess(config, "Go.", _PARENT, project)
    assert not home.sessions(project).exists()


@pytest.mark.parametrize("session_id", ["../elsewhere", "a/b"])
async def test_an_id_names_no_folder_elsewhere(home: Home, project: Path, session_id: str) -> None:
    """An id is the name of one folder."""
    with pytest.raises(ValueError, match="invalid session_id"):
        await run_session_in_subprocess(_plan(), "Go.", _PARENT, project, session_id=session_id)


async def test_a_session_that_takes_too_long_is_stopped(home: Home, project: Path) -> None:
    """After the timeout the process and its commands are gone, at whatever point of its start it was stopped."""
    _allow_commands(home)
    timeout = 0.25
    while not (project / "started").exists():  # a busy machine takes longer to get as far as the command
        timeout *= 2
        with pytest.raises(TimeoutError, match=f"not done after {timeout:g} s"):
            await run_session_in_subprocess(_waiting(project), "Go.", _PARENT, project, timeout=timeout)
        assert _processes(project) == []


async def test_a_cancelled_caller_ends_the_process(home: Home, project: Path) -> None:
    """The process and its commands are gone when the cancellation is raised."""
    _allow_commands(home)
    work = asyncio.ensure_future(
        run_session_in_subprocess(_waiting(project), "Go.", _PARENT, project, session_id="the-child")
    )
    async with asyncio.timeout(60):
        await _started(project)
    assert _processes(project)
    work.cancel()
    with pytest.raises(asyncio.CancelledError):
        await work
    assert _processes(project) == []


def test_variables_are_passed_on_by_need() -> None:
    """The process gets what the plan names, what its providers read, and what programs need to run."""
    environ = {
        "PATH": "/bin",
        "HOME": "/home/ada",
        "AMPLIFIER_HOME": "/home/ada/.amplifier",
        "WANTED": "1",
        "OPENAI_API_KEY": "k",
        "ANTHROPIC_API_KEY": "k",
        "AWS_SECRET_ACCESS_KEY": "k",
    }
    plan = {"providers": [{"module": "provider-openai", "config": {"x": "${WANTED}"}}]}
    assert set(process_environment(plan, environ)) == {"PATH", "HOME", "AMPLIFIER_HOME", "WANTED", "OPENAI_API_KEY"}


@pytest.mark.parametrize(("mode", "is_written"), [("read-only", False), ("accept-edits", True), (None, False)])
async def test_the_mode_of_the_parent_holds(home: Home, project: Path, mode: str | None, is_written: bool) -> None:
    """The session in the other process has the permission mode that is in its parent's metadata."""
    folder = home.sessions(project) / _PARENT
    folder.mkdir(parents=True)
    facts = {"session_id": _PARENT} | ({"permission_mode": mode} if mode is not None else {})
    (folder / "metadata.json").write_text(json.dumps(facts), encoding="utf-8")
    turns = [{"tool_calls": [{"name": "write_file", "arguments": {"file_path": "a.txt", "content": "x"}}]}]
    scenario = project / "scenario.json"
    scenario.write_text(json.dumps({"turns": [*turns, {"text": "Done."}]}), encoding="utf-8")
    plan = {**_plan(scenario=str(scenario)), "tools": [{"module": "tool-filesystem"}]}
    assert await run_session_in_subprocess(plan, "Go.", _PARENT, project) == "Done."
    assert (project / "a.txt").exists() is is_written


async def test_the_rules_of_the_run_hold(home: Home, project: Path) -> None:
    """What the user denies for this run, which no file has, is denied in the other process, too."""
    scenario = project / "scenario.json"
    calls = [{"name": "write_file", "arguments": {"file_path": name, "content": "x"}} for name in ("a.txt", "b.txt")]
    scenario.write_text(json.dumps({"turns": [{"tool_calls": calls}, {"text": "Done."}]}), encoding="utf-8")
    plan = {**_plan(scenario=str(scenario)), "tools": [{"module": "tool-filesystem"}]}
    run = RunPermissions("accept-edits", rules=(parse_rule('path "a.txt"', "deny"),))
    async with SessionRuntime(Prepared.from_plan(plan, home.path, project), session_id=_PARENT, run=run):
        assert await run_session_in_subprocess(plan, "Go.", _PARENT, project) == "Done."
    assert not (project / "a.txt").exists()
    assert (project / "b.txt").exists()
    assert _PARENT not in RUNNING
