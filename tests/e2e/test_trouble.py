"""What happens to the disk does not happen to the session."""

import json
import os
import resource
import shutil
import subprocess
import sys
import textwrap
import time
from pathlib import Path
from typing import Any

import pytest

from amplifier_kit.log.writer import CHECK_EVERY

ANSWER = [{"text": "The answer."}]
#: Answers when the second process has had the time that it needs, however long that is on a busy machine.
WAITING_LOOP = """
    __amplifier_module_type__ = "orchestrator"
    import asyncio
    from pathlib import Path

    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **_):
            await hooks.emit("execution:start", {"prompt": prompt})
            while not Path("go").exists():
                await asyncio.sleep(0.02)
            return "The answer."

    async def mount(coordinator, config=None):
        await coordinator.mount("orchestrator", Loop())
"""
TROUBLE = "The session continues; lines are lost until this is fixed"


def _limited(size: int) -> Any:
    def limit() -> None:
        resource.setrlimit(resource.RLIMIT_FSIZE, (size, size))

    return limit


def _check_goes_on(done: subprocess.CompletedProcess[str]) -> None:
    assert (done.returncode, done.stdout) == (0, "The answer.\n"), done.stderr
    assert done.stderr.count(TROUBLE) == 1, done.stderr
    assert "Traceback" not in done.stderr
    assert "Log sink" not in done.stderr, done.stderr
    said = [line for line in done.stderr.splitlines() if "Cannot write" in line]
    assert len(said) == len(set(said)), done.stderr


@pytest.mark.parametrize("size", [0, 100, 4000])
def test_a_full_disk_is_told_once(project: Any, size: int) -> None:
    """With no room for the log the answer is printed all the same, the exit code is 0, and one message says why."""
    project.script(ANSWER)
    done = project.go(preexec_fn=_limited(size))
    _check_goes_on(done)
    for log in project.logs():
        last = 0
        for record in map(json.loads, log.read_bytes().splitlines()):
            assert record["seq"] == last + 1 + record.get("dropped", 0)
            last = record["seq"]


def test_a_folder_that_is_removed_is_told_once(project: Any) -> None:
    """A session whose folder is deleted while it runs goes on to its answer."""
    project.script(ANSWER)
    go = project.gate()
    process = project.start("run", "--bundle", "bundle.yaml", "go")
    shutil.rmtree(project.wait_for_event("llm:request"))
    time.sleep(CHECK_EVERY)  # the writer looks after its file only so often
    go.touch()
    out, error = process.communicate(timeout=60)
    _check_goes_on(subprocess.CompletedProcess([], process.returncode, out, error))
    assert project.logs() == []


def test_a_home_that_is_no_folder_is_told_once(project: Any) -> None:
    """Where no folder can be made there is no log, and an answer nevertheless."""
    project.script(ANSWER)
    project.home.write_text("in the way")
    _check_goes_on(project.go())
    assert project.home.read_text() == "in the way"


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
@pytest.mark.parametrize("mode", [0o000, 0o500])
def test_a_folder_that_may_not_be_written_any_more(project: Any, mode: int) -> None:
    """Permission that is lost while the session runs does not end it."""
    project.script(ANSWER)
    go = project.gate()
    process = project.start("run", "--bundle", "bundle.yaml", "go")
    folder = project.wait_for_event("llm:request")
    folder.chmod(mode)
    go.touch()
    try:
        out, error = process.communicate(timeout=60)
    finally:
        folder.chmod(0o700)
    assert (process.returncode, out) == (0, "The answer.\n"), error
    assert "Traceback" not in error


@pytest.mark.skipif(os.geteuid() == 0, reason="permissions do not bind the superuser")
def test_a_home_that_may_not_be_written(project: Any) -> None:
    """A home without permission to write is told once, and the answer is printed."""
    project.script(ANSWER)
    project.home.mkdir(mode=0o500)
    _check_goes_on(project.go())
    assert list(project.home.iterdir()) == []


def test_a_second_process_is_refused(project: Any, tmp_path: Path) -> None:
    """Two processes never run one session: the second is told who has it, and changes nothing."""
    project.module("loop-waiting", WAITING_LOOP)
    project.script([])
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(bundle.read_text().replace("loop-basic", "loop-waiting"))
    program = tmp_path / "second.py"
    program.write_text(
        textwrap.dedent(
            """
            import asyncio, sys
            from pathlib import Path
            from amplifier_kit.log.files import SessionLogBusy
            from amplifier_foundation.paths import Home
            from amplifier_foundation.plan.prepare import Options, prepare
            from amplifier_foundation.sessions.runtime import SessionRuntime

            async def main():
                prepared = await prepare(Options(Home.find(), Path.cwd(), bundle="bundle.yaml"))
                async with SessionRuntime(prepared, session_id=sys.argv[1]) as runtime:
                    print(await runtime.execute("go"))

            try:
                asyncio.run(main())
            except SessionLogBusy as error:
                print(error)
                sys.exit(5)
            """
        )
    )
    first = project.start("run", "--bundle", "bundle.yaml", "go")
    folder = project.wait_for_event("execution:start")
    second = subprocess.run(
        [sys.executable, str(program), folder.name],
        cwd=project.folder,
        env=project.environment,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    (project.folder / "go").touch()
    out, error = first.communicate(timeout=60)
    assert (first.returncode, out) == (0, "The answer.\n"), error
    assert second.returncode == 5, second.stderr
    assert f"is being written by process {first.pid} already, and a session has one writer" in second.stdout
    assert second.stderr == ""
    assert project.events().count("session:start") == 1
