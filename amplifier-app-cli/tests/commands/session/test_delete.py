"""`amplifier session delete` and `cleanup`."""

from __future__ import annotations

import json
import subprocess
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pexpect
import pytest
from click.testing import Result

from amplifier_kit.log.writer import SessionLog

Amplifier = Callable[..., subprocess.CompletedProcess[str]]
Give = Callable[..., Result]
Made = Callable[..., Path]

ONE = "11111111-0000-4000-8000-000000000001"
TWO = "22222222-0000-4000-8000-000000000002"
CHILD = "0000000000000000-1111111111111111_explorer"
DAY = 86_400.0


def test_nothing_is_deleted_without_a_word_from_the_user(amplifier: Amplifier, made: Made) -> None:
    """Without a terminal the command ends with 2, names the flag, and the session is there."""
    folder = made(ONE, "x")
    result = amplifier("session", "delete", ONE)
    assert (result.returncode, result.stdout) == (2, "")
    assert "--yes" in result.stderr
    assert folder.is_dir()


def test_a_session_is_deleted_with_what_it_started(amplifier: Amplifier, made: Made) -> None:
    """`--force` deletes a session and its children; its forks stay."""
    folder = made(ONE, "x")
    child = made(CHILD, "y", parent_id=ONE)
    fork = made(TWO, "x", parent_id=ONE, forked_at="2026-01-01T00:00:00+00:00")
    result = amplifier("session", "delete", ONE[:4], "--force", "--format", "json")
    assert json.loads(result.stdout)["deleted"] == [ONE, CHILD]
    assert not folder.exists()
    assert not child.exists()
    assert fork.exists()
    assert amplifier("session", "delete", ONE, "-f").returncode == 2


@pytest.mark.parametrize(("answer", "is_there"), [("n", True), ("y", False)])
def test_a_person_is_asked(made: Made, at_terminal: Callable[..., Any], answer: str, is_there: bool) -> None:
    """On a terminal the question names the session; no keeps it, yes deletes it."""
    folder = made(ONE, "about roses")
    child = at_terminal("session", "delete", ONE)
    child.expect("about roses")
    child.expect(r"\[y/N\]")
    child.sendline(answer)
    child.expect(pexpect.EOF)
    child.wait()
    assert folder.exists() == is_there
    assert child.exitstatus == (1 if is_there else 0)


def test_a_session_that_runs_is_not_deleted(give: Give, made: Made) -> None:
    """The process that runs it is named, and the session stays."""
    folder = made(ONE, "x")
    log = SessionLog(folder)
    try:
        result = give("delete", ONE, "-f", "--format", "json")
    finally:
        log.close()
    assert result.exit_code == 1
    assert json.loads(result.stdout)["code"] == "session_running"
    assert folder.exists()


def test_cleanup_deletes_what_is_old(amplifier: Amplifier, made: Made) -> None:
    """Sessions older than the given days go; young and named ones stay, and the reason is reported."""
    old = made(ONE, "old", age=40 * DAY)
    named = made(TWO, "named", age=40 * DAY, name="keep me")
    young = made("33333333-0000-4000-8000-000000000003", "young", age=20 * DAY)
    dry = amplifier("session", "cleanup", "--dry-run")
    assert dry.returncode == 0
    assert ONE in dry.stdout
    assert "would delete 1 session" in dry.stderr
    assert "it is named 'keep me'" in dry.stderr
    assert old.exists()
    refused = amplifier("session", "cleanup")
    assert (refused.returncode, refused.stdout) == (2, "")
    assert "--yes" in refused.stderr
    assert old.exists()
    done = json.loads(amplifier("session", "cleanup", "-d", "30", "-f", "--format", "json").stdout)
    assert [one["id"] for one in done["removed"]] == [ONE]
    assert [one["id"] for one in done["kept"]] == [TWO]
    assert (done["dry_run"], done["bytes"] > 0) == (False, True)
    assert not old.exists()
    assert named.exists()
    assert young.exists()
    assert amplifier("session", "cleanup", "-d", "30", "--include-named", "-f").returncode == 0
    assert not named.exists()


def test_cleanup_of_nothing_asks_nothing(give: Give, made: Made) -> None:
    """When nothing is old there is nothing to ask, and no session is touched."""
    folder = made(ONE, "x")
    result = give("cleanup")
    assert (result.exit_code, result.stdout) == (0, "")
    assert "nothing to delete" in result.stderr
    assert folder.exists()


def test_cleanup_stays_in_its_project_unless_told(give: Give, made: Made, tmp_path: Path) -> None:
    """Other projects are cleaned only when they are named, or all."""
    other = made(ONE, "x", age=40 * DAY, working_dir=str(tmp_path / "other"))
    give("cleanup", "-f")
    assert other.exists()
    assert ONE in give("cleanup", "--dry-run", "--project", str(tmp_path / "other")).stdout
    give("cleanup", "-f", "--all-projects")
    assert not other.exists()


@pytest.mark.parametrize("days", ["-1", "nan", "100000", "x"])
def test_an_age_that_is_none_is_refused(give: Give, made: Made, days: str) -> None:
    """Days below zero, beyond all measure, or no number at all delete nothing."""
    folder = made(ONE, "x", age=40 * DAY)
    assert give("cleanup", f"--days={days}", "-f").exit_code in (1, 2)
    assert folder.exists()
