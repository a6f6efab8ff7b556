"""Running other programs."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path

import pytest

from amplifier_kit.guard.processes import launch as processes
from amplifier_kit.guard.processes.launch import CommandTimeoutError, run_command, run_program
from amplifier_kit.guard.processes.supervisor import running

#: A program with a child, which both would run for ever; their numbers are written to files.
TREE = (
    "sleep 1000 & echo $! > child.new; echo $$ > parent.new; mv child.new child; mv parent.new parent; wait; sleep 1000"
)

Gone = Callable[[int], bool]
Until = Callable[[Callable[[], bool]], bool]


def tree(folder: Path) -> list[int]:
    return [int((folder / name).read_text(encoding="utf-8")) for name in ("parent", "child")]


async def test_the_code_and_both_outputs_are_the_result(tmp_path: Path) -> None:
    """Whatever code a program ends with is a result, with what it wrote to stdout and stderr."""
    result = await run_command(
        ["sh", "-c", 'pwd; echo "$WORD" >&2; exit 3'],
        timeout=60,
        cwd=tmp_path,
        because="it is ours",
        env={"WORD": "hi", "PATH": os.defpath},
    )

    assert (result.returncode, result.output) == (3, f"{tmp_path}\nhi\n")


async def test_a_program_is_not_taken_from_the_project(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A program is looked for on PATH outside of the project, and runs outside of it."""
    (tmp_path / "bin").mkdir()
    for folder in (tmp_path, tmp_path / "bin"):
        (folder / "sh").write_text(f"#!/bin/sh\ntouch '{tmp_path}/planted'\n", encoding="utf-8")
        (folder / "sh").chmod(0o755)
    monkeypatch.chdir(tmp_path)
    path = f".::bin:{tmp_path}/bin"
    with pytest.raises(FileNotFoundError):
        await run_command(["sh", "-c", "pwd"], timeout=60, env={"PATH": path})
    result = await run_command(
        ["sh", "-c", "pwd; sh -c 'echo $PATH'"], timeout=60, env={"PATH": f"{path}:{os.defpath}"}
    )
    assert result.output == f"/\n{os.defpath}\n"
    assert not (tmp_path / "planted").exists()


def test_a_program_gets_no_input_and_no_terminal() -> None:
    """A program that asks gets the end of its input at once, whatever ours is, and is alone in its session."""
    code = (
        "import asyncio, os, sys\n"
        "from amplifier_kit.guard.processes.launch import run_command\n"
        "asks = 'import os, sys; print(repr(sys.stdin.read()), os.getsid(0) == os.getpid())'\n"
        "print(asyncio.run(run_command([sys.executable, '-c', asks], timeout=60, env=os.environ)).output)\n"
    )

    result = subprocess.run([sys.executable, "-c", code], input="ours", capture_output=True, text=True, check=True)

    assert result.stdout.strip() == "'' True"


async def test_output_is_bounded_and_its_end_is_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a program that writes a lot the last part is kept, because that is where the reason stands."""
    monkeypatch.setattr(processes, "OUTPUT_LIMIT", 1000)

    result = await run_command(["sh", "-c", "seq 1 20000; echo the end"], timeout=60, env=os.environ)

    assert len(result.output) == 1000
    assert result.output.endswith("20000\nthe end\n")


async def test_a_program_that_is_not_there_is_an_os_error() -> None:
    """What cannot be started raises OSError, and nothing hangs."""
    with pytest.raises(FileNotFoundError):
        await run_command(["no-such-program"], timeout=60, env=os.environ)


async def test_a_deadline_ends_the_whole_tree(tmp_path: Path, is_gone: Gone) -> None:
    """A program that takes too long is killed with everything it started, and what it said is kept."""
    for seconds in (1, 8, 64):  # more than once only on a machine that is very busy
        with pytest.raises(CommandTimeoutError, match=f"sh took longer than {seconds} s and was stopped") as caught:
            await run_command(
                ["sh", "-c", f"{TREE.replace('wait;', 'echo working; wait;')}"],
                timeout=seconds,
                env=os.environ,
                cwd=tmp_path,
                because="it is ours",
            )
        if caught.value.output:
            break

    assert caught.value.output == "working\n"
    assert caught.value.code == "command_timeout"
    assert all(is_gone(pid) for pid in tree(tmp_path))


async def test_cancelling_ends_the_whole_tree(tmp_path: Path, is_gone: Gone, until: Until) -> None:
    """When the caller is cancelled, the program and its children are gone before that is passed on."""
    running = asyncio.ensure_future(
        run_command(["sh", "-c", TREE], timeout=1000, env=os.environ, cwd=tmp_path, because="it is ours")
    )
    assert await asyncio.to_thread(until, (tmp_path / "parent").exists)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    assert all(is_gone(pid) for pid in tree(tmp_path))


@pytest.mark.parametrize("turns", range(4))
async def test_cancelling_while_a_program_starts(tmp_path: Path, turns: int, is_gone: Gone) -> None:
    """A caller that is cancelled while the program is being started leaves none behind, and does not hang."""
    running = asyncio.ensure_future(
        run_command(
            ["sh", "-c", "echo $$ > started; sleep 1000"],
            timeout=1000,
            env=os.environ,
            cwd=tmp_path,
            because="it is ours",
        )
    )
    for _ in range(turns):
        await asyncio.sleep(0)

    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running

    started = tmp_path / "started"
    pid = started.read_text(encoding="utf-8").strip() if started.exists() else ""
    assert not pid or is_gone(int(pid))


async def test_a_program_that_leaves_another_behind_has_ended(tmp_path: Path, is_gone: Gone) -> None:
    """The end of the program counts, also when one that it left in the background keeps its output open."""
    result = await run_command(["sh", "-c", "sleep 1000 & echo $!"], timeout=500, env=os.environ)
    left = int(result.output)
    os.kill(left, signal.SIGKILL)

    assert result.returncode == 0
    assert is_gone(left)


async def test_the_event_loop_goes_on_and_many_run_at_the_same_time(tmp_path: Path) -> None:
    """Twenty programs that wait for each other all come to an end, so they run at the same time."""
    script = 'touch "$0"; while [ $(ls | wc -l) -lt 20 ]; do sleep 0.02; done'

    results = await asyncio.gather(
        *(
            run_command(
                ["sh", "-c", script, str(number)], timeout=300, env=os.environ, cwd=tmp_path, because="it is ours"
            )
            for number in range(20)
        )
    )

    assert [result.returncode for result in results] == [0] * 20


def interrupted(program: subprocess.Popen[bytes]) -> bytes:
    """Press Ctrl-C until a program ends, and return what it says.

    Once is not always enough: Python handles a signal that comes just before it begins to wait when the wait is over.
    """
    for _ in range(5):
        program.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            return program.communicate(timeout=30)[1]
    raise AssertionError("the program does not end")


def test_an_interrupt_ends_the_whole_tree(tmp_path: Path, is_gone: Gone, until: Until) -> None:
    """Ctrl-C in a program that runs another one leaves nothing of it behind."""
    # Tests that a shell runs in the background ignore SIGINT, and so would the program.
    code = (
        "import asyncio, os, signal, sys\n"
        "from amplifier_kit.guard.processes.launch import run_command\n"
        "signal.signal(signal.SIGINT, signal.default_int_handler)\n"
        "options = {'timeout': 1000, 'env': os.environ, 'cwd': os.getcwd(), 'because': 'it is ours'}\n"
        "asyncio.run(run_command(['sh', '-c', sys.argv[1]], **options))\n"
    )
    command = [sys.executable, "-c", code, TREE]
    with subprocess.Popen(command, cwd=tmp_path, stderr=subprocess.PIPE, start_new_session=True) as program:
        try:
            assert until(lambda: (tmp_path / "parent").exists())
            errors = interrupted(program)
        finally:
            program.kill()

    assert b"KeyboardInterrupt" in errors
    assert all(is_gone(pid) for pid in tree(tmp_path))


def test_input_is_written_and_streams_can_be_split(tmp_path: Path) -> None:
    """A program reads all of its input, however long, and stdout and stderr are apart when asked for."""
    data = b"0123456789abcdef" * 65_536
    result = processes.run_program(
        ["sh", "-c", "cat; echo done >&2"],
        timeout=60,
        environment={"PATH": os.defpath},
        data=data,
        is_split=True,
        limit=len(data),
    )
    assert (result.returncode, result.stdout == data, result.stderr) == (0, True, b"done\n")


def test_a_program_may_leave_its_input_unread() -> None:
    """A program that ends without reading its input has its own exit code."""
    result = processes.run_program(
        ["sh", "-c", "exec 0<&-; exit 4"], timeout=60, environment={"PATH": os.defpath}, data=b"x" * 1_000_000
    )
    assert result.returncode == 4


def test_output_can_be_read_as_it_comes() -> None:
    """`on_stdout` gets every piece of stdout, which is not kept; stderr is."""
    pieces: list[bytes] = []

    def take(data: bytes) -> bool:
        pieces.append(data)
        return False

    script = "i=0; while [ $i -lt 9 ]; do echo line $i; i=$((i+1)); done; echo bad >&2; exit 4"
    result = run_program(
        ["/bin/sh", "-c", script],
        timeout=60,
        environment={"PATH": os.defpath},
        is_split=True,
        on_stdout=take,
    )
    assert (result.returncode, result.stdout, result.stderr) == (4, b"", b"bad\n")
    assert b"".join(pieces) == b"".join(b"line %d\n" % number for number in range(9))


def test_a_program_that_has_written_enough_is_killed() -> None:
    """When `on_stdout` returns True, the program ends, and nothing more is handed over."""
    pieces: list[bytes] = []

    def take(data: bytes) -> bool:
        pieces.append(data)
        return len(pieces) == 2

    result = run_program(
        ["/bin/sh", "-c", "while :; do echo line; done"],
        timeout=60,
        environment={"PATH": os.defpath},
        on_stdout=take,
    )
    assert result.returncode == -signal.SIGKILL
    assert len(pieces) == 2


def test_a_program_that_is_stopped_keeps_what_went_to_stderr() -> None:
    """The error of a program that did not end has its stderr, where the reason may be."""
    stop = threading.Event()
    pieces: list[bytes] = []

    def take(data: bytes) -> bool:
        pieces.append(data)
        stop.set()
        return False

    script = "echo waiting for the disk >&2; echo ready; exec sleep 1000"
    with pytest.raises(CommandTimeoutError) as caught:
        run_program(
            ["/bin/sh", "-c", script],
            timeout=60,
            environment={"PATH": os.defpath},
            is_split=True,
            on_stdout=take,
            stop=stop,
        )
    assert pieces == [b"ready\n"]
    assert caught.value.stderr == b"waiting for the disk\n"


def test_a_killed_program_is_waited_for_with_what_it_has_started(tmp_path: Path) -> None:
    """A process in another session that ends some time after the program was killed is gone when the call returns."""
    ready = tmp_path / "ready"
    follows = (
        "import os, pathlib, time\nabove = os.getppid()\n"
        f"pathlib.Path({str(ready)!r}).write_text(str(os.getpid()))\n"
        "while os.getppid() == above: time.sleep(0.01)\ntime.sleep(0.3)"
    )
    starts = (
        "import subprocess, sys, time\n"
        f"subprocess.Popen([sys.executable, '-c', {follows!r}], start_new_session=True)\ntime.sleep(600)"
    )
    stop = threading.Event()

    def stop_when_ready() -> None:
        while not ready.exists() or not ready.read_text():
            time.sleep(0.01)
        stop.set()

    waiting = threading.Thread(target=stop_when_ready)
    waiting.start()
    with pytest.raises(CommandTimeoutError):
        run_program([sys.executable, "-c", starts], timeout=60, environment={}, stop=stop, ends_with_descendants=True)
    waiting.join()
    assert running([int(ready.read_text())]) == []
