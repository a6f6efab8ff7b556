"""reviewer: a change in a real repository, and the fault in it."""

from __future__ import annotations

import os
import subprocess
import sys
from typing import Any

BEFORE = """def mean(values):
    if not values:
        return 0.0
    return sum(values) / len(values)
"""
AFTER = """def mean(values):
    return sum(values) / len(values)
"""
SCENARIO = """
turns:
  - tool_calls:
      - name: delegate
        arguments: {agent: reviewer, instruction: "Review the last commit: it was meant to make mean() simpler."}
  - expect: {last_role: tool, contains: ["mean.py:2", "ZeroDivisionError"]}
    text: The change breaks empty lists.
agents:
  reviewer:
    - expect:
        system_contains: You look for what would hurt a user
        tools: [bash, grep, read_file]
      tool_calls:
        - {name: bash, arguments: {command: "git show --stat -p HEAD"}}
        - {name: grep, arguments: {pattern: "mean\\\\(", output_mode: content}}
    - expect: {last_role: tool, contains: ["-    if not values:", "report.py"]}
      tool_calls:
        - {name: bash, arguments: {command: "PYTHON -c 'from mean import mean; mean([])'"}}
        - {name: apply_patch, arguments: {type: delete_file, path: mean.py}}
    - expect: {last_role: tool, contains: "ZeroDivisionError: division by zero"}
      text: |-
        mean.py:2: mean([]) raises ZeroDivisionError where it was 0.0 before; report.py calls it with what a user gives.
"""


def git(folder: Any, *arguments: str) -> None:
    """Run git as nobody in particular."""
    identity = ["-c", "user.name=a", "-c", "user.email=a@example.com"]
    # Without the settings of whoever runs the tests: their hooks may refuse a commit, or want it signed.
    environ = {**os.environ, "GIT_CONFIG_GLOBAL": os.devnull, "GIT_CONFIG_NOSYSTEM": "1"}
    subprocess.run(["git", *identity, *arguments], cwd=folder, env=environ, check=True, capture_output=True)


async def test_reviewer_finds_the_fault(workshop: Any) -> None:
    """It reads the commit, runs the case that breaks, reports place and input, and can change nothing."""
    workshop.write("mean.py", BEFORE)
    workshop.write("report.py", "from mean import mean\n\nprint(mean([float(x) for x in input().split()]))\n")
    git(workshop.project, "init", "-q", "-b", "main")
    for text, message in ((BEFORE, "Add mean"), (AFTER, "Make mean simpler")):
        workshop.write("mean.py", text)
        git(workshop.project, "add", "-A")
        git(workshop.project, "commit", "-qm", message)
    workshop.allow({"action": "process.exec"}, {"action": "filesystem.write"})
    ran = await workshop.run(SCENARIO.replace("PYTHON", sys.executable), "Is the last commit right?")
    assert ran.answer == "The change breaks empty lists."
    used = ran.tools_used(ran.child("reviewer"))
    assert [name for name, _ in used] == ["apply_patch", "bash", "bash", "grep"]
    assert ("apply_patch", False) in used
    assert (workshop.project / "mean.py").read_text(encoding="utf-8") == AFTER
