"""`doctor` and `validate`: what this machine can do, and what a profile would be made of."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
from typing import Any

import pytest

#: Runs a program that sees no control groups.
WITHOUT_GROUPS = ("unshare", "--mount", "sh", "-c", 'mount -t tmpfs none /sys/fs/cgroup && exec "$@"', "sh")


def test_doctor_says_what_was_probed_and_why_something_was_refused(twin: Any) -> None:
    """Every backend is there with its features or its reason; the exit code tells whether any can be used."""
    identifier = twin.launch()
    twin.kill_keeper(identifier)
    ended = twin.run("doctor")
    record = ended.record
    assert {"embedded", "podman", "docker", "incus"} <= set(record["backends"])
    for backend in record["backends"].values():
        assert backend["available"] or backend["reason"]
    assert ended.code == (0 if record["usable"] else 1)
    assert [stale["id"] for stale in record["stale"]] == [identifier]
    assert set(record["bytes"]) == {"cache", "evidence", "universes"}
    assert record["bytes"]["universes"] > 0
    assert any("prune --mine" in remedy for remedy in record["remedies"])


def test_doctor_never_shows_a_password_of_the_package_index(twin: Any) -> None:
    """Of an index only the host is told."""
    twin.environ["PIP_INDEX_URL"] = "https://user:p4ssw0rd@index.example.com/simple"
    ended = twin.run("doctor")
    assert "index.example.com" in ended.record["package_index"]["hosts"]
    assert "p4ssw0rd" not in ended.stdout + ended.stderr


def test_doctor_says_when_there_are_no_control_groups(twin: Any) -> None:
    """The embedded backend works without them, and what holds the limits then is told to programs and to people."""
    hidden = WITHOUT_GROUPS if os.geteuid() == 0 else ()
    can_hide = shutil.which("unshare") and not subprocess.run([*hidden, "true"], capture_output=True).returncode
    if hidden and not can_hide:
        pytest.skip("control groups cannot be hidden from a program here")
    command = [*hidden, sys.executable, "-m", "amplifier_digital_twin", "doctor"]
    ended = subprocess.run(command, env=twin.environ, cwd="/", capture_output=True, text=True, timeout=90, check=False)
    embedded = json.loads(ended.stdout)["backends"]["embedded"]
    if not hidden and embedded["features"]["cgroups"] == "yes":
        pytest.skip("this user can make control groups")
    assert embedded["available"], embedded
    assert "each process is limited, all are watched" in embedded["features"]["cgroups"]
    assert f"embedded, cgroups: {embedded['features']['cgroups']}" in ended.stderr


def test_validate_tells_how_a_profile_would_be_launched(twin: Any) -> None:
    """The result has the profile as it was understood and the plan; nothing is made."""
    ended = twin.run("validate", str(twin.profile))
    assert ended.record["name"] == "pretend"
    assert ended.record["path"] == str(twin.profile)
    assert ended.code == (1 if "error" in ended.record["plan"] else 0)
    assert twin.universes() == []


def test_validate_tells_what_cannot_be_had_here(twin: Any) -> None:
    """A valid profile that cannot be launched on this machine is exit code 1, with the reason."""
    ended = twin.run("validate", str(twin.profile), "--backend", "embedded", "--base", "no-such-image:1")
    assert (ended.code, ended.record["valid"]) == (1, True)
    assert ended.record["plan"]["error"]["remedy"]


@pytest.mark.parametrize("text", ["dtu: 1\nname: x\nlimts: {}\n", "dtu: 1\nname: ${X}\n", "dtu: [\n"])
def test_invalid_profiles_are_errors_with_file_and_line(twin: Any, text: str) -> None:
    """What is wrong with a profile is told with its place, and exit code 2."""
    twin.profile.write_text(text, encoding="utf-8")
    ended = twin.run("validate", str(twin.profile))
    assert (ended.code, ended.record["error"]["code"]) == (2, "profile_invalid")
    assert f"{twin.profile}:" in ended.record["error"]["message"]
