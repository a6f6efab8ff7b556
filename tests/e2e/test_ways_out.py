"""However a run ends, its log is closed and its exit code says how."""

import json
import os
import signal
import subprocess
import time
from typing import Any

import pytest

CLOSING = ("execution:end", "session:end")

BROKEN_LOOP = """
    __amplifier_module_type__ = "orchestrator"

    class Loop:
        async def execute(self, prompt, context, providers, tools, hooks, coordinator=None, **_):
            raise {error}

    async def mount(coordinator, config=None):
        await coordinator.mount("orchestrator", Loop())
"""


def _check_closed(project: Any) -> None:
    events = project.events()
    assert [events.count(event) for event in CLOSING] == [1, 1], events
    assert events[-1] == "session:end"


def test_a_reader_that_goes_away(project: Any) -> None:
    """`amplifier run | head -c1`: the run goes on quietly, and its log is whole."""
    project.script([{"text": "word " * 2000}, {"text": "more"}])
    process = project.start("run", "--quiet", "--bundle", "bundle.yaml", "go")
    assert process.stdout is not None
    assert process.stdout.read(1) == "w"
    process.stdout.close()
    assert process.stderr is not None
    error = process.stderr.read()
    assert process.wait(60) == 0, error
    assert error == ""
    process.stderr.close()
    _check_closed(project)


def test_a_full_standard_output_is_a_failure(project: Any) -> None:
    """An answer that could not be printed is no success, and standard error says so."""
    project.script([{"text": "The answer."}])
    with open("/dev/full", "w") as full:
        done = project.go(stdout=full)
    assert done.returncode == 1
    assert "the answer could not be printed" in done.stderr
    assert "Traceback" not in done.stderr
    _check_closed(project)


def test_both_streams_gone(project: Any) -> None:
    """With nobody to tell anything to, the run ends as it would have."""
    project.script([{"text": "The answer."}])
    done = subprocess.run(
        ["sh", "-c", '"$@" >&- 2>&-', "sh", *project.command("run", "--bundle", "bundle.yaml", "go")],
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        timeout=60,
        check=False,
    )
    assert done.returncode == 0
    _check_closed(project)


def test_interrupted_twice(project: Any) -> None:
    """The first SIGINT waits for the current step, the second does not; the log says so and is closed."""
    project.script([{"text": "late", "delay_ms": 60_000}])
    process = project.start("run", "--quiet", "--bundle", "bundle.yaml", "go")
    project.wait_for_event("llm:request")
    process.send_signal(signal.SIGINT)
    assert process.stderr is not None
    assert process.stderr.readline() == "\n"
    assert "press Ctrl-C again" in process.stderr.readline()
    process.send_signal(signal.SIGINT)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (130, ""), error
    assert "Traceback" not in error
    _check_closed(project)
    assert "cancel:completed" in project.events()


def test_a_session_that_cannot_be_closed(project: Any) -> None:
    """A third SIGINT ends a process whose modules do not let go."""
    project.module(
        "tool-sticky",
        """
        import asyncio
        from pathlib import Path
        from amplifier_core import ToolResult

        class Sticky:
            name = "sticky"
            description = "Do nothing"
            input_schema = {"type": "object", "properties": {}}

            async def execute(self, input):
                return ToolResult(output="")

        async def stick():
            while True:
                Path("sticking").touch()
                try:
                    await asyncio.sleep(60)
                except asyncio.CancelledError:
                    pass

        async def mount(coordinator, config=None):
            await coordinator.mount("tools", Sticky())
            return stick
        """,
    )
    project.script([{"text": "The answer."}], modules=("tool-sticky",))
    process = project.start("run", "--bundle", "bundle.yaml", "go")
    while not (project.folder / "sticking").exists():
        assert process.poll() is None
        time.sleep(0.01)
    for _ in range(600):
        if process.poll() is None:
            process.send_signal(signal.SIGINT)
            time.sleep(0.1)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (-signal.SIGINT, "The answer.\n"), error
    _check_closed(project)


def test_terminated_before_it_is_ready(project: Any) -> None:
    """SIGTERM while modules are still being mounted ends the run with its own exit code."""
    project.module(
        "tool-slow",
        """
        import asyncio
        from pathlib import Path

        async def mount(coordinator, config=None):
            Path("mounting").touch()
            await asyncio.sleep(60)
        """,
    )
    project.script([{"text": "never"}], modules=("tool-slow",))
    process = project.start("run", "--bundle", "bundle.yaml", "go")
    while not (project.folder / "mounting").exists():
        assert process.poll() is None
        time.sleep(0.01)
    process.send_signal(signal.SIGTERM)
    out, error = process.communicate(timeout=60)
    assert (process.returncode, out) == (143, ""), error
    assert "Traceback" not in error


@pytest.mark.parametrize(
    ("error", "said"),
    [
        ("ValueError('the loop is broken')", "amplifier: ValueError: the loop is broken"),
        ("KeyError('gone')", "amplifier: KeyError: 'gone'"),
        ("RuntimeError('no more')", "amplifier: no more"),
        ("ExceptionGroup('several', [ValueError('a')])", "amplifier: ExceptionGroup: several"),
    ],
)
def test_a_loop_that_raises(project: Any, error: str, said: str) -> None:
    """An exception is one line on standard error and exit code 1; the turn and the session are closed in the log."""
    project.module("loop-broken", BROKEN_LOOP.format(error=error))
    project.script([])
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(bundle.read_text().replace("loop-basic", "loop-broken"))
    done = project.go()
    assert (done.returncode, done.stdout) == (1, "")
    assert said in done.stderr
    assert "Traceback" not in done.stderr
    assert "log: " in done.stderr
    assert project.events()[-1] == "session:end"


def test_an_orchestrator_that_is_missing(project: Any) -> None:
    """A session without a loop cannot run at all: exit code 6, and no advice that would not help."""
    project.script([])
    bundle = project.folder / "bundle.yaml"
    bundle.write_text(bundle.read_text().replace("loop-basic", "loop-absent"))
    for extra in ([], ["--allow-missing-modules"]):
        done = project.run("run", "--bundle", "bundle.yaml", *extra, "go")
        assert done.returncode == 6, done.stderr
        assert "loop-absent" in done.stderr
        assert "run with --allow-missing-modules" not in done.stderr


def test_a_model_that_steers_the_terminal(project: Any) -> None:
    """Escapes, control characters and reversing marks of a model reach neither the answer nor the readable log."""
    nasty = "a\x1b]0;title\x07b\x1b[31mc\x9b2Jd\re\u202ef\x08 end"
    project.script([{"text": nasty}])
    done = project.run("run", "--bundle", "bundle.yaml", nasty)
    assert (done.returncode, done.stdout) == (0, "abc2Jdef end\n"), done.stderr
    for arguments in (["logs"], ["logs", "--json"]):
        shown = project.run(*arguments).stdout
        assert shown
        assert not set(shown) & {*map(chr, range(0x0A)), *map(chr, range(0x0B, 0x20)), *map(chr, range(0x7F, 0xA0))}
    records = [json.loads(line) for line in project.run("logs", "--json").stdout.splitlines()]
    [prompt] = [record["data"]["prompt"] for record in records if record["event"] == "prompt:submit"]
    assert prompt == nasty


def test_text_that_cannot_be_encoded(project: Any) -> None:
    """Neither a terminal without the characters nor a prompt that is no UTF-8 brings the run down."""
    project.script([{"text": "Grüße ✓"}])
    project.environment["PYTHONIOENCODING"] = "ascii"
    done = subprocess.run(
        [os.fsencode(word) for word in project.command("run", "--bundle", "bundle.yaml")] + [b"caf\xe9"],
        cwd=project.folder,
        env=project.environment,
        stdin=subprocess.DEVNULL,
        capture_output=True,
        timeout=60,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, b"Gr??e ?\n"), done.stderr
    assert project.run("logs").returncode == 0
    _check_closed(project)


def test_piped_bytes_that_are_no_text(project: Any) -> None:
    """What is piped in and is no UTF-8 is read as far as it can be."""
    project.script([{"text": "ok", "expect": {"contains": "caf"}}])
    (project.folder / "question").write_bytes(b"caf\xe9\n")
    with (project.folder / "question").open() as question:
        done = project.run("run", "--bundle", "bundle.yaml", stdin=question)
    assert (done.returncode, done.stdout) == (0, "ok\n"), done.stderr


def test_logs_for_a_reader_that_goes_away(project: Any) -> None:
    """`amplifier logs | head -c1` ends without a traceback."""
    project.script([{"text": "The answer."}])
    assert project.go().returncode == 0
    process = project.start("logs", "--json")
    assert process.stdout is not None
    process.stdout.read(1)
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == ""
    process.stderr.close()
    process.wait(60)


@pytest.mark.parametrize("name", ["/etc", "../..", "*", "\x1b[31m"])
def test_logs_of_a_strange_name(project: Any, name: str) -> None:
    """A name that is no id finds nothing, and says so safely."""
    done = project.run("logs", name)
    assert (done.returncode, done.stdout) == (2, "")
    assert "no session matches" in done.stderr
    assert "\x1b" not in done.stderr
