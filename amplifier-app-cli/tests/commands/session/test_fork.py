"""`amplifier session fork`, `export` and `rename`."""

from __future__ import annotations

import io
import json
import os
import stat
import subprocess
import tarfile
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from click.testing import Result

from amplifier_foundation.paths import Home

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"


def test_a_fork_can_be_resumed_with_the_command_that_is_printed(amplifier: Amplifier) -> None:
    """A session of two turns is forked at the first; the fork goes on and the original stays as it was."""
    assert amplifier("run", "first").returncode == 0
    session_id = json.loads(amplifier("session", "list", "--format", "json").stdout)["sessions"][0]["id"]
    assert amplifier("run", "--resume", session_id, "second").returncode == 0
    forked = amplifier("session", "fork", session_id, "--at-turn", "1", "--name", "another way")
    assert forked.returncode == 0, forked.stderr
    fork_id = forked.stdout.strip()
    assert f"amplifier run --resume {fork_id}" in forked.stderr
    resumed = amplifier("run", "--resume", fork_id, "third")
    assert resumed.returncode == 0, resumed.stderr
    by_id = {one["id"]: one for one in json.loads(amplifier("session", "list", "--format", "json").stdout)["sessions"]}
    assert (by_id[fork_id]["turn_count"], by_id[fork_id]["name"]) == (2, "another way")
    assert (by_id[fork_id]["parent_id"], by_id[fork_id]["is_fork"]) == (session_id, True)
    assert by_id[session_id]["turn_count"] == 2


def test_a_fork_at_an_event_and_without_events(amplifier: Amplifier, home: Home, project: Path) -> None:
    """A fork may be cut at an event, and may be made without the log."""
    assert amplifier("run", "first").returncode == 0
    (folder,) = home.sessions(project).iterdir()
    events = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    seq = next(event["seq"] for event in events if event["event"] == "prompt:submit")
    forked = amplifier("session", "fork", folder.name, "--at-event", str(seq), "--format", "json")
    record = json.loads(forked.stdout)
    assert (record["turns"], record["messages"], record["parent_id"]) == (1, 1, folder.name)
    assert record["events"] > 0
    assert record["resume"][-1] == record["id"]
    assert (
        json.loads(amplifier("session", "fork", folder.name, "--no-events", "--format", "json").stdout)["events"] == 0
    )


def test_what_cannot_be_forked_is_refused_and_leaves_nothing(give: Give, made: Made) -> None:
    """A turn or event that is not there, both at once, and a name that is taken leave no half-made session."""
    folder = made(ONE, "first")
    made(TWO, "x", name="taken")
    cases = {
        ("--at-turn", "7"): (1, "turn 7 does not exist: the conversation has turns 1 to 1"),
        ("--at-turn", "0"): (2, "0 is not in the range"),
        ("--at-event", "99"): (1, "99"),
        ("--at-turn", "1", "--at-event", "1"): (2, "give one of them"),
        ("--name", "taken"): (1, f"the name 'taken' is taken by session {TWO}"),
        ("--name", "n" * 51): (1, "1 to 50 printable characters"),
    }
    for arguments, (code, reason) in cases.items():
        result = give("fork", ONE, *arguments)
        assert result.exit_code == code
        assert reason in result.stderr
        assert result.stdout == ""
    assert sorted(path.name for path in folder.parent.iterdir() if path.is_dir()) == [ONE, TWO]


def test_a_session_is_found_by_the_name_it_was_given(amplifier: Amplifier, made: Made) -> None:
    """A rename is shown by the next list, and an empty name takes it away."""
    made(ONE, "first")
    renamed = amplifier("session", "rename", ONE[:6], "the garden")
    assert (renamed.returncode, renamed.stdout) == (0, "")
    assert "'the garden'" in renamed.stderr
    assert "the garden" in amplifier("session", "list").stdout
    assert json.loads(amplifier("session", "rename", "the garden", "", "--format", "json").stdout)["name"] is None
    assert amplifier("session", "show", "the garden").returncode == 1


def test_a_name_that_is_taken_is_refused(give: Give, made: Made) -> None:
    """Two sessions of a project never have one name."""
    made(ONE, "x", name="taken")
    made(TWO, "x")
    result = give("rename", TWO, "taken")
    assert result.exit_code == 1
    assert ONE in result.stderr


@pytest.mark.parametrize(("form", "ending"), [("md", "md"), ("json", "json"), ("jsonl", "jsonl"), ("tar", "tar.gz")])
def test_an_export_is_written_under_the_id(give: Give, made: Made, project: Path, form: str, ending: str) -> None:
    """Without a file the export lies in the current folder, readable by its owner alone, and its path is printed."""
    made(ONE, "first")
    result = give("export", ONE[:5], "--as", form)
    assert result.stdout == f"{ONE}.{ending}\n"
    path = project / f"{ONE}.{ending}"
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    if form == "tar":
        with tarfile.open(path) as archive:
            assert f"{ONE}/transcript.jsonl" in archive.getnames()
    else:
        assert "An answer to first" in path.read_text(encoding="utf-8")


def test_an_export_never_overwrites_unless_told(give: Give, made: Made, project: Path) -> None:
    """A file that exists is kept; `--force` replaces it; the ending tells the format, no ending is md."""
    made(ONE, "first")
    target = project / "out.json"
    target.write_text("mine", encoding="utf-8")
    refused = give("export", ONE, "-o", "out.json")
    assert refused.exit_code == 1
    assert "exists already" in refused.stderr
    assert target.read_text(encoding="utf-8") == "mine"
    assert give("export", ONE, "-o", "out.json", "-f").exit_code == 0
    assert json.loads(target.read_text(encoding="utf-8"))["session_id"] == ONE
    assert give("export", ONE, "-o", "plain").exit_code == 0
    assert (project / "plain").read_text(encoding="utf-8").startswith("# first")
    (project / "folder").mkdir()
    assert give("export", ONE, "-o", "folder").stdout == f"folder/{ONE}.md\n"
    unknown = give("export", ONE, "-o", "out.pdf")
    assert unknown.exit_code == 1
    assert "which format" in unknown.stderr


def test_an_export_to_standard_output_is_the_export_alone(amplifier: Amplifier, made: Made, project: Path) -> None:
    """`-o -` prints nothing but the export, in every format, and writes no file."""
    made(ONE, "first \x1b[31mred")
    lines = amplifier("session", "export", ONE, "--as", "jsonl", "-o", "-").stdout.splitlines()
    assert [json.loads(line)["role"] for line in lines] == ["user", "assistant"]
    assert json.loads(amplifier("session", "export", ONE, "--as", "json", "-o", "-").stdout)["session_id"] == ONE
    text = amplifier("session", "export", ONE, "-o", "-").stdout
    assert "first red" in text
    assert "\x1b" not in text
    assert list(project.iterdir()) == []


def test_an_archive_on_standard_output_can_be_unpacked(
    made: Made, project: Path, start: Callable[..., subprocess.Popen[Any]]
) -> None:
    """`--as tar -o -` is a whole archive, byte for byte."""
    made(ONE, "first")
    process = start("session", "export", ONE, "--as", "tar", "-o", "-", text=False)
    archived, error = process.communicate(timeout=60)
    assert process.returncode == 0, error
    with tarfile.open(fileobj=io.BytesIO(archived)) as archive:
        assert f"{ONE}/metadata.json" in archive.getnames()
    assert os.listdir(project) == []
