"""What can be done with a universe that is there."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest


def test_exec_tells_everything_of_a_command(twin: Any) -> None:
    """The result has both streams, the exit code, the time, and whether it was ended; the program's code says fail."""
    identifier = twin.launch()
    ended = twin.run("exec", identifier, "--", "echo out; echo err >&2; exit 3")
    record = ended.record
    seconds = record.pop("seconds")
    assert seconds > 0
    assert record == {
        "id": identifier,
        "exit_code": 3,
        "stdout": "out\n",
        "stderr": "err\n",
        "timed_out": False,
        "cut": False,
    }
    assert ended.code == 1
    assert twin.run("exec", identifier, "--", "true").code == 0


def test_exec_takes_words_as_they_are_and_a_line_for_the_shell(twin: Any) -> None:
    """Several words are a command with arguments; one is a line for the shell."""
    identifier = twin.launch()
    assert (
        twin.run("exec", identifier, "--", "echo", "$HOME", "a  b", "--user").record["stdout"] == "$HOME a  b --user\n"
    )
    assert twin.run("exec", identifier, "--", "echo $((1 + 1)) | cat").record["stdout"] == "2\n"
    assert twin.run("exec", identifier, "--user", "root", "--", "echo $TWIN_USER").record["stdout"] == "root\n"


def test_exec_ends_a_command_at_its_timeout(twin: Any) -> None:
    """A command that takes too long is ended, and the result says so."""
    identifier = twin.launch()
    ended = twin.run("exec", identifier, "--timeout", "0.3", "--", "sleep", "600")
    assert (ended.code, ended.record["timed_out"]) == (1, True)
    assert twin.run("exec", identifier, "--timeout", "0.3", "--stream", "--", "sleep", "600").code == 124


def test_exec_stream_is_the_command_itself(twin: Any) -> None:
    """With --stream, both streams are passed through byte by byte and the exit code is the command's own."""
    identifier = twin.launch()
    ended = twin.run("exec", identifier, "--stream", "--", r"printf 'a\033b'; echo err >&2; exit 42")
    assert ended == (42, "a\033b", "err\n")
    failed = twin.run("exec", "nobody", "--stream", "--", "true")
    assert (failed.code, failed.stdout) == (125, "")
    assert "there is no universe 'nobody'" in failed.stderr


def test_output_that_is_no_text_is_kept(twin: Any) -> None:
    """Bytes that are no UTF-8 are in the result, in base64 beside a readable form."""
    record = twin.run("exec", twin.launch(), "--", r"printf '\377ok'").record
    assert record["stdout"] == "�ok"
    assert record["stdout_base64"] == "/29r"


def test_large_output_arrives_whole(twin: Any) -> None:
    """Megabytes of output arrive, in the result and as a stream."""
    identifier = twin.launch()
    count = 3_000_000
    command = f"head -c {count} /dev/zero | tr '\\0' x"
    assert len(twin.run("exec", identifier, "--", command).record["stdout"]) == count
    assert len(twin.run("exec", identifier, "--stream", "--", command).stdout) == count


def test_files_are_pushed_and_pulled(twin: Any, tmp_path: Path) -> None:
    """Relative paths are of the folder the program runs in; permissions are octal."""
    identifier = twin.launch()
    source = tmp_path / "süße datei"
    source.write_bytes(b"content")
    assert twin.run("file-push", identifier, str(source), "there", "--mode", "640").record["pushed"] == 1
    assert twin.run("exec", identifier, "--", "stat -c %a there").record["stdout"] == "640\n"
    assert twin.run("file-pull", identifier, "there", str(tmp_path / "back")).record["pulled"] == 1
    assert (tmp_path / "back").read_bytes() == b"content"


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (("file-push", "ID", "/no/such/file", "x"), "file_missing"),
        (("file-push", "ID", "/etc", "x"), "file_missing"),
        (("file-push", "ID", "/etc/passwd", "x", "--mode", "rw"), "bad_argument"),
        (("file-pull", "ID", "x", "/no/such/folder/x"), "file_missing"),
        (("snapshot", "ID", "../x"), "name_invalid"),
        (("exec", "ID"), "usage"),
        (("exec", "ID", "--tiemout", "3", "--", "ls"), "usage"),
    ],
)
def test_what_cannot_be_done_is_told(twin: Any, arguments: tuple[str, ...], code: str) -> None:
    """Mistakes are errors with a code, and nothing happens."""
    identifier = twin.launch()
    ended = twin.run(*(identifier if word == "ID" else word for word in arguments))
    assert (ended.code, ended.record["error"]["code"]) == (2, code)


def test_readiness_is_the_exit_code(twin: Any) -> None:
    """`check-readiness` ends with 1 until the universe is ready."""
    identifier = twin.launch()
    assert twin.run("check-readiness", identifier).code == 1
    twin.run("exec", identifier, "--", "touch ready")
    assert twin.run("check-readiness", identifier).code == 0


def test_update_snapshot_and_reset_are_passed_on(twin: Any) -> None:
    """What is asked for reaches the universe, its progress the terminal, and its result the caller."""
    identifier = twin.launch()
    updated = twin.run("update", identifier)
    assert (updated.record["updated"], "updating" in updated.stderr) == (True, True)
    assert twin.run("snapshot", identifier, "clean").record["snapshot"] == "clean"
    assert twin.run("reset", identifier, "clean").record["reset"] == "clean"
    assert twin.run("reset", identifier).record["reset"] is None


def test_logs_tell_what_happened(twin: Any) -> None:
    """The universe's log has its phases and requests; --tail cuts it and says so."""
    identifier = twin.launch()
    record = twin.run("logs", identifier).record
    assert [entry["phase"] for entry in record["entries"] if entry["event"] == "phase"] == ["launching", "ready"]
    tail = twin.run("logs", identifier, "--tail", "1").record
    assert (len(tail["entries"]), tail["cut"]) == (1, len(record["entries"]) - 1)
    assert twin.run("logs", identifier, "--source", "keeper").record["entries"] == []


def test_logs_follow_until_the_universe_ends(twin: Any, wait_until: Callable[[Any], None]) -> None:
    """With --follow, lines come as they are written, and the program ends with the universe."""
    identifier = twin.launch()
    process = twin.start("logs", identifier, "--follow")
    assert json.loads(process.stdout.readline())["event"] == "keeper_start"
    twin.run("update", identifier)
    while "updating" not in process.stdout.readline():
        pass
    twin.run("destroy", identifier)
    process.communicate(timeout=60)
    assert process.returncode == 0


def test_requests_before_the_launch_is_over_are_refused(twin: Any, wait_until: Callable[[Any], None]) -> None:
    """A universe that is being made says so, and can be destroyed; whoever waits for it is told."""
    process = twin.start("launch", str(twin.profile), "--var", "MODE=slow", "--name", "slow")
    wait_until(lambda: "slow" in twin.notes)
    assert twin.run("exec", "slow", "--", "true").record["error"]["code"] == "not_ready"
    status = twin.run("status", "slow")
    assert (status.code, status.record["phase"]) == (1, "launching")
    assert twin.run("destroy", "slow").code == 0
    stdout, _ = process.communicate(timeout=60)
    assert (process.returncode, json.loads(stdout)["error"]["code"]) == (2, "universe_ended")
    assert twin.universes() == []


def test_running_command_ends_with_the_universe(twin: Any, wait_until: Callable[[Any], None]) -> None:
    """Whoever runs a command in a universe that is destroyed is told, and the command is gone."""
    identifier = twin.launch()
    process = twin.start("exec", identifier, "--stream", "--", "echo begun; sleep 600")
    assert process.stdout.readline() == "begun\n"
    twin.run("destroy", identifier)
    _, stderr = process.communicate(timeout=60)
    assert (process.returncode, "destroyed meanwhile" in stderr) == (125, True)
    assert "killed" in twin.notes
