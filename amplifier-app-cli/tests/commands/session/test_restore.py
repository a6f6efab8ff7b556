"""`amplifier session restore`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import Result
from jsonschema import Draft202012Validator

from amplifier_foundation.sessions.checkpoints import Checkpoints
from amplifier_kit.log.record import schema
from amplifier_kit.log.writer import SessionLog

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"


@pytest.fixture
def written(made: Made, project: Path) -> Path:
    """Return the folder of a session that has written `kept` twice, in two turns, and made `new/file`."""
    folder = made(ONE, "first", "second")
    (project / "kept").write_text("0", encoding="utf-8")
    checkpoints = Checkpoints(folder)
    for turn, name, content in ((1, "kept", "1"), (2, "kept", "2"), (2, "new/file", "3")):
        checkpoints.turn = turn
        checkpoints.before_write(project / name, tool="write_file", tool_call_id=f"call-{turn}")
        (project / name).parent.mkdir(exist_ok=True)
        (project / name).write_text(content, encoding="utf-8")
        checkpoints.after_write(project / name)
    return folder


def _kept(project: Path) -> str:
    return (project / "kept").read_text(encoding="utf-8")


def test_checkpoints_are_listed(amplifier: Amplifier, written: Path, project: Path) -> None:
    """Each write has its id, turn, tool and file; giving no checkpoint lists them too."""
    result = amplifier("session", "restore", ONE[:4], "--list")
    assert result.returncode == 0, result.stderr
    rows = [line.split() for line in result.stdout.splitlines()[1:]]
    assert [(row[0], row[3], row[4], row[5]) for row in rows] == [
        ("c1", "1", "write_file", "changed"),
        ("c2", "2", "write_file", "changed"),
        ("c3", "2", "write_file", "created"),
    ]
    assert rows[2][-1] == str(project / "new/file")
    assert amplifier("session", "restore", ONE).stdout == result.stdout
    document = json.loads(amplifier("session", "restore", ONE, "--list", "--format", "json").stdout)
    assert document["checkpoints"][0]["files"][0]["path"] == str(project / "kept")
    assert document["checkpoints"][2]["files"][0]["before"]["kind"] == "absent"


def test_a_restore_can_be_undone(amplifier: Amplifier, written: Path, project: Path) -> None:
    """Restoring to a checkpoint puts back everything since, and names the checkpoint that undoes it."""
    result = amplifier("session", "restore", ONE, "c2", "--yes")
    assert result.returncode == 0, result.stderr
    assert f"put back {project}/kept" in result.stdout
    assert f"removed {project}/new/file" in result.stdout
    assert "restore to c4" in result.stderr
    assert _kept(project) == "1"
    assert not (project / "new").exists()
    assert "undone" in amplifier("session", "restore", ONE).stdout
    again = json.loads(amplifier("session", "restore", ONE, "c4", "--yes", "--format", "json").stdout)
    assert again["restored_to"] == "c4"
    assert _kept(project) == "2"
    assert (project / "new/file").exists()


def _validated(folder: Path) -> list[dict[str, Any]]:
    """Return the lines of a log, each of which is of the published schema."""
    lines = [json.loads(line) for line in (folder / "events.jsonl").read_text(encoding="utf-8").splitlines()]
    for line in lines:
        Draft202012Validator(schema()).validate(line)
    return lines


def test_a_restore_is_an_event(give: Give, written: Path, project: Path) -> None:
    """The log of the session says which files were put back and removed, and to which checkpoint."""
    assert give("restore", ONE, "c2", "--yes").exit_code == 0
    [line] = _validated(written)
    assert (line["event"], line["session_id"], line["component"]) == ("session:restore", ONE, "app")
    expected = {"checkpoint": "c4", "restored_to": "c2", "left": []}
    assert line["data"] == {
        **expected,
        "put_back": [str(project / "kept")],
        "removed": [str(project / "new/file")],
    }
    assert give("restore", ONE, "c2", "--dry-run").exit_code == 0
    assert len(_validated(written)) == 1


def test_a_restore_of_a_running_session(give: Give, written: Path, project: Path) -> None:
    """Files are restored while the session runs; that its log does not have it is said."""
    with SessionLog(written):
        result = give("restore", ONE, "c2", "--yes")
    assert result.exit_code == 0
    assert _kept(project) == "1"
    assert "note: the session is running, so its log does not have this" in result.stderr


def test_the_last_turn_is_undone_turn_after_turn(give: Give, written: Path, project: Path) -> None:
    """`--last-turn` undoes the second turn, then the first, then nothing."""
    give("restore", ONE, "--last-turn", "-y")
    assert _kept(project) == "1"
    give("restore", ONE, "--last-turn", "-y")
    assert _kept(project) == "0"
    result = give("restore", ONE, "--last-turn", "-y")
    assert result.exit_code == 0
    assert "no files that are not restored already" in result.stderr


def test_nothing_is_changed_without_a_word_from_the_user(give: Give, written: Path, project: Path) -> None:
    """Without a terminal the command ends with 2 and names the flag; a dry run shows what would be."""
    refused = give("restore", ONE, "c1")
    assert (refused.exit_code, refused.stdout) == (2, "")
    assert "--yes" in refused.stderr
    dry = give("restore", ONE, "c1", "--dry-run")
    assert dry.exit_code == 0
    assert dry.stdout.splitlines() == [f"put back {project}/kept", f"remove {project}/new/file"]
    assert _kept(project) == "2"


def test_a_person_is_asked(written: Path, project: Path, at_terminal: Callable[..., Any]) -> None:
    """On a terminal the files are shown before the question."""
    child = at_terminal("session", "restore", ONE, "c2", dimensions=(24, 400))
    child.expect_exact(f"remove {project}/new/file")
    child.expect("Change 2 files")
    child.sendline("y")
    child.expect(pexpect.EOF)
    child.wait()
    assert child.exitstatus == 0
    assert _kept(project) == "1"


def test_change_of_another_program_is_kept_unless_forced(give: Give, written: Path, project: Path) -> None:
    """A file that the user has edited since is named and nothing is changed; `--force` puts it back, undoably."""
    (project / "kept").write_text("mine", encoding="utf-8")
    refused = give("restore", ONE, "c1", "-y", "--format", "json")
    assert refused.exit_code == 1
    assert json.loads(refused.stdout)["code"] == "restore_conflict"
    assert f"{project}/kept was changed by another program after checkpoint c2" in refused.stderr
    assert (project / "new/file").exists()
    assert "changed by another program" in give("restore", ONE, "c1", "--dry-run").stderr
    assert give("restore", ONE, "c1", "-y", "--force").exit_code == 0
    assert _kept(project) == "0"
    assert give("restore", ONE, "c4", "-y").exit_code == 0
    assert _kept(project) == "mine"


def test_a_session_that_wrote_nothing_says_so(give: Give, made: Made) -> None:
    """Without checkpoints the list is empty, an id is unknown, and two wishes at once are refused."""
    folder = made(ONE, "x")
    assert "has written no files" in give("restore", ONE).stderr
    assert json.loads(give("restore", ONE, "--format", "json").stdout) == {"id": ONE, "checkpoints": []}
    assert json.loads(give("restore", ONE, "--last-turn", "--format", "json").stdout)["checkpoint"] is None
    assert give("restore", ONE, "c1", "-y").exit_code == 2
    assert give("restore", ONE, "c1", "--list").exit_code == 2
    assert not (folder / "checkpoints").exists()


def test_names_of_files_cannot_steer_the_terminal(give: Give, made: Made, project: Path) -> None:
    """Escapes in the names of files and tools are taken out."""
    checkpoints = Checkpoints(made(ONE, "x"))
    path = project / "a\x1b[2Jb"
    checkpoints.before_write(path, tool="t\x1b[1m")
    path.write_text("x", encoding="utf-8")
    checkpoints.after_write(path)
    for arguments in (("--list",), ("c1", "--dry-run"), ("c1", "-y")):
        result = give("restore", ONE, *arguments)
        assert "\x1b" not in result.output
        assert "ab" in result.stdout
