"""What a run says besides its answer: a line about the provider, one about the log, none in the middle of text."""

from __future__ import annotations

import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from amplifier_testing.llm import Reply
from amplifier_testing.llm.server import ModelServer

Amplifier = Callable[..., subprocess.CompletedProcess[str]]

_STEPS = """
turns:
  - text: I look around first.
    tool_calls: [{id: c1, name: echo, arguments: {word: one}}]
  - {text: The test passes.}
"""
#: A hook that reports something while the first words of an answer are on the line.
_TALKATIVE = """
async def mount(coordinator, config=None):
    async def report(event, data):
        coordinator.display_system.show_message("half of it is here", "info", "hook:talkative")
    coordinator.hooks.register("llm:stream_block_delta", report, priority=960)
"""
_RETRYING = """\
bundle: {name: retrying}
session: {orchestrator: {module: loop-basic}, context: {module: context-simple}}
providers:
  - module: provider-chat-completions
    config: {base_url: URL, min_retry_delay: 0.05, max_retry_delay: 0.1, max_retries: 1}
"""
_UUID = re.compile(r"[0-9a-f]{8}-[0-9a-f]{4}-")


def test_a_run_says_who_answers_and_how_to_see_the_log(amplifier: Amplifier, scripted: Callable[..., str]) -> None:
    """Standard error has two lines that fit into 80 columns, without full ids; the second is a command that works."""
    result = amplifier("run", "go", "--bundle", scripted("turns: [{text: Sure.}]"))
    provider, log = result.stderr.splitlines()
    assert provider == "provider: mock (configured in the bundle)"
    assert log.startswith("log: amplifier logs ")
    assert not _UUID.search(result.stderr)
    shown = amplifier(*log.removeprefix("log: amplifier ").split())
    assert (shown.returncode, "prompt=go" in shown.stdout) == (0, True), shown.stderr


@pytest.mark.parametrize("options", [(), ("--quiet",)])
def test_a_retry_is_shown_with_its_reason(amplifier: Amplifier, project: Path, options: tuple[str, ...]) -> None:
    """A run that waits for another attempt says so at once, and why; with --quiet it does not."""
    with ModelServer() as service:
        service.answers(Reply.error(503, {"error": {"message": "down for a while"}}))
        (project / "bundle.yaml").write_text(_RETRYING.replace("URL", f"{service.url}/v1"), encoding="utf-8")
        result = amplifier(*options, "run", "go", "--bundle", "./bundle.yaml")
    assert result.returncode == 7
    retries = [line for line in result.stderr.splitlines() if line.startswith("retry 1 of 1 in 1 s: ")]
    assert ["down for a while" in line for line in retries] == ([] if options else [True])


def test_the_stand_in_says_how_to_get_a_model(amplifier: Amplifier) -> None:
    """Without a key or a server, the one line says that answers are scripted, and what to do."""
    line = amplifier("run", "go").stderr.splitlines()[0]
    assert line == "provider: mock (scripted answers, no model); for a real model: `amplifier init`"
    assert len(line) < 80


def test_verbose_has_the_whole_reason_and_the_path(amplifier: Amplifier) -> None:
    """With -v the reason of the choice is complete, and the log's file is named."""
    stderr = amplifier("-v", "run", "go").stderr
    assert "provider: mock (scripted answers, since no key is set" in stderr
    assert re.search(r"^log: .*/events\.jsonl$", stderr, re.MULTILINE)


def test_quiet_prints_the_final_answer_alone(amplifier: Amplifier, scripted: Callable[..., str], echo: str) -> None:
    """What the model says on the way is printed without --quiet only."""
    bundle = scripted(_STEPS, echo)
    loud = amplifier("run", "go", "--bundle", bundle)
    assert loud.stdout == "I look around first.\nThe test passes.\n"
    quiet = amplifier("-q", "run", "go", "--bundle", bundle)
    assert (quiet.stdout, quiet.stderr) == ("The test passes.\n", "")


def test_text_and_status_lines_never_share_a_line(
    amplifier_process: Amplifier,
    popen: Callable[..., subprocess.Popen[str]],
    project: object,
    environment: dict[str, str],
    scripted: Callable[..., str],
    add_module: Callable[[str, str], None],
) -> None:
    """Where both streams go to one place, an open line of the answer is ended before a message."""
    add_module("hooks-talkative", _TALKATIVE)
    bundle = scripted("turns: [{text: One two three.}]", "  - {module: hooks-talkative}\n")
    arguments = [sys.executable, "-m", "amplifier_app_cli", "run", "go", "--bundle", bundle]
    merged = {"stdout": subprocess.PIPE, "stderr": subprocess.STDOUT, "stdin": subprocess.DEVNULL}
    with popen(arguments, cwd=project, env=environment, text=True, **merged) as process:
        out, _ = process.communicate(timeout=60)
    assert process.returncode == 0, out
    assert out.splitlines()[1:-1] == [
        "One ",
        "half of it is here",
        "two ",
        "half of it is here",
        "three.",
        "half of it is here",
    ]
    apart = amplifier_process("run", "go", "--bundle", bundle)
    assert apart.stdout == "One two three.\n"
