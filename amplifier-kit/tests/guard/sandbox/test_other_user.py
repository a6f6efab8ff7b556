"""The sandbox of a user without rights."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest

#: Run commands in a sandbox around a project of the user's; print what they did.
PROGRAM = """
import json, os, subprocess
from pathlib import Path
from amplifier_kit.guard.sandbox.sandbox import Sandbox
from amplifier_kit.guard.sandbox.config import SandboxConfig

home = Path.home()
project = home / "project"
project.mkdir()
(home / "secret").write_text("of the user")
box = Sandbox(SandboxConfig(), project)
if not box.status.is_active:
    print(json.dumps({"reason": box.status.reason}))
    raise SystemExit
results = {}
for name, command in {
    "inside": "echo text > made; id -u",
    "outside": f"cat {home}/secret; echo text > {home}/made",
    "network": "exec 3<>/dev/tcp/192.0.2.1/80",
}.items():
    wrapped, environment = box.wrap(["/bin/bash", "-c", command], cwd=project)
    assert os.path.basename(wrapped[0]) == "bwrap"
    done = subprocess.run(wrapped, env=environment, capture_output=True, text=True, timeout=60)
    results[name] = [done.returncode, done.stdout, done.stderr]
box.close()
made = (project / "made").read_text(), (home / "made").exists()
print(json.dumps({"uid": os.getuid(), "results": results, "made": made}))
"""


def test_confinement_without_rights(as_another_user: Callable[[str], str]) -> None:
    """A user without rights has the same sandbox as root: the project can be written, nothing else is reached."""
    said = json.loads(as_another_user(PROGRAM))
    if "reason" in said:
        pytest.skip(f"the other user has no sandbox on this machine: {said['reason']}")
    results = said["results"]
    assert results["inside"][:2] == [0, f"{said['uid']}\n"]
    assert "of the user" not in results["outside"][1]
    assert "No such file" in results["outside"][2]
    assert results["network"][0] != 0
    assert "Network is unreachable" in results["network"][2]
    assert said["made"] == ["text\n", False]
