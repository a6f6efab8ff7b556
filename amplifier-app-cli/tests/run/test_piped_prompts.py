"""What is piped in beside a prompt is sent with it, as data."""

from __future__ import annotations

import json
import os
import socket
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Scripted = Callable[..., str]


def _prompts(amplifier: Amplifier) -> list[str]:
    lines = amplifier("logs", "--json", "--event", "prompt:submit").stdout.splitlines()
    return [json.loads(line)["data"]["prompt"] for line in lines]


def test_both_are_sent(amplifier: Amplifier, scripted: Scripted) -> None:
    """The prompt stands before what was piped in; a prompt without anything piped in is sent as it is."""
    bundle = scripted("turns: [{text: Done.}]")
    assert amplifier("run", "Review this", "--bundle", bundle, stdin="+ one\n- two\n").returncode == 0
    assert _prompts(amplifier) == ["Review this\n\n+ one\n- two"]
    scripted("turns: [{text: Done.}]")
    assert amplifier("continue", "And this", stdin="+ three\n").returncode == 0
    assert _prompts(amplifier)[1:] == ["And this\n\n+ three"]
    for nothing in ("", "\n \n"):
        scripted("turns: [{text: Done.}]")
        assert amplifier("run", "Review this", "--bundle", bundle, stdin=nothing).returncode == 0
        assert _prompts(amplifier) == ["Review this"]


def test_piped_text_mentions_nothing(amplifier: Amplifier, scripted: Scripted, project: Path) -> None:
    """An `@` in it is a character, also for a file that the prompt itself could bring, and in files that it brings."""
    (project / "secret.txt").write_text("the secret", encoding="utf-8")
    (project / "notes.md").write_text("more in @secret.txt", encoding="utf-8")
    bundle = scripted("turns: [{text: Done.}]")
    amplifier("run", "Look at @notes.md", "--bundle", bundle, stdin="see @secret.txt and @./secret.txt\n")
    (prompt,) = _prompts(amplifier)
    assert "more in @secret.txt" in prompt
    assert "see @secret.txt" in prompt
    assert "the secret" not in prompt


@pytest.mark.parametrize("content", [b"caf\xe9\xff", b"\xef\xbb\xbfplain", "line\r\nline".encode("utf-16")])
def test_bytes_that_are_no_text_do_not_fail(content: bytes, amplifier: Amplifier, scripted: Scripted) -> None:
    """What is not UTF-8 is replaced, and a byte order mark is left out."""
    bundle = scripted("turns: [{text: Done.}]")
    assert amplifier("run", "Read", "--bundle", bundle, stdin=content).returncode == 0
    assert "\ufeff" not in _prompts(amplifier)[0]


@pytest.mark.parametrize("prompt", ["Review this", "-"])
def test_too_much_is_refused(amplifier: Amplifier, scripted: Scripted, prompt: str) -> None:
    """More than the limit is a usage error that names the limit and the option; nothing is sent."""
    bundle = scripted("turns: [{text: Done.}]")
    much = "x" * 1_000_001
    result = amplifier("run", prompt, "--bundle", bundle, "--max-stdin", "1", stdin=much)
    assert result.returncode == 2
    assert "longer than 1 MB" in result.stderr
    assert "--max-stdin" in result.stderr
    assert json.loads(amplifier("session", "list", "--json").stdout)["total"] == 0
    assert amplifier("run", prompt, "--bundle", bundle, "--max-stdin", "1", stdin=much[1:]).returncode != 2


def _run(
    scripted: Scripted, project: Path, environment: dict[str, str], stdin: int
) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        [sys.executable, "-m", "amplifier_app_cli", "run", "Go", "--bundle", scripted("turns: [{text: Done.}]")],
        stdin=stdin,
        capture_output=True,
        text=True,
        cwd=project,
        env=environment,
        timeout=60,
    )


def test_a_silent_socket_is_not_waited_for(
    scripted: Scripted, project: Path, environment: dict[str, str], amplifier: Amplifier
) -> None:
    """Programs that start others often leave one open; what comes through one at once is read."""
    ours, theirs = socket.socketpair()
    with ours, theirs:
        result = _run(scripted, project, environment, theirs.fileno())
        assert (result.returncode, result.stdout) == (0, "Done.\n"), result.stderr
        ours.sendall(b"+ one\n")
        ours.shutdown(socket.SHUT_WR)
        assert _run(scripted, project, environment, theirs.fileno()).returncode == 0
    assert _prompts(amplifier) == ["Go\n\n+ one"]


def test_a_slow_pipe_is_read_to_its_end(
    scripted: Scripted, project: Path, environment: dict[str, str], amplifier: Amplifier
) -> None:
    """Nothing of it is lost, and the user is told what is waited for."""
    slow = subprocess.Popen(["sh", "-c", "sleep 3; echo late"], stdout=subprocess.PIPE)
    assert slow.stdout is not None
    with slow:
        result = _run(scripted, project, environment, slow.stdout.fileno())
    assert "reading standard input to its end" in result.stderr
    assert _prompts(amplifier) == ["Go\n\nlate"]


def test_a_device_is_not_read(scripted: Scripted, project: Path, environment: dict[str, str]) -> None:
    """The null device, and any other, is no pipe."""
    with open(os.devnull, "rb") as file:
        assert _run(scripted, project, environment, file.fileno()).returncode == 0
