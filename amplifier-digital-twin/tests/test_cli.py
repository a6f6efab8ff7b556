"""The program: JSON on standard output, exit codes, and errors in one form."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest


def _run(home: Path, *arguments: str) -> tuple[int, dict[str, Any]]:
    done = subprocess.run(
        [sys.executable, "-m", "amplifier_digital_twin", *arguments],
        env={**os.environ, "AMPLIFIER_HOME": str(home)},
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode, json.loads(done.stdout)


def test_an_empty_home_has_no_universes(tmp_path: Path) -> None:
    """`list` works before anything was ever launched, and makes nothing."""
    assert _run(tmp_path / "home", "list") == (0, {"universes": [], "faults": {}})
    assert not (tmp_path / "home").exists()


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        (["status", "nothing"], "universe_unknown"),
        (["exec", "nothing", "--", "true"], "universe_unknown"),
        (["destroy", "nothing"], "universe_unknown"),
        (["check", "no-such-profile"], "profile_unknown"),
        (["launch", "e2e-event-logging", "--var", "REPO"], "bad_argument"),
        (["launch", "hello.yaml"], "profile_unknown"),
        (["lunch"], "usage"),
        (["prune"], "usage"),
    ],
)
def test_errors_are_json_with_code_message_and_remedy(tmp_path: Path, arguments: list[str], code: str) -> None:
    """A mistake of the user is an object with a stable code, and exit code 2."""
    exit_code, answer = _run(tmp_path / "home", *arguments)
    assert (exit_code, answer["error"]["code"]) == (2, code)
    assert set(answer["error"]) == {"code", "message", "remedy"}


def test_a_profile_that_needs_a_secret_says_so_before_anything_is_made(tmp_path: Path) -> None:
    """A missing secret is named; nothing was created for it."""
    path = tmp_path / "p.yaml"
    path.write_text("dtu: 1\nname: x\nsecrets: [NO_SUCH_KEY]\n", encoding="utf-8")
    exit_code, answer = _run(tmp_path / "home", "launch", str(path))
    assert (exit_code, answer["error"]["code"]) == (2, "secret_missing")
    assert not (tmp_path / "home" / "digital-twin" / "universes").exists()


def test_doctor_says_what_works_and_why_not(tmp_path: Path) -> None:
    """Each engine is available, or has a reason; the exit code says whether any is."""
    exit_code, answer = _run(tmp_path / "home", "doctor")
    assert set(answer["backends"]) == {"podman", "docker", "incus"}
    for backend in answer["backends"].values():
        assert backend["available"] or backend["reason"]
    assert exit_code == (0 if answer["usable"] else 1)
